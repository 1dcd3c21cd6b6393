package tiles

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// HashSize is the length of a hash in bytes.
const HashSize = sha256.Size

// Hash is a node of the tree.
type Hash [HashSize]byte

// The prefixes keep a leaf from being taken for an inner node (RFC 6962, section 2.1).
const (
	leafPrefix = 0
	nodePrefix = 1
)

// EmptyRoot is the root of a tree without entries: the hash of nothing.
func EmptyRoot() Hash { return sha256.Sum256(nil) }

// LeafHash is the hash of an entry as a leaf.
func LeafHash(entry []byte) Hash {
	// Most entries are small; for those no hasher has to live on the heap.
	var small [512]byte
	if len(entry) < len(small) {
		small[0] = leafPrefix
		return sha256.Sum256(small[:1+copy(small[1:], entry)])
	}
	h := sha256.New()
	h.Write([]byte{leafPrefix}) // a hash never fails
	h.Write(entry)
	var out Hash
	h.Sum(out[:0])
	return out
}

// NodeHash is the hash of the inner node over two others.
func NodeHash(left, right *Hash) Hash {
	var b [1 + 2*HashSize]byte
	b[0] = nodePrefix
	copy(b[1:], left[:])
	copy(b[1+HashSize:], right[:])
	return sha256.Sum256(b[:])
}

// String is the hash in base64, as checkpoints and proofs have it.
func (h Hash) String() string { return base64.StdEncoding.EncodeToString(h[:]) }

// ErrHash: not the base64 of 32 bytes.
var ErrHash = errors.New("not a hash: want 32 bytes in base64")

// ParseHash is the inverse of String. Only the canonical form is taken.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != base64.StdEncoding.EncodedLen(HashSize) {
		return h, ErrHash
	}
	b, err := decodeBase64(s)
	if err != nil || len(b) != HashSize {
		return h, ErrHash
	}
	return Hash(b), nil
}

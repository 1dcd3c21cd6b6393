package tiles

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// Frontier is the part of a tree needed to append to it and to know its root. It has its size and the roots of its largest complete
// subtrees. The zero value is the empty tree. It is owned by one goroutine; a copy is independent.
type Frontier struct {
	size  uint64
	peaks [64]Hash // peaks[h] is the root of the complete subtree of height h, if bit h of size is set
}

// Completed are the roots of the tiles that an Append completed. [l] is the root of a full tile of level l, and so the next hash of level
// l+1.
type Completed [8]Hash

// Size is the number of leaves.
func (f *Frontier) Size() uint64 { return f.size }

// Append adds a leaf. done gets the roots of the tiles it completes; the result is how many there are, from level 0 upwards.
func (f *Frontier) Append(leaf Hash, done *Completed) (levels int) {
	h := 0
	for ; f.size>>h&1 != 0; h++ {
		leaf = NodeHash(&f.peaks[h], &leaf)
		if (h+1)%Height == 0 {
			done[levels] = leaf
			levels++
		}
	}
	f.peaks[h] = leaf
	f.size++
	return levels
}

// Root is the root of the tree.
func (f *Frontier) Root() Hash {
	if f.size == 0 {
		return EmptyRoot()
	}
	h := bits.TrailingZeros64(f.size)
	root := f.peaks[h]
	for h++; h < 64; h++ {
		if f.size>>h&1 != 0 {
			root = NodeHash(&f.peaks[h], &root)
		}
	}
	return root
}

// Peak returns the root of the complete subtree of a height, if the tree has one on its right edge.
func (f *Frontier) Peak(height int) (Hash, bool) { return f.peaks[height], f.size>>height&1 != 0 }

// AppendBinary appends the frontier: the size as 8 bytes big endian, then the peaks from the highest down.
func (f *Frontier) AppendBinary(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, f.size)
	for h := 63; h >= 0; h-- {
		if f.size>>h&1 != 0 {
			dst = append(dst, f.peaks[h][:]...)
		}
	}
	return dst
}

// ErrFrontier: the bytes are not a frontier.
var ErrFrontier = errors.New("not a frontier")

// Decode is the inverse of AppendBinary. After an error f is of no use.
func (f *Frontier) Decode(b []byte) error {
	if len(b) < 8 {
		return ErrFrontier
	}
	*f = Frontier{size: binary.BigEndian.Uint64(b)}
	b = b[8:]
	if f.size > MaxSize || len(b) != HashSize*bits.OnesCount64(f.size) {
		return ErrFrontier
	}
	for h := 63; h >= 0; h-- {
		if f.size>>h&1 != 0 {
			f.peaks[h] = Hash(b)
			b = b[HashSize:]
		}
	}
	return nil
}

// Peaks appends the roots of the complete subtrees of k consecutive hashes of one level, the highest first. They are a frontier's hashes of
// a tile that is not full.
func Peaks(dst []Hash, hashes []byte) []Hash {
	k := len(hashes) / HashSize
	for at := 0; k > 0; {
		n := 1 << (bits.Len(uint(k)) - 1)
		dst = append(dst, TileRoot(hashes[at*HashSize:(at+n)*HashSize]))
		at, k = at+n, k-n
	}
	return dst
}

// TileRoot is the root over a power of two of hashes, at most Width.
func TileRoot(hashes []byte) Hash {
	var row [Width]Hash
	n := 0
	for ; n < Width && len(hashes) >= HashSize; n++ {
		row[n] = Hash(hashes)
		hashes = hashes[HashSize:]
	}
	for ; n > 1; n /= 2 {
		for i := range n / 2 {
			row[i] = NodeHash(&row[2*i], &row[2*i+1])
		}
	}
	return row[0]
}

package tiles

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Algorithm is the byte that stands before a key, and decides how it signs.
type Algorithm byte

// The algorithms of C2SP signed-note that this package knows. A key of another one can be parsed, carried and printed, but its
// signatures cannot be verified here.
const (
	Ed25519       Algorithm = 1
	CosignatureV1 Algorithm = 4 // Ed25519, over a text with the time
	MLDSA44       Algorithm = 6
)

var (
	// ErrKey: the text is not a key.
	ErrKey = errors.New("not a key")
	// ErrAlgorithm: a key of an algorithm this build cannot use.
	ErrAlgorithm = errors.New("key of an algorithm this build does not have")
	// ErrSignature: no signature of the key, or a bad one.
	ErrSignature = errors.New("no good signature of this key")
)

// Verifier is a public key with its name. It never changes.
type Verifier struct {
	Name string
	Alg  Algorithm
	Key  []byte
}

// ID is the number by which signature lines refer to the key: the first bytes of a hash of all of it.
func (v *Verifier) ID() uint32 {
	h := sha256.New()
	h.Write([]byte(v.Name)) // a hash never fails
	h.Write([]byte{'\n', byte(v.Alg)})
	h.Write(v.Key)
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// String is the key as one line, a vkey: name+id+base64.
func (v *Verifier) String() string {
	return fmt.Sprintf("%s+%08x+%s", v.Name, v.ID(), base64.StdEncoding.EncodeToString(append([]byte{byte(v.Alg)}, v.Key...)))
}

// Equal reports whether two keys are the same, name included.
func (v *Verifier) Equal(o *Verifier) bool {
	return v.Name == o.Name && v.Alg == o.Alg && bytes.Equal(v.Key, o.Key)
}

// Usable reports whether signatures of the key can be checked here.
func (v *Verifier) Usable() bool {
	return (v.Alg == Ed25519 || v.Alg == CosignatureV1) && len(v.Key) == ed25519.PublicKeySize
}

// ParseVerifier reads a vkey.
func ParseVerifier(text string) (*Verifier, error) {
	name, id, alg, key, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	v := &Verifier{Name: name, Alg: alg, Key: key}
	if v.ID() != id {
		return nil, fmt.Errorf("%w: its number does not belong to it", ErrKey)
	}
	return v, nil
}

func parseKey(text string) (name string, id uint32, alg Algorithm, key []byte, err error) {
	name, rest, ok := strings.Cut(text, "+")
	hex, b64, ok2 := strings.Cut(rest, "+")
	if !ok || !ok2 || !ValidKeyName(name) || len(hex) != 8 || len(b64) > 8<<10 || hex != strings.ToLower(hex) {
		return "", 0, 0, nil, ErrKey
	}
	n, err1 := strconv.ParseUint(hex, 16, 32)
	raw, err2 := decodeBase64(b64)
	if err1 != nil || err2 != nil || len(raw) < 2 || hex[0] == '+' || hex[0] == '-' {
		return "", 0, 0, nil, ErrKey
	}
	return name, uint32(n), Algorithm(raw[0]), raw[1:], nil
}

// Verify checks that the note carries a good signature of the key; the error is ErrSignature or ErrAlgorithm. For a witness's
// key use Cosigned.
func (n *Note) Verify(v *Verifier) error {
	if v.Alg != Ed25519 || !v.Usable() {
		return ErrAlgorithm
	}
	id := v.ID()
	for i := range n.Sigs {
		s := &n.Sigs[i]
		if s.Name != v.Name || s.KeyID != id {
			continue
		}
		if !ed25519.Verify(v.Key, []byte(n.Text), s.Sig) { // a bad line counts even if another line of the same key is good
			return ErrSignature
		}
		return nil
	}
	return ErrSignature
}

// Signer is a private key with its name. It never changes; Sign is safe for concurrent use.
type Signer struct {
	pub  Verifier
	priv ed25519.PrivateKey
}

// NewSigner makes an Ed25519 key from a seed of 32 random bytes, which it copies.
func NewSigner(name string, seed []byte) (*Signer, error) {
	if !ValidKeyName(name) || len(seed) != ed25519.SeedSize {
		return nil, ErrKey
	}
	priv := ed25519.NewKeyFromSeed(seed)
	return &Signer{pub: Verifier{Name: name, Alg: Ed25519, Key: priv.Public().(ed25519.PublicKey)}, priv: priv}, nil
}

// skeyPrefix begins a private key in its text form.
const skeyPrefix = "PRIVATE+KEY+"

// ParseSigner reads a private key in the form of golang.org/x/mod/sumdb/note: PRIVATE+KEY+name+id+base64.
func ParseSigner(text string) (*Signer, error) {
	rest, ok := strings.CutPrefix(text, skeyPrefix)
	if !ok {
		return nil, ErrKey
	}
	name, id, alg, seed, err := parseKey(rest)
	if err != nil {
		return nil, err
	}
	if alg != Ed25519 {
		return nil, ErrAlgorithm
	}
	s, err := NewSigner(name, seed)
	if err != nil {
		return nil, err
	}
	if s.pub.ID() != id {
		return nil, fmt.Errorf("%w: its number does not belong to it", ErrKey)
	}
	return s, nil
}

// Private is the key in the form ParseSigner reads. It is the secret: it belongs into a file only its owner can read.
func (s *Signer) Private() string {
	raw := append([]byte{byte(Ed25519)}, s.priv.Seed()...)
	return fmt.Sprintf("%s%s+%08x+%s", skeyPrefix, s.pub.Name, s.pub.ID(), base64.StdEncoding.EncodeToString(raw))
}

// Verifier is the public half.
func (s *Signer) Verifier() *Verifier { return &s.pub }

// Sign adds a signature line to the note.
func (s *Signer) Sign(n *Note) {
	n.Sigs = append(n.Sigs, Signature{Name: s.pub.Name, KeyID: s.pub.ID(), Sig: ed25519.Sign(s.priv, []byte(n.Text))})
}

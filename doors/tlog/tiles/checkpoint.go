package tiles

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrCheckpoint: the text of a note is not a checkpoint.
var ErrCheckpoint = errors.New("not a checkpoint")

// Checkpoint is a log's statement of itself at one size (C2SP tlog-checkpoint): the text of a signed note.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   Hash
	// Extensions are further lines, without their newlines. Their use is discouraged; they are carried.
	Extensions []string
}

// Text is the checkpoint as the text of a note.
func (c *Checkpoint) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
	for _, e := range c.Extensions {
		b.WriteString(e + "\n")
	}
	return b.String()
}

// ParseCheckpoint reads the text of a note.
func ParseCheckpoint(text string) (*Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[len(lines)-1] != "" || lines[0] == "" {
		return nil, ErrCheckpoint
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return nil, ErrCheckpoint
	}
	root, err := ParseHash(lines[2])
	if err != nil {
		return nil, ErrCheckpoint
	}
	c := &Checkpoint{Origin: lines[0], Size: size, Root: root, Extensions: lines[3 : len(lines)-1]}
	for _, e := range c.Extensions {
		if e == "" {
			return nil, ErrCheckpoint
		}
	}
	if len(c.Extensions) == 0 {
		c.Extensions = nil
	}
	return c, nil
}

// OpenCheckpoint reads a signed checkpoint of the log with this key; its name is the origin. The note comes with it, for the cosignatures
// it may carry.
func OpenCheckpoint(b []byte, key *Verifier) (*Checkpoint, *Note, error) {
	n, err := ParseNote(b)
	if err != nil {
		return nil, nil, err
	}
	if err := n.Verify(key); err != nil {
		return nil, nil, err
	}
	c, err := ParseCheckpoint(n.Text)
	if err != nil {
		return nil, nil, err
	}
	if c.Origin != key.Name {
		return nil, nil, fmt.Errorf("%w of %s but of %s", ErrCheckpoint, key.Name, c.Origin)
	}
	return c, n, nil
}

// cosigned is the signed text of a cosignature/v1: a header with the time in seconds, and the note's text.
func cosigned(text string, unix uint64) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", unix, text)
}

// Cosigned checks that the note carries a good cosignature/v1 of the witness and returns its time (Unix, seconds). The error
// is ErrSignature or ErrAlgorithm.
func (n *Note) Cosigned(v *Verifier) (unix uint64, err error) {
	if v.Alg != CosignatureV1 || !v.Usable() {
		return 0, ErrAlgorithm
	}
	id := v.ID()
	for i := range n.Sigs {
		s := &n.Sigs[i]
		if s.Name != v.Name || s.KeyID != id {
			continue
		}
		if len(s.Sig) != 8+ed25519.SignatureSize {
			return 0, ErrSignature
		}
		at := binary.BigEndian.Uint64(s.Sig)
		if !ed25519.Verify(v.Key, cosigned(n.Text, at), s.Sig[8:]) {
			return 0, ErrSignature
		}
		return at, nil
	}
	return 0, ErrSignature
}

// Carry adds another program's signature line, a witness's for example, unless the note has one of that key. The note's text must be the
// one it was made for; the caller should have verified it.
func (n *Note) Carry(s Signature) {
	for i := range n.Sigs {
		if n.Sigs[i].Name == s.Name && n.Sigs[i].KeyID == s.KeyID {
			return
		}
	}
	n.Sigs = append(n.Sigs, s)
}

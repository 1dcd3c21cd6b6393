package tiles

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrTlogProof: the text is not a tlog-proof.
var ErrTlogProof = errors.New("not a tlog-proof")

// TlogProof is everything needed to check offline that an entry is in a log (C2SP tlog-proof).
type TlogProof struct {
	Index uint64
	// Hashes is the inclusion proof in the tree of the checkpoint.
	Hashes []Hash
	// Checkpoint is the signed note.
	Checkpoint []byte
	// Extra is the application's; nil: none.
	Extra []byte
}

const proofHeader = "c2sp.org/tlog-proof@v1"

// maxProofHashes bounds a proof: no tree is higher.
const maxProofHashes = 64

// Append appends the proof as text.
func (p *TlogProof) Append(dst []byte) []byte {
	dst = append(append(dst, proofHeader...), '\n')
	if p.Extra != nil {
		dst = append(dst, "extra "...)
		dst = append(base64.StdEncoding.AppendEncode(dst, p.Extra), '\n')
	}
	dst = fmt.Appendf(dst, "index %d\n", p.Index)
	for i := range p.Hashes {
		dst = append(base64.StdEncoding.AppendEncode(dst, p.Hashes[i][:]), '\n')
	}
	dst = append(dst, '\n')
	return append(dst, p.Checkpoint...)
}

// ParseTlogProof reads the text and checks its form. Verify checks what it says.
func ParseTlogProof(b []byte) (*TlogProof, error) {
	if len(b) > 2*maxNoteBytes {
		return nil, ErrTlogProof
	}
	head, note, ok := strings.Cut(string(b), "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || lines[0] != proofHeader || len(lines) < 2 {
		return nil, ErrTlogProof
	}
	p := &TlogProof{Checkpoint: []byte(note)}
	lines = lines[1:]
	if extra, has := strings.CutPrefix(lines[0], "extra "); has {
		raw, err := decodeBase64(extra)
		if err != nil || len(lines) < 2 {
			return nil, ErrTlogProof
		}
		p.Extra, lines = append([]byte{}, raw...), lines[1:]
	}
	number, ok := strings.CutPrefix(lines[0], "index ")
	index, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || strconv.FormatUint(index, 10) != number || len(lines)-1 > maxProofHashes {
		return nil, ErrTlogProof
	}
	p.Index = index
	for _, line := range lines[1:] {
		h, err := ParseHash(line)
		if err != nil {
			return nil, ErrTlogProof
		}
		p.Hashes = append(p.Hashes, h)
	}
	if _, err := ParseNote(p.Checkpoint); err != nil {
		return nil, ErrTlogProof
	}
	return p, nil
}

// Verify checks that the proof shows the entry in the log with this key, and returns the checkpoint that says so.
func (p *TlogProof) Verify(entry []byte, key *Verifier) (*Checkpoint, error) {
	c, _, err := OpenCheckpoint(p.Checkpoint, key)
	if err != nil {
		return nil, err
	}
	return c, VerifyInclusion(p.Index, c.Size, LeafHash(entry), p.Hashes, c.Root)
}

package format

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// A manifest says that a snapshot is whole: it is put when all pieces are there.
//
//	magic, cluster, timeline, index, term, state hash, wall time (8 bytes each)
//	u count; each piece: u size, SHA-256
//	CRC of all that
//
// The byte table is docs/formats/archive.md.
const (
	manifestMagic   = "HFMANI01" // the digits are the version
	manifestHeadLen = 7 * 8
	minPieceLen     = 1 + sha256.Size

	// MaxPieceBytes bounds a piece of a snapshot.
	MaxPieceBytes = 8 << 20
	// MaxPieces bounds their number: 8 TiB.
	MaxPieces = 1 << 20
)

// Piece is one piece of a snapshot: its size, 1 to MaxPieceBytes, and the hash of its bytes.
type Piece struct {
	Size int
	Hash Hash
}

// Manifest lists the pieces of a snapshot. One after another they are the stream of docs/formats/snapshot.md.
type Manifest struct {
	Cluster, Timeline uint64
	Index, Term       uint64 // of the last entry in the snapshot
	State             uint64 // the rolling state hash after that entry
	WallNs            int64  // time along the log at that entry: ns since 1970, compared with --at
	Pieces            []Piece
}

// Bytes is the size of the whole snapshot.
func (m *Manifest) Bytes() (n int64) {
	for _, p := range m.Pieces {
		n += int64(p.Size)
	}
	return n
}

// PieceName is the name of the piece of that number, from 0.
func (m *Manifest) PieceName(number int) string {
	return PieceName(m.Timeline, m.Index, number, m.Pieces[number].Hash)
}

// CheckPiece returns nil if b is the piece of that number, and otherwise a *Fault.
func (m *Manifest) CheckPiece(number int, b []byte) error {
	p := m.Pieces[number]
	switch {
	case len(b) != p.Size:
		return &Fault{Name: m.PieceName(number), Offset: min(len(b), p.Size),
			Reason: fmt.Sprintf("it has %d bytes, and %d by its manifest", len(b), p.Size)}
	case sha256.Sum256(b) != p.Hash:
		return &Fault{Name: m.PieceName(number), Reason: "it has another hash than its manifest says"}
	}
	return nil
}

// Encode returns the name and the bytes of the manifest's object. An error says what no manifest may have; then there is none.
func (m *Manifest) Encode() (name string, object []byte, err error) {
	if err := m.check(); err != nil {
		return "", nil, err
	}
	b := append(make([]byte, 0, manifestHeadLen+9+len(m.Pieces)*(4+sha256.Size)), manifestMagic...)
	for _, v := range []uint64{m.Cluster, m.Timeline, m.Index, m.Term, m.State, uint64(m.WallNs)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Pieces)))
	for _, p := range m.Pieces {
		b = binary.AppendUvarint(b, uint64(p.Size))
		b = append(b, p.Hash[:]...)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return ManifestName(m.Timeline, m.Index), b, nil
}

// check finds what no manifest may have.
func (m *Manifest) check() error {
	switch {
	case m.Index == 0 || m.Term == 0:
		return fmt.Errorf("snapshot at %d@%d", m.Index, m.Term)
	case len(m.Pieces) == 0 || len(m.Pieces) > MaxPieces:
		return fmt.Errorf("snapshot in %d pieces, of 1 to %d", len(m.Pieces), MaxPieces)
	}
	for i, p := range m.Pieces {
		if p.Size < 1 || p.Size > MaxPieceBytes {
			return fmt.Errorf("piece %d of %d bytes, of 1 to %d", i, p.Size, MaxPieceBytes)
		}
	}
	return nil
}

var errPieceSize = errors.New("size of a piece")

// DecodeManifest reads the manifest of that name. It accepts exactly the output of Encode, keeps nothing of b, and allocates by b's length
// and not by the numbers in it. The error is a *Fault.
func DecodeManifest(name string, b []byte) (*Manifest, error) {
	fault := func(offset int, reason string) (*Manifest, error) {
		return nil, &Fault{Name: name, Offset: offset, Reason: reason}
	}
	switch {
	case len(b) > MaxBytes:
		return fault(MaxBytes, fmt.Sprintf("it has %d bytes, more than any object", len(b)))
	case len(b) < manifestHeadLen+4:
		return fault(len(b), "it ends in its head")
	case string(b[:len(manifestMagic)]) != manifestMagic:
		return fault(0, "it is no manifest, or one of another version")
	case crc32.Checksum(b[:len(b)-4], castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]):
		return fault(0, "it has another checksum")
	}
	body := b[:len(b)-4]
	r := wire.NewReader(body[len(manifestMagic):])
	m := &Manifest{Cluster: r.Uint64(), Timeline: r.Uint64(), Index: r.Uint64(), Term: r.Uint64(), State: r.Uint64(), WallNs: int64(r.Uint64())}
	if name != ManifestName(m.Timeline, m.Index) {
		return fault(len(manifestMagic), "it is another object: "+ManifestName(m.Timeline, m.Index))
	}
	at := len(body) - r.Len()
	n := r.Count(MaxPieces, minPieceLen)
	m.Pieces = make([]Piece, 0, n)
	for range n {
		at = len(body) - r.Len()
		size := r.Uvarint()
		if size > MaxPieceBytes {
			r.Fail(errPieceSize)
		}
		p := Piece{Size: int(size)}
		copy(p.Hash[:], r.Take(sha256.Size))
		if r.Err() != nil {
			break
		}
		m.Pieces = append(m.Pieces, p)
	}
	if r.Err() == nil {
		at = len(body) - r.Len()
	}
	if err := r.End(); err != nil {
		return fault(at, err.Error())
	}
	if err := m.check(); err != nil {
		return fault(len(manifestMagic), err.Error())
	}
	return m, nil
}

package restore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/objstore"
)

// ErrOtherHistory: the index already has a snapshot of another history than the one to be put.
var ErrOtherHistory = errors.New("a snapshot of another history")

// PutSnapshot cuts r, a snapshot as docs/formats/snapshot.md has it, into pieces and puts each. The manifest comes last and makes the
// snapshot valid. m has its cluster, timeline, index, term, state and time; PutSnapshot sets the pieces. progress (nil: no calls) hears the
// number of bytes after each piece. One piece is in memory at a time, and a second one where there is one of its name already. r is read to
// its end, and not closed.
//
// The result is the manifest as it lies in the store. It may be another member's, with other pieces. A snapshot of the same state at that
// index is as good, and the pieces just put are leftovers.
//
// Errors: r's, the store's and ctx's; a *archive.Fault for an object that is damaged; ErrOtherHistory. Nothing is repeated here, and the
// call can be: pieces that are there already are recognised by their bytes.
func PutSnapshot(ctx context.Context, s objstore.Store, m format.Manifest, r io.Reader, progress func(bytes int64)) (*format.Manifest, error) {
	m.Pieces = nil
	var done int64
	for b := make([]byte, format.MaxPieceBytes); ; {
		n, err := io.ReadFull(r, b)
		if n > 0 {
			if len(m.Pieces) == format.MaxPieces {
				return nil, fmt.Errorf("snapshot at %d: more than %d pieces", m.Index, format.MaxPieces)
			}
			m.Pieces = append(m.Pieces, format.Piece{Size: n, Hash: sha256.Sum256(b[:n])})
			if err := putPiece(ctx, s, &m, len(m.Pieces)-1, b[:n]); err != nil {
				return nil, err
			}
			if done += int64(n); progress != nil {
				progress(done)
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return putManifest(ctx, s, &m)
		case err != nil:
			return nil, fmt.Errorf("read snapshot at %d: %w", m.Index, err)
		}
	}
}

// putPiece puts the piece of that number, or finds it there.
func putPiece(ctx context.Context, s objstore.Store, m *format.Manifest, number int, b []byte) error {
	name := m.PieceName(number)
	err := s.PutIfAbsent(ctx, objstore.Object{Name: name, Data: b})
	if !errors.Is(err, objstore.ErrExists) {
		return err
	}
	was, err := s.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("read piece that is there: %w", err)
	}
	return m.CheckPiece(number, was)
}

// putManifest makes the snapshot one.
func putManifest(ctx context.Context, s objstore.Store, m *format.Manifest) (*format.Manifest, error) {
	name, object, err := m.Encode()
	if err != nil {
		return nil, err
	}
	err = s.PutIfAbsent(ctx, objstore.Object{Name: name, Data: object})
	switch {
	case err == nil:
		return m, nil
	case !errors.Is(err, objstore.ErrExists):
		return nil, err
	}
	b, err := s.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read manifest that is there: %w", err)
	}
	is, err := format.DecodeManifest(name, b)
	if err != nil {
		return nil, err
	}
	if is.Cluster != m.Cluster || is.Term != m.Term || is.State != m.State {
		return nil, fmt.Errorf("%w: %s is of cluster %016x, %d@%d, state %016x; here it is cluster %016x, %d@%d, state %016x", ErrOtherHistory,
			name, is.Cluster, is.Index, is.Term, is.State, m.Cluster, m.Index, m.Term, m.State)
	}
	return is, nil
}

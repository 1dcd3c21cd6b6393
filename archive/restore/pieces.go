package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
)

// pieces is the stream of a snapshot, of pieces that are fetched ahead and held against their hashes. With a directory they are kept there, so
// that who begins again does not fetch them again.
type pieces struct {
	ctx   context.Context
	ahead *ahead[piece]
	b     []byte
	read  func(bytes int)
	err   error // why there is no more
}

type piece struct {
	b   []byte
	err error
}

// pieces begins a stream. keep is where pieces are kept, "" nowhere; read hears of each piece. Its errors are an *archive.Fault, the
// store's, the disk's and ctx's.
func (a *Archive) pieces(ctx context.Context, m *format.Manifest, f disk.FS, keep string, read func(bytes int)) *pieces {
	p := &pieces{ctx: ctx, read: read}
	number := 0
	p.ahead = &ahead[piece]{a: a, job: func(context.Context) (func(context.Context) piece, int64, error) {
		n := number
		if n == len(m.Pieces) {
			return nil, 0, nil
		}
		number++
		return func(ctx context.Context) (is piece) {
			is.b, is.err = a.piece(ctx, m, n, f, keep)
			return is
		}, int64(m.Pieces[n].Size), nil
	}}
	return p
}

// piece is one that was kept, or is fetched and kept.
func (a *Archive) piece(ctx context.Context, m *format.Manifest, number int, f disk.FS, keep string) ([]byte, error) {
	kept := filepath.Join(keep, fmt.Sprintf("piece-%07d", number))
	if keep != "" {
		b, err := f.ReadFile(kept)
		if err == nil && m.CheckPiece(number, b) == nil {
			return b, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	b, err := a.get(ctx, m.PieceName(number))
	if err != nil {
		return nil, fmt.Errorf("piece %d of %d: %w", number, len(m.Pieces), err)
	}
	if err := m.CheckPiece(number, b); err != nil {
		return nil, err
	}
	if keep == "" {
		return b, nil
	}
	// Not synced: the hash shows what a crash leaves of it.
	w, err := f.Create(kept)
	if err != nil {
		return nil, err
	}
	_, err = w.WriteAt(b, 0)
	return b, errors.Join(err, w.Close())
}

// Read implements io.Reader.
func (p *pieces) Read(b []byte) (int, error) {
	for len(p.b) == 0 {
		next, ok, err := p.ahead.next(p.ctx)
		switch {
		case p.err != nil:
		case err != nil:
			p.err = err
		case !ok:
			return 0, io.EOF
		case next.err != nil:
			p.err = next.err
		}
		if p.err != nil {
			return 0, p.err
		}
		if p.b = next.b; p.read != nil {
			p.read(len(p.b))
		}
	}
	n := copy(b, p.b)
	p.b = p.b[n:]
	return n, nil
}

// ended returns why the snapshot that was read cannot be used, nil if it can: err is what its reader said, info what it found.
func (p *pieces) ended(m *format.Manifest, info *node.SnapshotInfo, err error) error {
	name := format.ManifestName(m.Timeline, m.Index)
	if err == nil { // it was read to its end, and must have been read no further
		var one [1]byte
		if n, _ := p.Read(one[:]); n > 0 {
			return &format.Fault{Name: name, Reason: "its pieces go on after the end of the snapshot"}
		}
	}
	switch {
	case p.err != nil:
		return p.err // the reader has only heard of it
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case info.Cluster != m.Cluster || info.Index != m.Index || info.Term != m.Term:
		return &format.Fault{Name: name, Reason: fmt.Sprintf("it is of cluster %016x at %d@%d, and its pieces are of cluster %016x at %d@%d",
			m.Cluster, m.Index, m.Term, info.Cluster, info.Index, info.Term)}
	}
	return nil
}

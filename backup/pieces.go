package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/holdfastdb/holdfast/archive"
	"github.com/holdfastdb/holdfast/disk"
)

// pieces is the stream of a snapshot, of pieces that are fetched ahead and held against their hashes. With a directory they are kept there, so
// that who begins again does not fetch them again.
type pieces struct {
	ctx   context.Context
	ahead *ahead[piece]
	b     []byte
	read  func(bytes int)
}

type piece struct {
	b   []byte
	err error
}

// pieces begins a stream. keep is where pieces are kept, "" nowhere; read hears of each piece. Its errors are an *archive.Fault, the
// store's, the disk's and ctx's.
func (a *Archive) pieces(ctx context.Context, m *archive.Manifest, f disk.FS, keep string, read func(bytes int)) *pieces {
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
func (a *Archive) piece(ctx context.Context, m *archive.Manifest, number int, f disk.FS, keep string) ([]byte, error) {
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
	// Not synced: what a crash leaves of it is told by its hash.
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
		case err != nil:
			return 0, err
		case !ok:
			return 0, io.EOF
		case next.err != nil:
			return 0, next.err
		}
		if p.b = next.b; p.read != nil {
			p.read(len(p.b))
		}
	}
	n := copy(b, p.b)
	p.b = p.b[n:]
	return n, nil
}

// end looks whether the stream of the snapshot was read to its end and no further.
func (p *pieces) end(m *archive.Manifest) error {
	var one [1]byte
	switch n, err := io.ReadFull(p, one[:]); {
	case n > 0:
		return &archive.Fault{Name: archive.ManifestName(m.Timeline, m.Index), Reason: "its pieces go on after the end of the snapshot"}
	case err != io.EOF:
		return err
	}
	return nil
}

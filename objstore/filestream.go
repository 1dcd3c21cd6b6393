package objstore

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// PutFrom implements Store. The file is written beside its place as every other.
func (s *File) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	if err := checkStream(name, size); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	as := s.replace
	if ifAbsent {
		as = s.create
	}
	return s.place(name, newExact(ctx, r, size), as)
}

// Open implements Store. A file that is replaced is read on as it was.
func (s *File) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := checkStream(name, off); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(s.dir, filepath.FromSlash(name)))
	if isAbsent(err) {
		return nil, fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no object", name)
	case info.Size() < off:
		err = io.ErrUnexpectedEOF
	default:
		_, err = f.Seek(off, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	return &upTo{r: f, c: f, ctx: ctx, left: n}, nil
}

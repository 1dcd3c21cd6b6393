package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/holdfastdb/holdfast/core/disk"
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
	return s.open(ctx, name, off, n, math.MaxInt64)
}

// open is Open of a file of most bytes at most, or ErrTooLarge.
func (s *File) open(ctx context.Context, name string, off, n, most int64) (r io.ReadCloser, err error) {
	if err := checkStream(name, off); err != nil {
		return nil, err
	}
	if err := s.enter(false); err != nil {
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	defer s.leave(&err)
	f, err := s.fs.OpenRead(s.path(name))
	switch {
	case isAbsent(err):
		return nil, fmt.Errorf("%s: %w", name, ErrAbsent)
	case errors.Is(err, disk.ErrNotRegular):
		return nil, fmt.Errorf("get %s: %s: %w", name, s.path(name), ErrSpecial)
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	size, err := f.Size()
	switch {
	case err != nil:
		err = fmt.Errorf("get %s: %w", name, err)
	case size > most:
		err = tooLarge(name, most)
	case size < off:
		err = fmt.Errorf("get %s: %w", name, io.ErrUnexpectedEOF)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return &upTo{r: io.NewSectionReader(f, off, math.MaxInt64-off), c: f, ctx: ctx, left: n}, nil
}

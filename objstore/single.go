package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// singleWriter reads the present object of a store without conditions before it writes.
type singleWriter struct{ Store }

// SingleWriter makes a Store of one that ignores or refuses conditions: it looks before it writes. Two writers can both be told that they have
// created one object, and the later one's stays. So it is for a caller who knows that no other program writes there.
func SingleWriter(s Store) Store { return &singleWriter{s} }

// PutIfAbsent implements Store.
func (s *singleWriter) PutIfAbsent(ctx context.Context, o Object) error {
	if err := s.free(ctx, o.Name); err != nil {
		return err
	}
	return s.Put(ctx, o)
}

// PutFrom implements Store.
func (s *singleWriter) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	if ifAbsent {
		if err := s.free(ctx, name); err != nil {
			return err
		}
	}
	return s.Store.PutFrom(ctx, name, size, r, false)
}

// PutIfMatch implements Store.
func (s *singleWriter) PutIfMatch(ctx context.Context, o Object, was string) (string, error) {
	_, is, err := s.GetVersion(ctx, o.Name)
	if err != nil && !errors.Is(err, ErrAbsent) {
		return "", err
	}
	if is != was {
		return "", fmt.Errorf("put %s: %w", o.Name, ErrChanged)
	}
	if err := s.Put(ctx, o); err != nil {
		return "", err
	}
	_, version, err := s.GetVersion(ctx, o.Name)
	return version, err
}

// free reports ErrExists if there is an object.
func (s *singleWriter) free(ctx context.Context, name string) error {
	in, err := s.Open(ctx, name, 0, 0)
	switch {
	case errors.Is(err, ErrAbsent):
		return nil
	case err != nil:
		return err
	}
	_ = in.Close() // nothing was read
	return fmt.Errorf("put %s: %w", name, ErrExists)
}

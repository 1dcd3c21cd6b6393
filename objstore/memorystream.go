package objstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// PutFrom implements Store, except for its bound: an object in memory takes memory.
func (s *Memory) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	if err := checkStream(name, size); err != nil {
		return err
	}
	b, err := io.ReadAll(newExact(ctx, r, size))
	if err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	if ifAbsent {
		return s.PutIfAbsent(ctx, Object{Name: name, Data: b})
	}
	return s.Put(ctx, Object{Name: name, Data: b})
}

// Open implements Store.
func (s *Memory) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := checkStream(name, off); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	b, ok := s.objects[name] // never changed
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w", name, ErrAbsent)
	case int64(len(b)) < off:
		return nil, fmt.Errorf("get %s: %w", name, io.ErrUnexpectedEOF)
	}
	return &upTo{r: bytes.NewReader(b[off:]), c: io.NopCloser(nil), ctx: ctx, left: n}, nil
}

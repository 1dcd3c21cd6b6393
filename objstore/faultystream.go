package objstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// PutFrom implements Store. It reads the stream before it sends anything, because a request may arrive twice, and later than its caller
// waits.
func (s *Faulty) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	if err := checkStream(name, size); err != nil {
		return err
	}
	b, err := io.ReadAll(newExact(ctx, r, size))
	if err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	put := func(ctx context.Context, b []byte) error {
		return s.under.PutFrom(ctx, name, int64(len(b)), bytes.NewReader(b), ifAbsent)
	}
	return sendWrite(ctx, s, "put", name, func(ctx context.Context) error { return put(ctx, b) },
		func(ctx context.Context) error {
			if err := put(ctx, b[:len(b)/2]); err != nil {
				return err
			}
			return failure("put", name, http.StatusInternalServerError)
		})
}

// mostBeforeFailure is how many bytes come at most before a reading fails that fails by half.
const mostBeforeFailure = 64 << 10

// Open implements Store. Its fate is drawn when it begins, and only its beginning is delayed. Half of it fails on the way.
func (s *Faulty) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	open := func(context.Context) (io.ReadCloser, error) { return s.under.Open(ctx, name, off, n) }
	return send(ctx, s, request[io.ReadCloser]{verb: "get", name: name, do: open,
		doHalf: func(ctx context.Context) (io.ReadCloser, error) {
			r, err := open(ctx)
			if err != nil {
				return nil, err
			}
			return &broken{ReadCloser: r, left: s.number(mostBeforeFailure), err: fmt.Errorf("get %s: %w", name, io.ErrUnexpectedEOF)}, nil
		}})
}

// broken is a reader that fails, after left bytes or in place of its end.
type broken struct {
	io.ReadCloser
	left int
	err  error
}

// Read implements io.Reader.
func (b *broken) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	if b.left -= n; err == io.EOF {
		err = b.err
	}
	return n, err
}

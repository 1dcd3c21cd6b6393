package objstore

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// exact reads size bytes of a stream and holds back the last of them until it knows that they are the last. An upload from it is never
// complete if the stream's length is wrong. It ends with ctx.
type exact struct {
	ctx  context.Context
	r    io.Reader
	left int64
	done bool // the stream's end was seen

	mu     sync.Mutex
	err    error // the error that ended it, other than its end; guarded by mu
	closed bool  // guarded by mu
}

func newExact(ctx context.Context, r io.Reader, size int64) *exact {
	return &exact{ctx: ctx, r: r, left: size}
}

// Read implements io.Reader. A client that has given up a request may still read its body: that is not let through after close.
func (e *exact) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return 0, io.ErrClosedPipe
	case e.err != nil:
		return 0, e.err
	case e.done:
		return 0, io.EOF
	}
	n, err := e.read(p)
	e.err = err
	if err == nil && n == 0 && e.done {
		return 0, io.EOF
	}
	return n, err
}

func (e *exact) read(p []byte) (n int, err error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	if e.left > 0 {
		n, err = e.r.Read(p[:min(int64(len(p)), e.left)])
		e.left -= int64(n)
		if err == io.EOF && e.left > 0 {
			return 0, fmt.Errorf("the stream ends %d bytes early: %w", e.left, io.ErrUnexpectedEOF)
		}
		if err != nil && err != io.EOF {
			return 0, err
		}
	}
	if e.left > 0 {
		return n, nil
	}
	if err == nil {
		var more [1]byte
		if _, err = io.ReadFull(e.r, more[:]); err == nil {
			return 0, fmt.Errorf("the stream has more bytes than was said")
		}
	}
	if err != io.EOF {
		return 0, err
	}
	if err := e.ctx.Err(); err != nil { // a caller that went while the last bytes came
		return 0, err
	}
	e.done = true
	return n, nil
}

// close waits for a read that is going on, and lets no other begin. It returns what ended the stream, if that was not its end.
func (e *exact) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return e.err
}

// place is where a stream can be read again: from byte at on.
type place struct {
	io.ReaderAt
	at int64
}

// placeOf is where r stands, if it can be read at any place.
func placeOf(r io.Reader) (place, bool) {
	at, ok := r.(io.ReaderAt)
	if !ok {
		return place{}, false
	}
	p := place{ReaderAt: at}
	if s, ok := r.(io.Seeker); ok {
		var err error
		if p.at, err = s.Seek(0, io.SeekCurrent); err != nil {
			return place{}, false // a pipe is an *os.File too
		}
	}
	return p, true
}

// measure finds out whether there are size bytes from there on, and no more.
func (p place) measure(size int64) error {
	var one [1]byte
	if size > 0 {
		if n, err := p.ReadAt(one[:], p.at+size-1); n == 0 {
			if err == io.EOF {
				err = fmt.Errorf("the stream has fewer than %d bytes: %w", size, io.ErrUnexpectedEOF)
			}
			return err
		}
	}
	switch n, err := p.ReadAt(one[:], p.at+size); {
	case n > 0:
		return fmt.Errorf("the stream has more than %d bytes", size)
	case err != io.EOF:
		return err
	}
	return nil
}

// upTo is n bytes of an object that may end before them.
type upTo struct {
	r    io.Reader
	c    io.Closer
	ctx  context.Context
	left int64 // negative: to the end
}

// Read implements io.Reader.
func (u *upTo) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	if u.left == 0 {
		return 0, io.EOF
	}
	if u.left > 0 {
		p = p[:min(int64(len(p)), u.left)]
	}
	n, err := u.r.Read(p)
	if u.left > 0 {
		if u.left -= int64(n); err == io.EOF && u.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// Close implements io.Closer.
func (u *upTo) Close() error { return u.c.Close() }

// checkStream is checkName for streams.
func checkStream(name string, numbers ...int64) error {
	for _, n := range numbers {
		if n < 0 {
			return fmt.Errorf("%s: a size or an offset of %d bytes", name, n)
		}
	}
	return checkName(name)
}

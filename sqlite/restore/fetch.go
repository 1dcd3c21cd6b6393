package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/superfly/ltx"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

const (
	// partBytes is the size of one request. Read-ahead takes that much for each request in flight.
	partBytes = 2 << 20
	// tries is how often a part is asked for before the store's error is the caller's.
	tries     = 5
	firstWait = 100 * time.Millisecond
)

// fetch reads files one behind the other, each from its beginning or from an offset on, with several requests on their way. One goroutine
// reads.
type fetch struct {
	ctx    context.Context // of the whole, not of a call
	r      *replica.Replica
	cancel context.CancelFunc
	parts  chan chan part // in order; as many as may be on their way
	free   chan []byte    // buffers
	retry  time.Duration

	ahead *part  // taken from parts, and of a file that is not read yet
	held  []byte // the buffer that left is in
	left  []byte // of the part that is being read
}

// part is a piece of a file: one of the buffers, and the error that ended it.
type part struct {
	file int // which of the files
	buf  []byte
	n    int
	err  error
}

// piece is a file of which from is the first byte that is wanted.
type piece struct {
	replica.File
	from int64
}

// startFetch begins to fetch files in their order. stop must be called.
func startFetch(ctx context.Context, r *replica.Replica, files []piece, parallel int) *fetch {
	ctx, cancel := context.WithCancel(ctx)
	f := &fetch{ctx: ctx, r: r, cancel: cancel, parts: make(chan chan part, parallel), free: make(chan []byte, parallel), retry: firstWait}
	for range parallel {
		f.free <- nil
	}
	go func() {
		defer close(f.parts)
		for i, p := range files {
			for off := p.from; off < p.Size; off += partBytes {
				select {
				case buf := <-f.free:
					out := make(chan part, 1)
					f.parts <- out // there is room: it has as many as there are buffers
					go func() { out <- f.one(ctx, i, p.File, off, buf) }()
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return f
}

// one fetches a part, several times if need be.
func (f *fetch) one(ctx context.Context, file int, of replica.File, off int64, buf []byte) part {
	n := int(min(partBytes, of.Size-off))
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	p := part{file: file, buf: buf[:cap(buf)], n: n}
	for wait, try := f.retry, 1; ; wait, try = 2*wait, try+1 {
		p.err = f.read(ctx, of, off, p.buf[:n])
		var fault *replica.Fault
		damaged := errors.As(p.err, &fault)
		if p.err == nil || try == tries || ctx.Err() != nil || damaged && (fault.Absent || try > 1) {
			return p
		}
		if damaged {
			continue // a connection that broke looks like an object that is short
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return p
		}
	}
}

func (f *fetch) read(ctx context.Context, of replica.File, off int64, b []byte) error {
	in, err := f.r.Open(ctx, of, off, int64(len(b)))
	switch {
	case errors.Is(err, objstore.ErrAbsent):
		return gone(f.r.Name(of))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &replica.Fault{Name: f.r.Name(of), Reason: fmt.Sprintf("it ends before byte %d of %d", off+int64(len(b)), of.Size)}
	case err != nil:
		return fmt.Errorf("read %s: %w", f.r.Name(of), err)
	}
	defer in.Close() // it was read
	switch n, err := io.ReadFull(in, b); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &replica.Fault{Name: f.r.Name(of), Reason: fmt.Sprintf("it ends at byte %d of %d", off+int64(n), of.Size)}
	case err != nil:
		return fmt.Errorf("read %s: %w", f.r.Name(of), err)
	}
	return nil
}

// gone is the fault of a file that is named and not there.
func gone(name string) error {
	return &replica.Fault{Name: name, Reason: "it is not there", Absent: true}
}

// stat is replica.Stat; a file that is not there is a fault.
func stat(ctx context.Context, r *replica.Replica, f replica.File) (h replica.Header, t ltx.Trailer, err error) {
	if h, t, err = r.Stat(ctx, f); errors.Is(err, objstore.ErrAbsent) {
		err = gone(r.Name(f))
	}
	return h, t, err
}

// file is a reader of one of the files. Those before it must have been read to their end.
func (f *fetch) file(i int) io.Reader { return &fileReader{f, i} }

// stop ends what is on its way.
func (f *fetch) stop() { f.cancel() }

// fileReader reads the parts of one file.
type fileReader struct {
	f    *fetch
	file int
}

func (r *fileReader) Read(b []byte) (int, error) {
	f := r.f
	for len(f.left) == 0 {
		if f.held != nil {
			f.free <- f.held // there is room: it was taken from there
			f.held = nil
		}
		if f.ahead == nil {
			out, ok := <-f.parts
			if !ok {
				return 0, f.over()
			}
			p := <-out
			f.ahead = &p
		}
		switch {
		case f.ahead.file != r.file:
			return 0, io.EOF
		case f.ahead.err != nil:
			return 0, &storeError{f.ahead.err}
		}
		f.held, f.left, f.ahead = f.ahead.buf, f.ahead.buf[:f.ahead.n], nil
	}
	n := copy(b, f.left)
	f.left = f.left[n:]
	return n, nil
}

// over is a reader's signal that there is nothing left to read for.
func (f *fetch) over() error {
	if err := f.ctx.Err(); err != nil {
		return &storeError{err}
	}
	return io.EOF
}

// storeError is one of reading, and not about what is read.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/holdfastdb/holdfast/objstore"
)

// trickle is a store whose objects come as through lets them.
type trickle struct {
	objstore.Store
	through func(io.Reader) io.Reader
}

func (s trickle) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{s.through(r), r}, nil
}

var errBroken = errors.New("the connection broke")

// TestAFileThatIsThereIsComparedToItsLastByte, of every size and however its bytes come: the same file is the owner's own, any other is another's.
func TestAFileThatIsThereIsComparedToItsLastByte(t *testing.T) {
	ctx := context.Background()
	const buffer = 16 << 10
	for way, through := range map[string]func(io.Reader) io.Reader{
		"at once":                     func(r io.Reader) io.Reader { return r },
		"byte for byte":               iotest.OneByteReader,
		"in halves":                   iotest.HalfReader,
		"the end with the last bytes": iotest.DataErrReader,
	} {
		for _, size := range []int{1, buffer - 1, buffer, buffer + 1, 2*buffer + 100} {
			body := bytes.Repeat([]byte("0123456789a"), size/11+1)[:size]
			other := bytes.Clone(body)
			other[size-1]++
			for is, c := range map[string]struct {
				stored []byte
				same   bool
			}{
				"the same": {body, true}, "another last byte": {other, false}, "one byte less": {body[:size-1], false},
				"one byte more": {append(bytes.Clone(body), 0), false}, "nothing": {nil, false},
			} {
				store := objstore.NewMemory()
				r := New(trickle{store, through}, Bucket)
				f := File{Min: 2, Max: 2, Size: int64(size)}
				if err := store.Put(ctx, objstore.Object{Name: r.Name(f), Data: c.stored}); err != nil {
					t.Fatal(err)
				}
				if err := r.Create(ctx, f, Bytes(body)); (err == nil) != c.same || err != nil && !errors.Is(err, ErrFenced) {
					t.Errorf("%d bytes, %s, there is %s: %v", size, way, is, err)
				}
			}
			// A connection that breaks says nothing of the file.
			store := objstore.NewMemory()
			r := New(trickle{store, func(r io.Reader) io.Reader {
				return io.MultiReader(io.LimitReader(r, int64(size/2)), iotest.ErrReader(errBroken))
			}}, Bucket)
			f := File{Min: 2, Max: 2, Size: int64(size)}
			if err := store.Put(ctx, objstore.Object{Name: r.Name(f), Data: body}); err != nil {
				t.Fatal(err)
			}
			if err := r.Create(ctx, f, Bytes(body)); !errors.Is(err, errBroken) || errors.Is(err, ErrFenced) {
				t.Errorf("%d bytes, and the connection breaks: %v", size, err)
			}
		}
	}
}

// TestALargeFileIsEncodedWhileItIsUploaded: it does not stand in memory as a whole. A small one is whole before its upload begins, so that a body that
// fails uploads nothing.
func TestALargeFileIsEncodedWhileItIsUploaded(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		size   int64
		begins bool // before the body has ended
	}{{1, false}, {inMemory, false}, {inMemory + 1, true}} {
		store := &uploads{Store: objstore.NewMemory(), begun: make(chan bool, 1)}
		r := New(store, Bucket)
		failing := func(w io.Writer) error {
			_, _ = w.Write(make([]byte, c.size-1)) // the pipe of a large one ends it when the upload has ended
			return errBroken
		}
		if err := r.Create(ctx, File{Min: 2, Max: 2, Size: c.size}, failing); !errors.Is(err, errBroken) {
			t.Errorf("%d bytes: %v", c.size, err)
		}
		if begun := len(store.begun) > 0; begun != c.begins {
			t.Errorf("%d bytes of which the last is missing: an upload began %t, want %t", c.size, begun, c.begins)
		}
	}
}

// uploads tells of an upload that begins.
type uploads struct {
	objstore.Store
	begun chan bool
}

func (s *uploads) PutFrom(ctx context.Context, name string, size int64, r io.Reader, ifAbsent bool) error {
	s.begun <- true
	return s.Store.PutFrom(ctx, name, size, r, ifAbsent)
}

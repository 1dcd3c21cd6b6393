package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// once is a reader that can be read in no other way.
type once struct{ io.Reader }

// allNoise is what noise is taken from.
var allNoise = sync.OnceValue(func() []byte {
	b := make([]byte, 71<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it cannot fail
	return b
})

// noise is n bytes that are not the same anywhere, and not those of another n.
func noise(n int) []byte { return allNoise()[n%1000 : n%1000+n : n%1000+n] }

// readers are the two kinds of streams there are, of the same bytes. The second stands behind its beginning.
func readers(b []byte) map[string]func() io.Reader {
	all := append([]byte("before"), b...)
	return map[string]func() io.Reader{
		"once": func() io.Reader { return once{bytes.NewReader(b)} },
		"anywhere": func() io.Reader {
			r := bytes.NewReader(all)
			_, _ = r.Seek(6, io.SeekStart) // it cannot fail
			return r
		},
	}
}

// readAll is what Open gives.
func readAll(s Store, name string, off, n int64) ([]byte, error) {
	r, err := s.Open(context.Background(), name, off, n)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// holdsBytes fails the test if an object is not what it should be; nil: there should be none.
func holdsBytes(t *testing.T, s Store, name string, want []byte) {
	t.Helper()
	b, err := readAll(s, name, 0, -1)
	if want == nil {
		if !errors.Is(err, ErrAbsent) {
			t.Errorf("%s: %d bytes are there, %v", name, len(b), err)
		}
	} else if err != nil || !bytes.Equal(b, want) {
		t.Errorf("%s: %d bytes of %d, %v", name, len(b), len(want), err)
	}
}

// TestAStreamIsAnObject of any size, from any reader, the same over every kind of store.
func TestAStreamIsAnObject(t *testing.T) {
	for kind, s := range everyStore(t) {
		t.Run(kind, func(t *testing.T) {
			for _, size := range []int{0, 1, smallPart - 1, smallPart, smallPart + 1, 70 << 20} {
				b := noise(size)
				if size > OncePut && kind != "s3" && kind != "file" {
					continue
				}
				for from, reader := range readers(b) {
					name := fmt.Sprintf("d/%s/%d", from, size)
					ctx := context.Background()
					if err := s.PutFrom(ctx, name, int64(size), reader(), true); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					holdsBytes(t, s, name, b)
					if err := s.PutFrom(ctx, name, 5, strings.NewReader("other"), true); !errors.Is(err, ErrExists) {
						t.Errorf("%s again: %v", name, err)
					}
					if size > OncePut {
						continue // the condition is all that is different
					}
					if err := s.PutFrom(ctx, name, int64(size), reader(), false); err != nil {
						t.Errorf("%s replaced: %v", name, err)
					}
					holdsBytes(t, s, name, b)
				}
			}
		})
	}
}

// TestPartsOfAnObject: what Open gives for any place and length, and where the object ends before.
func TestPartsOfAnObject(t *testing.T) {
	b := noise(1000)
	for kind, s := range everyStore(t) {
		t.Run(kind, func(t *testing.T) {
			if err := s.Put(context.Background(), Object{Name: "o", Data: b}, Object{Name: "empty"}); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct{ off, n, end int64 }{{0, -1, 1000}, {0, 0, 0}, {0, 1, 1}, {0, 1000, 1000}, {1, -1, 1000}, {1, 1, 2}, {999, -1, 1000},
				{999, 1, 1000}, {1000, -1, 1000}, {1000, 0, 1000}, {17, 500, 517}} {
				if got, err := readAll(s, "o", c.off, c.n); err != nil || !bytes.Equal(got, b[c.off:c.end]) {
					t.Errorf("%d bytes from %d on: %d, %v", c.n, c.off, len(got), err)
				}
			}
			if got, err := readAll(s, "empty", 0, -1); err != nil || len(got) != 0 {
				t.Errorf("of an empty object: %d, %v", len(got), err)
			}
			for _, c := range [][2]int64{{0, 1001}, {999, 2}, {1000, 1}, {1001, 1}, {1001, 0}, {1001, -1}} {
				if _, err := readAll(s, "o", c[0], c[1]); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%d bytes from %d on, which are not there: %v", c[1], c[0], err)
				}
			}
			if _, err := readAll(s, "none", 0, -1); !errors.Is(err, ErrAbsent) {
				t.Errorf("of none: %v", err)
			}
			if _, err := readAll(s, "none", 0, 0); !errors.Is(err, ErrAbsent) {
				t.Errorf("nothing of none: %v", err)
			}
			for _, name := range []string{"", "/a", "../a", "a/.new-b"} {
				if _, err := s.Open(context.Background(), name, 0, -1); err == nil || errors.Is(err, ErrAbsent) {
					t.Errorf("%q is read: %v", name, err)
				}
				if err := s.PutFrom(context.Background(), name, 0, strings.NewReader(""), true); err == nil {
					t.Errorf("%q is taken for a name", name)
				}
			}
			if _, err := s.Open(context.Background(), "o", -1, 1); err == nil {
				t.Error("there is something before an object")
			}
		})
	}
}

var errTorn = errors.New("the stream is torn")

// TestAStreamOfAnotherLengthIsNoObject, nor one that fails or whose caller has gone; over every kind of store and every way to send it.
func TestAStreamOfAnotherLengthIsNoObject(t *testing.T) {
	for kind, s := range everyStore(t) {
		t.Run(kind, func(t *testing.T) {
			for _, size := range []int{0, 1, 1000, smallPart + 1} {
				if kind != "s3" && size > smallPart {
					continue
				}
				b := noise(size + 1)
				for from, reader := range readers(b) {
					for _, ifAbsent := range []bool{true, false} {
						name := fmt.Sprintf("d/%s-%t/%d", from, ifAbsent, size)
						err := s.PutFrom(context.Background(), name, int64(size), reader(), ifAbsent)
						if err == nil || errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "more") {
							t.Errorf("%s with a byte more: %v", name, err)
						}
						holdsBytes(t, s, name, nil)
						if err := s.PutFrom(context.Background(), name, int64(size)+2, reader(), ifAbsent); !errors.Is(err, io.ErrUnexpectedEOF) {
							t.Errorf("%s with a byte less: %v", name, err)
						}
						holdsBytes(t, s, name, nil)
						torn := once{io.MultiReader(bytes.NewReader(b[:size/2]), failing{errTorn})}
						if err := s.PutFrom(context.Background(), name, int64(size), torn, ifAbsent); !errors.Is(err, errTorn) {
							t.Errorf("%s of a torn stream: %v", name, err)
						}
						holdsBytes(t, s, name, nil)
						ctx, cancel := context.WithCancel(context.Background())
						ending := once{io.MultiReader(bytes.NewReader(b[:size/2]), onRead(cancel), bytes.NewReader(b[size/2:size]))}
						if err := s.PutFrom(ctx, name, int64(size), ending, ifAbsent); !errors.Is(err, context.Canceled) {
							t.Errorf("%s of a caller that has gone: %v", name, err)
						}
						holdsBytes(t, s, name, nil)
						cancel()
					}
				}
			}
			if err := s.PutFrom(context.Background(), "o", -1, strings.NewReader(""), false); err == nil {
				t.Error("a size below nothing is taken")
			}
			if f, ok := s.(*File); ok {
				for _, left := range listDir(t, f.dir) {
					for _, name := range listDir(t, filepath.Join(f.dir, left)) {
						for _, file := range listDir(t, filepath.Join(f.dir, left, name)) {
							t.Errorf("left behind: %s", file)
						}
					}
				}
			}
			if s3, ok := s.(*S3); ok {
				unfinished(t, s3)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// onRead is an empty stream that tells when it is read.
type onRead func()

func (f onRead) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// TestAReaderThatLeavesEndsItsReading, over every kind of store.
func TestAReaderThatLeavesEndsItsReading(t *testing.T) {
	for kind, s := range everyStore(t) {
		t.Run(kind, func(t *testing.T) {
			if err := s.Put(context.Background(), Object{Name: "o", Data: noise(2 << 20)}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r, err := s.Open(ctx, "o", 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			cancel()
			if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestOfManyStreamsOneCreates: each name is created by one of several streams, some of which can be read only once. The object is that
// stream's.
func TestOfManyStreamsOneCreates(t *testing.T) {
	const writers = 4
	for kind, s := range everyStore(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := context.Background()
			for round, size := range []int{0, 1, 100, 100, 3000, 3000, smallPart + 1000, smallPart + 1000} {
				name := fmt.Sprintf("d/o%d", round)
				var won, winner atomic.Int64
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						b := bytes.Repeat([]byte{byte(w)}, size+w)
						from := []string{"once", "anywhere"}[w%2]
						switch err := s.PutFrom(ctx, name, int64(len(b)), readers(b)[from](), true); {
						case err == nil:
							won.Add(1)
							winner.Store(int64(w))
						case !errors.Is(err, ErrExists):
							t.Errorf("%s: %v", name, err)
						}
					})
				}
				wg.Wait()
				if won.Load() != 1 {
					t.Fatalf("%s: %d have created it", name, won.Load())
				}
				holdsBytes(t, s, name, bytes.Repeat([]byte{byte(winner.Load())}, size+int(winner.Load())))
			}
		})
	}
}

// TestListsSayWhen an object was put.
func TestListsSayWhen(t *testing.T) {
	for kind, s := range everyStore(t) {
		t.Run(kind, func(t *testing.T) {
			began := time.Now().Add(-2 * time.Second) // S3 counts seconds, a file system has a clock of its own
			if m, ok := s.(*Memory); ok {
				m.Clock(time.Now)
			}
			if err := s.Put(context.Background(), object("o", "x")); err != nil {
				t.Fatal(err)
			}
			for l, err := range s.List(context.Background(), "", "") {
				if err != nil {
					t.Fatal(err)
				}
				if kind == "faulty" { // memory without a clock
					if !l.Time.IsZero() {
						t.Errorf("a time from nowhere: %v", l.Time)
					}
				} else if l.Time.Before(began) || l.Time.After(time.Now().Add(time.Second)) {
					t.Errorf("put at %v, after %v", l.Time, began)
				}
			}
		})
	}
}

// TestAPipeIsAStream although it is an *os.File, which can be read anywhere as far as its type says.
func TestAPipeIsAStream(t *testing.T) {
	for kind, s := range everyStore(t) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = w.WriteString("through a pipe"); w.Close() }() // what is missing is found by its length
		if err := s.PutFrom(context.Background(), "o", 14, r, true); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		r.Close()
		holdsBytes(t, s, "o", []byte("through a pipe"))
	}
}

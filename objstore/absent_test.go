package objstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestAnObjectIsCreatedOnce, the same over every kind of store: a later caller is told, and changes nothing.
func TestAnObjectIsCreatedOnce(t *testing.T) {
	for name, s := range everyStore(t) {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			holds := func(name, want string) {
				t.Helper()
				if b, err := s.Get(ctx, name); err != nil || string(b) != want {
					t.Errorf("%s holds %q, want %q: %v", name, b, want, err)
				}
			}
			if err := s.PutIfAbsent(ctx, object("d/e/o", "1")); err != nil {
				t.Fatal(err)
			}
			if err := s.PutIfAbsent(ctx, object("d/e/o", "2")); !errors.Is(err, ErrExists) {
				t.Errorf("a second time: %v", err)
			}
			if err := s.PutIfAbsent(ctx, object("d/e/o", "1")); !errors.Is(err, ErrExists) {
				t.Errorf("the same bytes again: %v", err)
			}
			holds("d/e/o", "1")
			if err := s.PutIfAbsent(ctx, object("d/e/empty", "")); err != nil {
				t.Fatal(err)
			}
			if err := s.PutIfAbsent(ctx, object("d/e/empty", "x")); !errors.Is(err, ErrExists) {
				t.Errorf("over an empty one: %v", err)
			}
			holds("d/e/empty", "")
			if err := s.Put(ctx, object("put", "1")); err != nil {
				t.Fatal(err)
			}
			if err := s.PutIfAbsent(ctx, object("put", "x")); !errors.Is(err, ErrExists) {
				t.Errorf("over what was put: %v", err)
			}
			holds("put", "1")
			if err := s.Delete(ctx, "d/e/o"); err != nil {
				t.Fatal(err)
			}
			if err := s.PutIfAbsent(ctx, object("d/e/o", "3")); err != nil {
				t.Errorf("after the removal: %v", err)
			}
			holds("d/e/o", "3")
			for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/./b", "a/.new-b"} {
				if err := s.PutIfAbsent(ctx, Object{Name: name}); err == nil || errors.Is(err, ErrExists) {
					t.Errorf("%q is taken for a name: %v", name, err)
				}
			}
		})
	}
}

// TestOfManyWritersOneCreates: each of many names is created by one of several writers, some of which use PutIfMatch. The object is that
// writer's. Readers meanwhile see nothing or all of it.
func TestOfManyWritersOneCreates(t *testing.T) {
	const writers = 6
	rounds := 60
	for name, s := range everyStore(t) {
		if name == "s3" {
			rounds = 15 // gofakes3 judges a condition and writes under one lock, so that more would show no more
		}
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			open := func() Store { return s }
			if f, ok := s.(*File); ok {
				open = func() Store { return NewFile(f.dir) } // as another process would
			}
			for round := range rounds {
				o := fmt.Sprintf("d%d/o%d", round%3, round)
				body := func(w int) string { return fmt.Sprintf("%d %0*d", w, 3000*(w+1), w) }
				var won atomic.Int64
				var winner atomic.Int64
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						err := createBy(ctx, open(), w, object(o, body(w)))
						switch {
						case err == nil:
							won.Add(1)
							winner.Store(int64(w))
						case !errors.Is(err, ErrExists) && !errors.Is(err, ErrChanged):
							t.Errorf("%s: %v", o, err)
							return
						}
						// From the answer on the object is there and whole, from either writer.
						b, err := s.Get(ctx, o)
						if err != nil || len(b) == 0 || string(b) != body(int(b[0]-'0')) {
							t.Errorf("%s: %d bytes, %v", o, len(b), err)
						}
					})
				}
				wg.Wait()
				b, err := s.Get(ctx, o)
				if err != nil || won.Load() != 1 || string(b) != body(int(winner.Load())) {
					t.Fatalf("%s: %d have created it, it holds %.20q, the last who did is %d: %v", o, won.Load(), b, winner.Load(), err)
				}
			}
			if f, ok := s.(*File); ok {
				for i := range 3 {
					for _, left := range listDir(t, filepath.Join(f.dir, fmt.Sprintf("d%d", i))) {
						if left[0] == '.' {
							t.Errorf("left behind: %s", left)
						}
					}
				}
			}
		})
	}
}

// createBy creates an object in one of two ways.
func createBy(ctx context.Context, s Store, w int, o Object) error {
	if w%3 == 2 {
		_, err := s.PutIfMatch(ctx, o, Absent)
		return err
	}
	return s.PutIfAbsent(ctx, o)
}

// TestALinkThatWasMadeIsNoRefusal: a network file system may repeat a link(2) whose answer was lost, and answer that the name is taken.
func TestALinkThatWasMadeIsNoRefusal(t *testing.T) {
	dir := t.TempDir()
	temp, path := filepath.Join(dir, "temp"), filepath.Join(dir, "o")
	if err := errors.Join(os.WriteFile(temp, []byte("x"), 0o644), os.Link(temp, path)); err != nil {
		t.Fatal(err)
	}
	s := NewFile(dir)
	if err := s.link(temp, path); err != nil {
		t.Errorf("its own file: %v", err)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.link(other, path); !errors.Is(err, ErrExists) {
		t.Errorf("another's: %v", err)
	}
}

// TestAFailedCreationLeavesNothing beside what was in its way.
func TestAFailedCreationLeavesNothing(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	if err := os.MkdirAll(filepath.Join(dir, "o", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := NewFile(dir)
	if err := s.PutIfAbsent(ctx, object("o", "1")); err == nil {
		t.Error("an object was created where there is a directory")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.PutIfAbsent(ended, object("p", "1")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if names := listDir(t, dir); !slices.Equal(names, []string{"o"}) {
		t.Errorf("there are %q", names)
	}
}

// TestACreationWhoseAnswerIsLostMeetsItself: the bucket has taken the upload, its answer says 500, and the client repeats it.
func TestACreationWhoseAnswerIsLostMeetsItself(t *testing.T) {
	var puts atomic.Int64
	s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && puts.Add(1) == 1 {
				h.ServeHTTP(httptest.NewRecorder(), r)
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			h.ServeHTTP(w, r)
		})
	}, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := s.PutIfAbsent(ctx, object("o", "mine")); !errors.Is(err, ErrExists) {
		t.Fatalf("%d uploads, answered %v", puts.Load(), err)
	}
	if b, err := s.Get(ctx, "o"); err != nil || string(b) != "mine" {
		t.Errorf("it holds %q, %v", b, err)
	}
}

// TestOnlyA412SaysThatThereIsAnObject: 409 says that another client is writing, 501 that the store cannot judge.
func TestOnlyA412SaysThatThereIsAnObject(t *testing.T) {
	for status, want := range map[int]error{http.StatusPreconditionFailed: ErrExists, http.StatusConflict: nil, http.StatusForbidden: nil,
		http.StatusNotImplemented: ErrUnconditional} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s, err := Open(serveS3Behind(t, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
			defer cancel()
			err = s.PutIfAbsent(ctx, object("o", "1"))
			if err == nil || errors.Is(err, ErrExists) != (want == ErrExists) || errors.Is(err, ErrUnconditional) != (want == ErrUnconditional) {
				t.Errorf("%v", err)
			}
		})
	}
}

package objstore

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/task"
)

func object(name, data string) Object { return Object{Name: name, Data: []byte(data)} }

// everyStore is an empty store of each kind.
func everyStore(t *testing.T) map[string]Store {
	t.Helper()
	file, err := Open("file://" + filepath.Join(t.TempDir(), "deep", "below"))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := Open(serveS3(t, "bucket") + "/deep/below")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Store{"file": file, "s3": bucket, "memory": NewMemory(),
		"faulty": NewFaulty(NewMemory(), 1, task.Goroutines{}, Faults{Delay: 100 * time.Microsecond})}
}

// TestAllKeepTheSamePromises runs the same story over every kind of store.
func TestAllKeepTheSamePromises(t *testing.T) {
	for name, s := range everyStore(t) {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			if _, err := s.Get(ctx, "a/b"); !errors.Is(err, ErrAbsent) {
				t.Errorf("before anything was put: %v", err)
			}
			if err := s.DeleteAll(ctx, "a"); err != nil {
				t.Errorf("delete nothing: %v", err)
			}
			if err := s.Put(ctx, object("a/b", "1"), object("a/c/d", ""), object("ab", "3"), object("a/b", "2")); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"a/b": "2", "a/c/d": "", "ab": "3"} {
				if b, err := s.Get(ctx, name); err != nil || string(b) != want {
					t.Errorf("%s: %q, %v", name, b, err)
				}
			}
			if err := s.DeleteAll(ctx, "a"); err != nil {
				t.Fatal(err)
			}
			for name, gone := range map[string]bool{"a/b": true, "a/c/d": true, "ab": false} {
				if _, err := s.Get(ctx, name); errors.Is(err, ErrAbsent) != gone {
					t.Errorf("%s after the deletion: %v", name, err)
				}
			}
			for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/./b", "a/.new-b"} {
				if err := s.Put(ctx, Object{Name: name}); err == nil {
					t.Errorf("%q is taken for a name", name)
				}
			}
		})
	}
}

// TestPublishedFilesMayBeReadByAll, however they came there.
func TestPublishedFilesMayBeReadByAll(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	s := NewFile(dir, WithMode(0o644))
	if err := errors.Join(s.Put(ctx, object("put", "1")), s.PutIfAbsent(ctx, object("created", "1"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"put", "created"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	serveS3(t)
	for _, text := range []string{"", "dir", "file://dir", "file://dir/x", "http://a/b", "s3://", "s3:///prefix",
		"s3://user@bucket", "s3://bucket:80", "s3://bucket/a//b", "s3://bucket/../b", "s3://bucket?x=y", "s3://B_", "file:///a%00b", "file:///d?x=y", "file:///d?mode=0755", "file:///d?mode=644&mode=600", "file:///d?mode=0444", "file:relative", "%"} {
		if _, err := Open(text); err == nil {
			t.Errorf("%q is taken for a place", text)
		}
	}
}

// TestAConditionalPutIsTakenOnlyOverWhatWasRead, the same over every kind of store.
func TestAConditionalPutIsTakenOnlyOverWhatWasRead(t *testing.T) {
	for name, s := range everyStore(t) {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			if _, v, err := s.GetVersion(ctx, "o"); v != Absent || !errors.Is(err, ErrAbsent) {
				t.Fatal(v, err)
			}
			first, err := s.PutIfMatch(ctx, object("o", "1"), Absent)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.PutIfMatch(ctx, object("o", "x"), Absent); !errors.Is(err, ErrChanged) {
				t.Errorf("over an object, where there should be none: %v", err)
			}
			second, err := s.PutIfMatch(ctx, object("o", "2"), first)
			if err != nil || second == first {
				t.Fatal(second, err)
			}
			if _, err := s.PutIfMatch(ctx, object("o", "x"), first); !errors.Is(err, ErrChanged) {
				t.Errorf("over another version: %v", err)
			}
			if b, v, err := s.GetVersion(ctx, "o"); err != nil || string(b) != "2" || v != second {
				t.Errorf("%q of version %s, want %s: %v", b, v, second, err)
			}
			if _, err := s.PutIfMatch(ctx, object("none", "x"), first); !errors.Is(err, ErrChanged) {
				t.Errorf("over nothing: %v", err)
			}
			if err := errors.Join(Probe(ctx, s), ProbeAbsent(ctx, s)); err != nil {
				t.Errorf("probe: %v", err)
			}
		})
	}
}

// TestNoConditionalPutIsLost: many count in one object, each by reading and replacing it.
func TestNoConditionalPutIsLost(t *testing.T) {
	const writers, each = 8, 20
	for name, open := range map[string]func() Store{
		"file":   func(dir string) func() Store { return func() Store { return NewFile(dir) } }(filepath.Join(t.TempDir(), "f")),
		"memory": func(s Store) func() Store { return func() Store { return s } }(NewMemory()),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					s := open() // as another process would
					for done := 0; done < each; {
						b, v, err := s.GetVersion(ctx, "count")
						if err != nil && !errors.Is(err, ErrAbsent) {
							t.Error(err)
							return
						}
						n, _ := strconv.Atoi(string(b)) // of nothing it is 0
						switch _, err := s.PutIfMatch(ctx, object("count", strconv.Itoa(n+1)), v); {
						case err == nil:
							done++
						case !errors.Is(err, ErrChanged):
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if b, err := open().Get(ctx, "count"); err != nil || string(b) != strconv.Itoa(writers*each) {
				t.Errorf("%s of %d, %v", b, writers*each, err)
			}
		})
	}
}

// TestAStoreThatIgnoresConditionsIsFoundOut, and leaves nothing of the question behind.
func TestAStoreThatIgnoresConditionsIsFoundOut(t *testing.T) {
	for _, header := range []string{"If-Match", "If-None-Match"} {
		t.Run(header, func(t *testing.T) {
			s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.Header.Del(header)
					h.ServeHTTP(w, r)
				})
			}, "bucket"))
			if err != nil {
				t.Fatal(err)
			}
			if err := Probe(context.Background(), s); !errors.Is(err, ErrUnconditional) {
				t.Errorf("%v", err)
			}
			// A store that knows one condition alone is good for what needs that one.
			if err := ProbeAbsent(context.Background(), s); errors.Is(err, ErrUnconditional) != (header == "If-None-Match") {
				t.Errorf("of creating: %v", err)
			}
		})
	}
	s := NewMemory()
	for name, probe := range map[string]func(context.Context, Store) error{"match": Probe, "absent": ProbeAbsent} {
		s.Fail(nil)
		if err := probe(context.Background(), s); err != nil || len(s.Objects()) != 0 {
			t.Errorf("%s: %v, it leaves %v", name, err, s.Objects())
		}
		s.Fail(errors.New("no route"))
		if err := probe(context.Background(), s); err == nil || errors.Is(err, ErrUnconditional) {
			t.Errorf("%s, of a store that does not answer: %v", name, err)
		}
	}
}

// liar says that an object is there, and has replaced it.
type liar struct{ Store }

func (l liar) PutIfAbsent(ctx context.Context, o Object) error {
	return errors.Join(l.Put(ctx, o), ErrExists)
}

// TestAStoreThatReplacesWhatItSaysIsThereIsFoundOut: the answer alone proves nothing.
func TestAStoreThatReplacesWhatItSaysIsThereIsFoundOut(t *testing.T) {
	if err := ProbeAbsent(context.Background(), liar{NewMemory()}); !errors.Is(err, ErrUnconditional) {
		t.Errorf("%v", err)
	}
}

// TestUploadsThatFailForAWhileAreNamed: every third upload is answered 503; the others are there, and it is said which.
func TestUploadsThatFailForAWhileAreNamed(t *testing.T) {
	s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n, err := strconv.Atoi(r.URL.Path[strings.LastIndex(r.URL.Path, "/o")+2:]); r.Method == http.MethodPut && err == nil && n%3 == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	}, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	var all []Object
	for i := range 12 {
		all = append(all, object("o"+strconv.Itoa(i), "x"))
	}
	var p *Partial
	if err := s.Put(context.Background(), all...); !errors.As(err, &p) {
		t.Fatal(err)
	}
	for i := range all {
		_, err := s.Get(context.Background(), all[i].Name)
		if want := i%3 != 0; p.Done[i] != want || (err == nil) != want {
			t.Errorf("object %d: said to be there: %t, found: %v", i, p.Done[i], err)
		}
	}
}

package objstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// cutting is a server whose readings break after each bytes until it has broken often enough; before each reading it calls between.
type cutting struct {
	mu      sync.Mutex
	each    int
	often   int             // guarded by mu
	asked   []*http.Request // guarded by mu
	between func(n int)
}

func (c *cutting) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			h.ServeHTTP(w, r)
			return
		}
		c.mu.Lock()
		c.asked = append(c.asked, r)
		n := len(c.asked)
		cut := c.often > 0
		c.often--
		c.mu.Unlock()
		if c.between != nil {
			c.between(n)
		}
		whole := httptest.NewRecorder()
		h.ServeHTTP(whole, r)
		for name, v := range whole.Header() { // any order: each is set once
			w.Header()[name] = v
		}
		w.WriteHeader(whole.Code)
		if !cut || whole.Body.Len() <= c.each {
			_, _ = w.Write(whole.Body.Bytes()) // the client finds out
			return
		}
		_, _ = w.Write(whole.Body.Bytes()[:c.each]) // likewise
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // closes the connection
	})
}

func (c *cutting) requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// TestAReadingGoesOnWhereItsConnectionBroke: the rest of the same version is asked for, as often as it must be.
func TestAReadingGoesOnWhereItsConnectionBroke(t *testing.T) {
	b := noise(12 << 20)
	for _, r := range [][2]int64{{0, -1}, {5, -1}, {1000, 11 << 20}} {
		c := &cutting{each: progress + 1000, often: 9} // more often than it may without progress
		s := s3Behind(t, c.wrap)
		if err := s.Put(context.Background(), Object{Name: "o", Data: b}); err != nil {
			t.Fatal(err)
		}
		want := b[r[0]:]
		if r[1] >= 0 {
			want = want[:r[1]]
		}
		got, err := readAll(s, "o", r[0], r[1])
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %d bytes of %d, %v", r, len(got), len(want), err)
		}
		asked := c.requests()
		if len(asked) != 10 {
			t.Errorf("%v: %d requests", r, len(asked))
		}
		for i, a := range asked {
			if i > 0 && (a.Header.Get("If-Match") == "" || !strings.HasPrefix(a.Header.Get("Range"), "bytes=")) {
				t.Errorf("request %d asks for %q of version %q", i, a.Header.Get("Range"), a.Header.Get("If-Match"))
			}
		}
	}
}

// TestAReadingIsOfOneVersion: the object is replaced or removed while the connection is lost. The server may also ignore conditions, or
// know no ranges.
func TestAReadingIsOfOneVersion(t *testing.T) {
	ctx := context.Background()
	for name, want := range map[string]error{"replaced": ErrChanged, "shorter": ErrChanged, "removed": ErrChanged, "replaced, no conditions": ErrChanged,
		"no ranges": nil} {
		t.Run(name, func(t *testing.T) {
			c := &cutting{each: 1000, often: 1}
			s := s3Behind(t, func(h http.Handler) http.Handler {
				return c.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if name == "replaced, no conditions" {
						r.Header.Del("If-Match")
					}
					if name == "no ranges" {
						r.Header.Del("Range")
					}
					h.ServeHTTP(w, r)
				}))
			})
			c.between = func(n int) {
				if n != 2 {
					return
				}
				var err error
				switch name {
				case "shorter":
					err = s.Put(ctx, object("o", "short"))
				case "removed":
					err = s.Delete(ctx, "o")
				case "no ranges":
				default:
					err = s.Put(ctx, Object{Name: "o", Data: noise(5001)})
				}
				if err != nil {
					t.Error(err)
				}
			}
			if err := s.Put(ctx, Object{Name: "o", Data: noise(5000)}); err != nil {
				t.Fatal(err)
			}
			b, err := readAll(s, "o", 0, -1)
			if err == nil || want != nil && !errors.Is(err, want) || !bytes.HasPrefix(noise(5000), b) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
}

// TestAReadingThatDoesNotGetOnEnds, and says where.
func TestAReadingThatDoesNotGetOnEnds(t *testing.T) {
	c := &cutting{each: 10, often: 1000}
	s := s3Behind(t, c.wrap)
	if err := s.Put(context.Background(), Object{Name: "o", Data: noise(100_000)}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(context.Background(), "o", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err == nil || !strings.Contains(err.Error(), "lost at byte 60") || len(b) != 60 || len(c.requests()) != resumes+1 {
		t.Errorf("%d bytes by %d requests: %v", len(b), len(c.requests()), err)
	}
	if _, err2 := r.Read(make([]byte, 1)); err2 == nil {
		t.Error("it goes on after its error")
	}
}

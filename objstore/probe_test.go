package objstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// conditions are servers of S3 that do something else than they should with a condition.
var conditions = map[string]func(w http.ResponseWriter, r *http.Request) (done bool){
	"ignores both": func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
		return false
	},
	"answers 501": func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || r.Header.Get("If-Match") == "" && r.Header.Get("If-None-Match") == "" {
			return false
		}
		s3Error(http.StatusNotImplemented, "NotImplemented")(w, r)
		return true
	},
	"answers 412 always": func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || r.Header.Get("If-Match") == "" && r.Header.Get("If-None-Match") == "" {
			return false
		}
		s3Error(http.StatusPreconditionFailed, "PreconditionFailed")(w, r)
		return true
	},
	// See TestStoresWithoutConditionsAreFound.
	"writes and answers 412": func(http.ResponseWriter, *http.Request) bool { return false },
	"keeps to them":          func(http.ResponseWriter, *http.Request) bool { return false },
}

// TestStoresWithoutConditionsAreFound, by one line, whether they ignore a condition, refuse it, or refuse everything; and of a thousand
// databases in one bucket one asks.
func TestStoresWithoutConditionsAreFound(t *testing.T) {
	for name, condition := range conditions {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					if name == "writes and answers 412" && r.Method == http.MethodPut {
						conditional := r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
						r.Header.Del("If-Match")
						r.Header.Del("If-None-Match")
						if conditional {
							h.ServeHTTP(discarded{http.Header{}}, r)
							s3Error(http.StatusPreconditionFailed, "PreconditionFailed")(w, r)
							return
						}
					}
					if !condition(w, r) {
						h.ServeHTTP(w, r)
					}
				})
			}, "bucket"))
			do(t, err)
			good := name == "keeps to them"
			judge := func(what string, err error) {
				t.Helper()
				if good != (err == nil) || !good && (!errors.Is(err, ErrUnconditional) || !Final(err) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("%s: %v", what, err)
				}
			}
			judge("match", Probe(t.Context(), s))
			judge("absent", ProbeAbsent(t.Context(), s))
			judge("both", Conditional(t.Context(), s, IfMatch|IfNoneMatch))
			before := asked.Load()
			var wg sync.WaitGroup
			for i := range 100 {
				other, err := Open(fmt.Sprintf("s3://bucket/app%d", i))
				do(t, err)
				wg.Go(func() { judge("again", Conditional(context.Background(), other, IfMatch|IfNoneMatch)) })
			}
			wg.Wait()
			if n := asked.Load() - before; n != 0 {
				t.Errorf("%d requests for what is known", n)
			}
			for o, err := range s.List(t.Context(), "", "") {
				t.Errorf("left behind: %s, %v", o.Name, err)
			}
		})
	}
}

// discarded is an answer that is thrown away.
type discarded struct{ h http.Header }

func (d discarded) Header() http.Header       { return d.h }
func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) WriteHeader(int)             {}

// TestWhatIsNotKnownIsAskedAgain: a store that did not answer is not taken for one without conditions, nor for one with them. A caller
// whose time is over does not wait for another's question.
func TestWhatIsNotKnownIsAskedAgain(t *testing.T) {
	var fail atomic.Bool
	fail.Store(true)
	hold, begun := make(chan struct{}), make(chan struct{}, 100)
	s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fail.Load() {
				begun <- struct{}{}
				<-hold
				s3Error(http.StatusServiceUnavailable, "SlowDown")(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	}, "bucket"))
	do(t, err)
	first := make(chan error)
	go func() { first <- Conditional(context.Background(), s, IfNoneMatch) }()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := Conditional(ctx, s, IfNoneMatch); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller that waits: %v", err)
	}
	close(hold)
	if err := <-first; err == nil || errors.Is(err, ErrUnconditional) || Final(err) {
		t.Errorf("while it fails: %v", err)
	}
	fail.Store(false)
	do(t, Conditional(t.Context(), s, IfNoneMatch))
	dir := filepath.Join(t.TempDir(), "store")
	do(t, Conditional(t.Context(), NewFile(dir), IfMatch|IfNoneMatch), Conditional(t.Context(), NewMemory(), IfMatch|IfNoneMatch))
}

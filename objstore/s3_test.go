package objstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestMain shortens the pauses between two attempts of the client, so that a request that fails for good costs little.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit = 2 * time.Millisecond
	os.Exit(m.Run())
}

// serveS3 runs a server of S3 with these buckets, sets the variables that lead there, and returns the URL of the first bucket.
func serveS3(t *testing.T, buckets ...string) string {
	t.Helper()
	return serveS3Behind(t, func(h http.Handler) http.Handler { return h }, buckets...)
}

func serveS3Behind(t *testing.T, wrap func(http.Handler) http.Handler, buckets ...string) string {
	t.Helper()
	b := s3mem.New()
	for _, name := range buckets {
		if err := b.CreateBucket(name); err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewServer(wrap(gofakes3.New(b).Server()))
	t.Cleanup(srv.Close)
	for name, v := range map[string]string{
		"AWS_ENDPOINT_URL": srv.URL, "AWS_ENDPOINT_URL_S3": "", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
	} {
		t.Setenv(name, v)
	}
	if len(buckets) == 0 {
		return "s3://none"
	}
	return "s3://" + buckets[0]
}

// TestABucketThatIsNotThereIsNoEmptyOne: what cannot be read must not look as if nothing had been published.
func TestABucketThatIsNotThereIsNoEmptyOne(t *testing.T) {
	s, err := Open(serveS3(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := s.Get(ctx, "a"); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("get: %v", err)
	}
	if err := s.Put(ctx, Object{Name: "a"}); err == nil {
		t.Error("put into no bucket")
	}
	if err := s.PutIfAbsent(ctx, Object{Name: "a"}); err == nil || errors.Is(err, ErrExists) {
		t.Errorf("create in no bucket: %v", err)
	}
	if found, err := list(s, "", ""); err == nil {
		t.Errorf("no bucket has %v", found)
	}
	if err := s.Delete(ctx, "a"); err == nil {
		t.Error("removed from no bucket")
	}
	if err := s.DeleteAll(ctx, "a"); err == nil {
		t.Error("deleted in no bucket")
	}
}

// TestAFailedUploadIsToldAndEndsTheRest: one object of a hundred is refused.
func TestAFailedUploadIsToldAndEndsTheRest(t *testing.T) {
	var puts atomic.Int64
	s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				puts.Add(1)
				if strings.HasSuffix(r.URL.Path, "/o10") {
					http.Error(w, "no", http.StatusForbidden)
					return
				}
				if puts.Load() > 10 {
					time.Sleep(100 * time.Millisecond) // the refusal is heard first, on a busy machine too
				}
			}
			h.ServeHTTP(w, r)
		})
	}, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	var all []Object
	for i := range 100 {
		all = append(all, object(fmt.Sprintf("o%d", i), string(rune(i))))
	}
	if err := s.Put(context.Background(), all...); err == nil || !strings.Contains(err.Error(), "put o10: ") {
		t.Errorf("%v", err)
	}
	if n := puts.Load(); n > 10+2*uploads {
		t.Errorf("%d objects were sent", n)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Put(ended, all...); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestMoreThanOnePageIsDeleted: lists and deletions come by the thousand.
func TestMoreThanOnePageIsDeleted(t *testing.T) {
	s, err := Open(serveS3(t, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var all []Object
	for i := range 1100 {
		all = append(all, object(fmt.Sprintf("p/%d", i), ""))
	}
	if err := s.Put(ctx, append(all, object("p.q", "stays"))...); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteAll(ctx, "p"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []string{"p/0", "p/999", "p/1099"} {
		if _, err := s.Get(ctx, o); !errors.Is(err, ErrAbsent) {
			t.Errorf("%s: %v", o, err)
		}
	}
	if b, err := s.Get(ctx, "p.q"); err != nil || string(b) != "stays" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestHalfABodyIsNoObject: a reader that compares two objects must not take the end of a connection for the object's.
func TestHalfABodyIsNoObject(t *testing.T) {
	for _, announced := range []bool{true, false} {
		s, err := Open(serveS3Behind(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					h.ServeHTTP(w, r)
					return
				}
				whole := httptest.NewRecorder()
				h.ServeHTTP(whole, r)
				for name, v := range whole.Header() {
					w.Header()[name] = v
				}
				w.Header().Set("Content-Length", strconv.Itoa(whole.Body.Len()))
				if !announced {
					w.Header().Del("Content-Length")
				}
				_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler) // closes the connection
			})
		}, "bucket"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
		defer cancel()
		if err := s.Put(ctx, object("o", strings.Repeat("x", 100_000))); err != nil {
			t.Fatal(err)
		}
		if b, err := s.Get(ctx, "o"); err == nil || errors.Is(err, ErrAbsent) || b != nil {
			t.Errorf("length announced %t: %d bytes, %v", announced, len(b), err)
		}
	}
}

// TestBucketsNeedCredentialsAndAnEndpoint, which are asked for before anything is sent.
func TestBucketsNeedCredentialsAndAnEndpoint(t *testing.T) {
	at := serveS3(t, "bucket")
	for name, v := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_ENDPOINT_URL": "localhost:9000",
		"AWS_ENDPOINT_URL_S3": "http://host/path"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, v)
			if _, err := Open(at); err == nil || !strings.Contains(err.Error(), "; set AWS_") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestHeadersTravelWithAnObject: readers of a bucket over HTTP must not get a cached checkpoint.
func TestHeadersTravelWithAnObject(t *testing.T) {
	sent := make(chan http.Header, 1)
	at := serveS3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				sent <- r.Header
			}
			h.ServeHTTP(w, r)
		})
	}, "bucket")
	s, err := Open(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(context.Background(), Object{Name: "o", Data: []byte("x"), Type: "text/plain; charset=utf-8", Cache: "no-cache"}); err != nil {
		t.Fatal(err)
	}
	if h := <-sent; h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v", h)
	}
}

package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// s3Behind is a store in a bucket whose server is behind wrap.
func s3Behind(t *testing.T, wrap func(http.Handler) http.Handler) *S3 {
	t.Helper()
	s, err := Open(serveS3Behind(t, wrap, "bucket") + "/below")
	if err != nil {
		t.Fatal(err)
	}
	return s.(*S3)
}

// unfinished fails the test if the store still keeps parts of uploads that are not complete.
func unfinished(t *testing.T, s *S3) {
	t.Helper()
	left, err := minio.Core{Client: s.client}.ListMultipartUploads(context.Background(), s.bucket, "", "", "", "", 100)
	if err != nil || len(left.Uploads) != 0 {
		t.Errorf("%d uploads are left, %v", len(left.Uploads), err)
	}
}

// kindOf is what a request is: part, once, begin, complete, abort, head, get.
func kindOf(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPut && q.Has("uploadId"):
		return "part"
	case r.Method == http.MethodPut:
		return "once"
	case r.Method == http.MethodPost && q.Has("uploads"):
		return "begin"
	case r.Method == http.MethodPost && q.Has("uploadId"):
		return "complete"
	case r.Method == http.MethodDelete:
		return "abort"
	}
	return strings.ToLower(r.Method)
}

// TestALargeStreamIsJudgedWhereItIsCompleted: a server that judges the condition there answers one of two who have both found nothing, and
// the other's parts are removed.
func TestALargeStreamIsJudgedWhereItIsCompleted(t *testing.T) {
	var mu sync.Mutex
	both := make(chan struct{}, 2)
	s := s3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if kindOf(r) != "complete" {
				h.ServeHTTP(w, r)
				return
			}
			both <- struct{}{}
			for len(both) < 2 {
				time.Sleep(time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			head := r.Clone(r.Context())
			head.Method, head.Body, head.ContentLength, head.URL.RawQuery = http.MethodHead, http.NoBody, 0, ""
			found := httptest.NewRecorder()
			h.ServeHTTP(found, head)
			if r.Header.Get("If-None-Match") == "*" && found.Code == http.StatusOK {
				w.WriteHeader(http.StatusPreconditionFailed)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	var won atomic.Int64
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			b := bytes.Repeat([]byte{byte(w + 1)}, OncePut+1)
			switch err := s.PutFrom(context.Background(), "o", int64(len(b)), bytes.NewReader(b), true); {
			case err == nil:
				won.Add(int64(w + 1))
			case !errors.Is(err, ErrExists):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 && won.Load() != 2 {
		t.Fatal("not one has created it")
	}
	holdsBytes(t, s, "o", bytes.Repeat([]byte{byte(won.Load())}, OncePut+1))
	unfinished(t, s)
}

// TestRequestsOfAStreamAreRepeated: the first of each kind is not answered, or done and not answered.
func TestRequestsOfAStreamAreRepeated(t *testing.T) {
	for _, lost := range []bool{false, true} {
		var mu sync.Mutex
		failed := map[string]bool{}
		s := s3Behind(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				fail := !failed[kindOf(r)] && kindOf(r) != "get"
				failed[kindOf(r)] = true
				mu.Unlock()
				if !fail {
					h.ServeHTTP(w, r)
					return
				}
				if lost {
					h.ServeHTTP(httptest.NewRecorder(), r)
				} else {
					_, _ = io.Copy(io.Discard, r.Body) // an answer that comes before the end of a request may not be read
				}
				w.WriteHeader(http.StatusInternalServerError)
			})
		})
		for _, size := range []int{1000, 2*smallPart + 1} {
			for _, ifAbsent := range []bool{true, false} {
				for from, reader := range readers(noise(size)) {
					name := fmt.Sprintf("%s-%t-%d", from, ifAbsent, size)
					mu.Lock()
					clear(failed)
					mu.Unlock()
					err := s.PutFrom(context.Background(), name, int64(size), reader(), ifAbsent)
					again := from == "anywhere" || size < smallPart
					switch {
					case ifAbsent && lost && again:
						if !errors.Is(err, ErrExists) {
							t.Errorf("%s, whose answer was lost: %v", name, err)
						}
					case ifAbsent && !again: // one attempt
						if err == nil || errors.Is(err, ErrExists) {
							t.Errorf("%s in one attempt: %v", name, err)
						}
						if !lost {
							holdsBytes(t, s, name, nil)
							continue
						}
					case lost && !again: // what was completed cannot be completed again
						if err == nil || errors.Is(err, ErrExists) {
							t.Errorf("%s, completed twice: %v", name, err)
						}
					case err != nil:
						t.Errorf("%s, lost %t: %v", name, lost, err)
					}
					holdsBytes(t, s, name, noise(size))
				}
			}
		}
	}
}

// TestALostCompletionIsNoSecondObject: it has worked, the client asks again, and the caller that wanted to create is told to compare.
func TestALostCompletionIsNoSecondObject(t *testing.T) {
	var completed atomic.Int64
	s := s3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if kindOf(r) == "complete" && completed.Add(1) == 1 {
				h.ServeHTTP(httptest.NewRecorder(), r)
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	b := noise(OncePut + 1)
	if err := s.PutFrom(context.Background(), "o", int64(len(b)), bytes.NewReader(b), true); !errors.Is(err, ErrExists) {
		t.Errorf("%d completions: %v", completed.Load(), err)
	}
	holdsBytes(t, s, "o", b)
	unfinished(t, s)
}

// TestALargeStreamReplacesNothingThatWasThere, at a server that takes no notice of the condition where an upload is completed.
func TestALargeStreamReplacesNothingThatWasThere(t *testing.T) {
	s := s3Behind(t, func(h http.Handler) http.Handler { return h })
	if err := s.Put(context.Background(), object("o", "it was there")); err != nil {
		t.Fatal(err)
	}
	if err := s.PutFrom(context.Background(), "o", OncePut+1, &endless{OncePut + 1}, true); !errors.Is(err, ErrExists) {
		t.Errorf("%v", err)
	}
	holdsBytes(t, s, "o", []byte("it was there"))
	unfinished(t, s)
}

// TestAFailedUploadIsRemoved, also when the caller has gone.
func TestAFailedUploadIsRemoved(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var parts, aborts atomic.Int64
	leave := false
	s := s3Behind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if kindOf(r) == "abort" {
				aborts.Add(1)
			}
			if kindOf(r) == "part" && parts.Add(1) == 2 {
				if leave {
					_, _ = io.Copy(io.Discard, r.Body) // the server sees its client go only when it has read all
					cancel()
					<-r.Context().Done()
					return
				}
				w.WriteHeader(http.StatusForbidden)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	for _, leave = range []bool{false, true} {
		parts.Store(0)
		aborts.Store(0)
		err := s.PutFrom(ctx, "o", 3*smallPart, once{bytes.NewReader(noise(3 * smallPart))}, false)
		if err == nil || errors.Is(err, context.Canceled) != leave {
			t.Errorf("gone %t: %v", leave, err)
		}
		if parts.Load() != 2 || aborts.Load() != 1 {
			t.Errorf("gone %t: %d parts, %d removals", leave, parts.Load(), aborts.Load())
		}
		unfinished(t, s)
		holdsBytes(t, s, "o", nil)
	}
}

// TestAStreamOfTooManyPartsIsRefused before anything is sent.
func TestAStreamOfTooManyPartsIsRefused(t *testing.T) {
	s := s3Behind(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
	})
	err := s.PutFrom(context.Background(), "o", mostParts*smallPart+1, once{failing{errTorn}}, false)
	if err == nil || errors.Is(err, errTorn) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// endless is n bytes that take no room.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), e.left))
	e.left -= int64(n)
	return n, nil
}

// ReadAt implements io.ReaderAt.
func (e *endless) ReadAt(p []byte, at int64) (int, error) {
	if at >= e.left {
		return 0, io.EOF
	}
	if n := e.left - at; n < int64(len(p)) {
		return int(n), io.EOF
	}
	return len(p), nil
}

// swallow is a server of S3 that takes everything, keeps nothing, and has one object of many bytes.
func swallow(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the client finds out
	w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	switch kindOf(r) {
	case "begin":
		_, _ = io.WriteString(w, `<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>o</Key><UploadId>1</UploadId></InitiateMultipartUploadResult>`)
	case "complete":
		_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>o</Key><ETag>"x"</ETag></CompleteMultipartUploadResult>`)
	case "head":
		w.WriteHeader(http.StatusNotFound)
	case "get":
		w.Header().Set("Content-Length", fmt.Sprint(200<<20))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = io.Copy(w, &endless{200 << 20})
	}
}

// TestAStreamTakesLittleMemory, however large it is: eight megabytes, client and server of the test together.
func TestAStreamTakesLittleMemory(t *testing.T) {
	s := s3Behind(t, func(http.Handler) http.Handler { return http.HandlerFunc(swallow) })
	const size = 200 << 20
	for name, do := range map[string]func() error{
		"once": func() error { return s.PutFrom(context.Background(), "o", size, once{&endless{size}}, true) },
		"at":   func() error { return s.PutFrom(context.Background(), "o", size, &endless{size}, true) },
		"open": func() error {
			b, err := s.Open(context.Background(), "o", 0, -1)
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, b)
			if n != size {
				t.Errorf("%d bytes came", n)
			}
			return errors.Join(err, b.Close())
		},
	} {
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		stop, most := make(chan struct{}), make(chan uint64)
		go func() {
			var worst uint64
			for {
				select {
				case <-stop:
					most <- worst
					return
				case <-time.After(2 * time.Millisecond):
					// The memory in use, without uncollected garbage: that depends on the collector and not on the stream.
					runtime.GC()
					var now runtime.MemStats
					runtime.ReadMemStats(&now)
					worst = max(worst, now.HeapInuse)
				}
			}
		}()
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		close(stop)
		if grown := int64(<-most) - int64(before.HeapInuse); grown > 8<<20 {
			t.Errorf("%s: the heap has grown by %d bytes", name, grown)
		}
	}
}

// Package bucket is an object store with S3's interface in this process. It answers after a delay, counts its requests, and fails on
// command. It is for tests, benchmarks and conformance runs of programs that reach it over HTTP; package objstore's Faulty is for code in
// this process. Its objects are in memory only.
package bucket

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// name of the only bucket.
const name = "holdfast"

// Counts is a bucket's requests.
type Counts struct {
	Puts, Gets, Lists, Deletes, Others int // an upload in parts is one of Puts for each part, and two of Others
	PutBytes                           int64
}

// All is the number of requests.
func (c Counts) All() int { return c.Puts + c.Gets + c.Lists + c.Deletes + c.Others }

// Minus is the requests since before.
func (c Counts) Minus(before Counts) Counts {
	return Counts{c.Puts - before.Puts, c.Gets - before.Gets, c.Lists - before.Lists, c.Deletes - before.Deletes, c.Others - before.Others,
		c.PutBytes - before.PutBytes}
}

// Fault is what becomes of a request.
type Fault int

// The faults. None of them leaves half an object: S3 does not.
const (
	None          Fault = iota
	Refused             // 429, nothing is done
	Failed              // 500, nothing is done
	Lost                // 500, all is done
	Twice               // it arrives twice, the answer is that of the second: 412 where it was conditional
	Cut                 // the connection ends after half an answer
	Full                // 507, for uploads; others go well
	Hang                // no answer until the client gives up
	Denied              // 403, nothing is done
	Unavailable         // 503, nothing is done
	Unconditional       // If-None-Match and If-Match are ignored
	NoConditions        // 501 if there is an If-None-Match or If-Match, and nothing is done
)

// Bucket is one server. Its methods may be called from any goroutine.
type Bucket struct {
	srv   *http.Server
	url   string
	back  *s3mem.Backend
	inner http.Handler
	delay atomic.Pointer[func() time.Duration] // of each upload

	mu     sync.Mutex
	counts Counts                      // guarded by mu
	fault  func(r *http.Request) Fault // guarded by mu; nil: none
}

// Start serves an empty bucket at a loopback address. Close ends it.
func Start() (*Bucket, error) {
	back := s3mem.New()
	if err := back.CreateBucket(name); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Bucket{url: "http://" + l.Addr().String(), back: back, inner: gofakes3.New(back).Server()}
	b.srv = &http.Server{Handler: b}
	go func() { _ = b.srv.Serve(l) }() // ends with Close
	return b, nil
}

// Close ends the server and drops its objects.
func (b *Bucket) Close() error { return b.srv.Close() }

// Empty removes every object.
func (b *Bucket) Empty() error {
	for {
		l, err := b.back.ListBucket(name, nil, gofakes3.ListBucketPage{})
		if err != nil || len(l.Contents) == 0 {
			return err
		}
		for _, o := range l.Contents {
			if _, err := b.back.DeleteObject(name, o.Key); err != nil {
				return err
			}
		}
	}
}

// URL is the place below prefix, as flags take it.
func (b *Bucket) URL(prefix string) string { return "s3://" + name + "/" + prefix }

// Env is the variables that lead a process to the bucket, as NAME=value.
func (b *Bucket) Env() []string {
	return []string{"AWS_ENDPOINT_URL=" + b.url, "AWS_ENDPOINT_URL_S3=", "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret",
		"AWS_SESSION_TOKEN=", "AWS_REGION=", "AWS_DEFAULT_REGION="}
}

// Setenv sets these variables for this process and all that it starts from now on.
func (b *Bucket) Setenv() error {
	for _, v := range b.Env() {
		variable, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(variable, value); err != nil {
			return err
		}
	}
	return nil
}

// Slow makes every upload take d: half of that passes before the object is there, half before the answer. Of an upload in parts each part
// does, and the request that makes an object of them.
func (b *Bucket) Slow(d time.Duration) { b.SlowBy(func() time.Duration { return d }) }

// SlowBy is Slow with a time for each upload, which d says. It is called on the server's goroutines.
func (b *Bucket) SlowBy(d func() time.Duration) { b.delay.Store(&d) }

// Fail has fault decide what becomes of each request from now on; nil: all goes well. It is called on the server's goroutines.
func (b *Bucket) Fail(fault func(r *http.Request) Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = fault
}

// FailAtRandom lets a share of all requests meet one of the faults.
func (b *Bucket) FailAtRandom(share float64, faults ...Fault) {
	b.Fail(func(*http.Request) Fault {
		if rand.Float64() >= share {
			return None
		}
		return faults[rand.IntN(len(faults))]
	})
}

// Counts is its requests so far.
func (b *Bucket) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

func (b *Bucket) count(r *http.Request) (fault Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		b.counts.Puts++
		b.counts.PutBytes += r.ContentLength
	case http.MethodGet:
		if r.URL.Path == "/"+name || r.URL.Path == "/"+name+"/" {
			b.counts.Lists++
		} else {
			b.counts.Gets++
		}
	case http.MethodDelete:
		b.counts.Deletes++
	default:
		b.counts.Others++
	}
	if b.fault == nil {
		return None
	}
	return b.fault(r)
}

// ServeHTTP implements http.Handler.
func (b *Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := b.count(r)
	var half time.Duration
	if delay := b.delay.Load(); delay != nil && writes(r) {
		half = (*delay)() / 2
	}
	time.Sleep(half)
	switch fault {
	case Refused:
		refuse(w, http.StatusTooManyRequests, "SlowDown")
		return
	case Failed:
		refuse(w, http.StatusInternalServerError, "InternalError")
		return
	case Denied:
		refuse(w, http.StatusForbidden, "AccessDenied")
		return
	case Unavailable:
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return
	case Unconditional:
		r.Header.Del("If-None-Match")
		r.Header.Del("If-Match")
	case NoConditions:
		if r.Header.Get("If-None-Match")+r.Header.Get("If-Match") != "" {
			refuse(w, http.StatusNotImplemented, "NotImplemented")
			return
		}
	case Full:
		if writes(r) {
			refuse(w, http.StatusInsufficientStorage, "InsufficientStorage")
			return
		}
	case Hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	answer := &answer{header: http.Header{}, code: http.StatusOK}
	var again *http.Request
	if fault == Twice {
		again = twice(r)
	}
	b.inner.ServeHTTP(answer, r)
	if again != nil {
		answer.header, answer.code, answer.body = http.Header{}, http.StatusOK, nil
		b.inner.ServeHTTP(answer, again)
	}
	time.Sleep(half)
	if fault == Lost {
		refuse(w, http.StatusInternalServerError, "InternalError")
		return
	}
	answer.send(w, fault == Cut)
}

// writes reports whether a request is an upload, a part of one, or the end of one in parts.
func writes(r *http.Request) bool {
	return r.Method == http.MethodPut || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

func refuse(w http.ResponseWriter, code int, what string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(code)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>as it was told</Message></Error>`, what)
}

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// late is a slow way to a bucket: uploads arrive even when their sender has given up or died.
type late struct {
	srv   *http.Server
	to    string
	url   string
	delay atomic.Int64 // of uploads, in nanoseconds
}

// late opens such a way to the place's bucket.
func (p *place) late() (*late, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &late{url: "http://" + l.Addr().String()}
	for _, v := range p.bucket.Env() {
		if url, ok := strings.CutPrefix(v, "AWS_ENDPOINT_URL="); ok {
			w.to = url
		}
	}
	w.srv = &http.Server{Handler: w}
	go func() { _ = w.srv.Serve(l) }() // ends with close
	return w, nil
}

// close stops accepting; uploads in flight arrive.
func (w *late) close() error { return w.srv.Close() }

// env leads a process over it.
func (w *late) env() string { return "AWS_ENDPOINT_URL=" + w.url }

// ServeHTTP implements http.Handler. A request is read whole and sent on by a goroutine that is never cancelled.
func (w *late) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender has gone before it had sent it
	}
	type outcome struct {
		res  *http.Response
		body []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		if r.Method == http.MethodPut || r.Method == http.MethodDelete {
			time.Sleep(time.Duration(w.delay.Load()))
		}
		on, err := http.NewRequestWithContext(context.Background(), r.Method, w.to+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			done <- outcome{err: err}
			return
		}
		on.Header, on.Host = r.Header.Clone(), r.Host
		res, err := http.DefaultTransport.RoundTrip(on)
		if err != nil {
			done <- outcome{err: err}
			return
		}
		b, err := io.ReadAll(res.Body)
		done <- outcome{res, b, errors.Join(err, res.Body.Close())}
	}()
	o := <-done
	if o.err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, v := range o.res.Header { // any order: each is set once
		rw.Header()[name] = v
	}
	rw.WriteHeader(o.res.StatusCode)
	_, _ = rw.Write(o.body) // the client has gone if it fails
}

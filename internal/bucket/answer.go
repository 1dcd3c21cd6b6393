package bucket

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

// answer is one that is made before it is sent: it may be lost, or cut.
type answer struct {
	header http.Header
	code   int
	body   []byte
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(code int)        { a.code = code }
func (a *answer) Write(p []byte) (int, error) { a.body = append(a.body, p...); return len(p), nil }

// send gives it to the client: all of it, or half of it and the end of the connection.
func (a *answer) send(w http.ResponseWriter, cut bool) {
	for name, v := range a.header { // any order: each is set once
		w.Header()[name] = v
	}
	if w.Header().Get("Content-Length") == "" && len(a.body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	if !cut {
		w.WriteHeader(a.code)
		_, _ = w.Write(a.body) // the client has gone if it fails
		return
	}
	if len(a.body) > 0 {
		w.WriteHeader(a.code)
		_, _ = w.Write(a.body[:len(a.body)/2])
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	panic(http.ErrAbortHandler) // net/http's way to end a connection
}

// twice returns a second request like r, and leaves r as it was. A body that cannot be read leaves nothing to send again.
func twice(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	return again
}

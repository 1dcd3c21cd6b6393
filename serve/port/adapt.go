package port

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"
)

// Adapt makes a handler of net/http one of this port. Unlike fasthttp's own adaptor it streams: flushed bytes leave at once, as a chunk,
// and the request's context ends when the client goes away. The connection stays usable after either.
func Adapt(h http.Handler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		r, err := convert(ctx)
		if err != nil {
			answer(ctx, fasthttp.StatusBadRequest, "the path is no URL")
			return
		}
		// The handler gets a goroutine of its own, because fasthttp writes an answer only once its handler has returned.
		x := &exchange{ctx: ctx, header: make(http.Header), pieces: make(chan []byte), written: make(chan struct{}, 1), done: make(chan struct{})}
		x.live, x.cancel = context.WithCancel(context.Background())
		c := served(ctx)
		numbered, streamed, end := c.port.askers.begin(x.live, &Streamed{port: c.port, of: c})
		x.streamed = streamed
		go x.run(h, r.WithContext(numbered), end)
		x.answer()
	}
}

// patience is how long a handler may take before it is worth watching whether its client is still there.
const patience = 100 * time.Millisecond

// maxPiece bounds the bytes that a streaming handler has written and not flushed.
const maxPiece = 64 << 10

// keptPiece is the largest buffer that a stream keeps between its pieces.
const keptPiece = 4 << 10

// exchange is one request in the hands of a net/http handler. The handler's goroutine owns the first group of fields until done is closed;
// the answering goroutine owns the second. Both use live, pieces, written and done.
type exchange struct {
	header   http.Header
	status   int // 0: not decided
	buf      []byte
	sent     bool // something was flushed: the status and headers are out
	failed   bool // the handler panicked
	streamed *Streamed

	ctx    *fasthttp.RequestCtx
	first  []byte // the piece that made the answer a stream
	gone   <-chan struct{}
	live   context.Context
	cancel context.CancelFunc
	pieces chan []byte
	// written says that the piece before has left. Capacity 1: only the flush that has sent it waits for it.
	written chan struct{}
	done    chan struct{}
}

func (x *exchange) run(h http.Handler, r *http.Request, end func()) {
	defer close(x.done)
	defer end()
	defer func() {
		// One request's bug must not take the member down with it; the client sees that its answer is broken.
		if recover() != nil {
			x.failed = true
		}
	}()
	h.ServeHTTP(x, r)
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.header }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(code int) {
	if x.status == 0 && code >= 200 {
		x.status = code
	}
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	if x.sent && len(x.buf)+len(p) > maxPiece {
		if err := x.flush(); err != nil {
			return 0, err
		}
	}
	x.buf = append(x.buf, p...)
	return len(p), nil
}

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() } // the next Write returns the error again

// FlushError is Flush for http.ResponseController. It returns when the client's transport has taken the flushed bytes. So a handler has one
// message in memory at a time, however slowly its client reads.
func (x *exchange) FlushError() error {
	if err := x.flush(); err != nil {
		return err
	}
	x.streamed.taken()
	return nil
}

func (x *exchange) flush() error {
	x.WriteHeader(http.StatusOK)
	select {
	case x.pieces <- x.buf: // the buffer belongs to the writer of the answer now
		x.buf, x.sent = nil, true
	case <-x.live.Done():
		return x.live.Err()
	}
	select {
	case <-x.written:
		return nil
	case <-x.live.Done():
		return x.live.Err()
	}
}

// answer fills ctx's response: with everything, if the handler returns without having flushed, or else with a stream.
func (x *exchange) answer() {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			x.gone = Gone(x.ctx)
		case <-x.gone:
			x.gone = nil
			x.cancel() // and wait for the handler to notice
		case <-x.done:
			x.cancel()
			if x.failed {
				answer(x.ctx, fasthttp.StatusInternalServerError, "internal error")
				x.ctx.SetConnectionClose()
				return
			}
			x.head()
			if x.buf == nil {
				x.buf = []byte{}
			}
			if len(x.ctx.Response.Header.ContentType()) == 0 && len(x.buf) > 0 {
				x.ctx.SetContentType(http.DetectContentType(x.buf))
			}
			x.ctx.Response.SetBodyRaw(x.buf)
			return
		case piece := <-x.pieces:
			x.head()
			x.first = piece
			c := served(x.ctx)
			c.lent = make(chan bool, 1)
			x.ctx.HijackSetNoResponse(true)
			x.ctx.Hijack(func(rest net.Conn) { c.lent <- x.stream(c, rest) })
			return
		}
	}
}

// stream writes the answer of a handler that flushes, each flush one chunk. Some clients take a chunk for a message, and fasthttp's own
// streams cut them at 4 KiB. It runs once fasthttp has written all earlier bytes and released the connection. rest is the connection with
// what fasthttp has read ahead. It reports whether the connection can be used for another request.
func (x *exchange) stream(c *client, rest net.Conn) (again bool) {
	defer func() {
		x.cancel()
		<-x.done // the request's memory is used again from here on
	}()
	chunked := x.ctx.Request.Header.IsHTTP11()
	h := &x.ctx.Response.Header
	if again = chunked && !x.ctx.Request.Header.ConnectionClose(); !again {
		h.SetConnectionClose()
	}
	if chunked {
		h.SetContentLength(-1)
	} else {
		h.SetContentLength(-2) // the end of the connection is the end of the answer
	}
	body := !x.ctx.IsHead()
	out := h.AppendBytes(nil)
	piece := x.first
	x.first = nil
	flushed := true // and not what the handler left behind
	gone := c.Gone()
	for {
		if len(piece) > 0 && body {
			if chunked {
				out = append(fmt.Appendf(out, "%x\r\n", len(piece)), piece...)
				out = append(out, "\r\n"...)
			} else {
				out = append(out, piece...)
			}
		}
		if err := c.writeSlowly(out); err != nil {
			return false
		}
		piece = nil
		if out = out[:0]; cap(out) > keptPiece {
			out = nil // a stream of small messages must not keep the buffer of one large one
		}
		if flushed {
			select {
			case x.written <- struct{}{}:
			default: // the flush before did not wait: its request had ended
			}
		}
		select {
		case piece = <-x.pieces:
			continue
		case <-gone:
			return false
		case <-x.done:
		}
		if x.failed {
			return false // without a last chunk: the client sees that it is not whole
		}
		if piece, x.buf = x.buf, nil; len(piece) > 0 {
			flushed = false
			continue // and find done again
		}
		if chunked && body {
			if _, err := c.Write([]byte("0\r\n\r\n")); err != nil {
				return false
			}
		}
		return again && c.resume(rest) == nil
	}
}

// head copies status and headers. The handler has stopped touching them: it flushed, or it returned.
func (x *exchange) head() {
	if x.status != 0 {
		x.ctx.SetStatusCode(x.status)
	}
	for name, values := range x.header {
		if name == "Transfer-Encoding" || name == "Content-Length" || name == "Connection" {
			continue // how the answer is framed is decided here
		}
		for _, v := range values {
			x.ctx.Response.Header.Add(name, v)
		}
	}
}

// convert makes a request of net/http. Its body is ctx's memory.
func convert(ctx *fasthttp.RequestCtx) (*http.Request, error) {
	h := &ctx.Request.Header
	uri := string(h.RequestURI())
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, err
	}
	body := ctx.Request.Body()
	r := &http.Request{
		Method: string(h.Method()), URL: u, RequestURI: uri, Host: string(h.Host()), RemoteAddr: remote(ctx),
		Proto: string(h.Protocol()), ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), TLS: ctx.TLSConnectionState(),
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if !h.IsHTTP11() {
		r.ProtoMinor = 0
	}
	for name, value := range h.All() {
		switch key := http.CanonicalHeaderKey(string(name)); key {
		case "Host", "Transfer-Encoding", "Content-Length":
		default:
			r.Header.Add(key, string(value))
		}
	}
	return r, nil
}

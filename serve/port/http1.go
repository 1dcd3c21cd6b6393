package port

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/valyala/fasthttp"
)

const (
	// maxHeader bounds a request's first line and headers: a key of a few thousand bytes in the path and a token fit.
	maxHeader = 16 << 10
	// roomy is how many HTTP/1.1 connections keep their buffers between requests. Those beyond give them back, which costs
	// them a system call more per request and keeps ten thousand idle ones small.
	roomy = 512
)

// newHTTP1 makes a fasthttp server. It serves connections one by one (ServeConn) and sets no deadline: see client.
func (p *Port) newHTTP1(lean bool) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:               p.handle,
		ErrorHandler:          p.refuse,
		Name:                  "",
		ReadBufferSize:        maxHeader,
		MaxRequestBodySize:    p.opts.MaxBodyBytes,
		ReduceMemoryUsage:     lean,
		Concurrency:           1 << 30, // the port counts connections itself
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
		SecureErrorLogMessage: true,
		// A form with files would be unpacked into temporary files before a handler asked for it.
		DisablePreParseMultipartForm: true,
		Logger:                       discard{},
		// A stream or handler that has taken a connection closes it or gives it back: see serveHTTP1 and Resume.
		KeepHijackedConns: true,
	}
}

// discard drops log lines. The client is told of the fault in its request, and a line for each would be a way to fill the disk.
type discard struct{}

func (discard) Printf(string, ...any) {}

// serveHTTP1 serves c until it ends. as is the server's connection: c itself, or the TLS connection it is part of.
func (p *Port) serveHTTP1(c *client, as *secret) {
	p.mu.Lock()
	if p.draining.Load() {
		p.mu.Unlock()
		_ = c.raw.Close() // it has asked for nothing yet
		p.release(c.site)
		return
	}
	c.opened = p.now.Load()
	p.clients[c] = struct{}{}
	server := p.http1[0]
	if len(p.clients) > roomy {
		server = p.http1[1]
	}
	p.mu.Unlock()

	var conn net.Conn = c
	if as != nil {
		conn = as
	}
	for again := true; again; {
		c.lent = nil
		_ = server.ServeConn(conn) // the client is told, or it went away
		again = c.lent != nil && <-c.lent
	}
	if c.leaving.gone != nil {
		c.unwatch()
	}
	c.giveBack()
	c.answered(true)
	if c.lent != nil {
		_ = conn.Close() // a stream had it last; otherwise fasthttp has closed it, or a handler has taken it
	}
	p.mu.Lock()
	delete(p.clients, c)
	// A connection that a handler has taken stays counted until it is closed.
	if !c.owner.CompareAndSwap(serving, taken) && !c.evicted {
		p.leave(c.site)
	}
	p.mu.Unlock()
}

// Resume serves further requests on a connection of this port that a handler had taken (fasthttp's hijacking). It returns when the
// connection has ended. While a handler has a connection the port counts it, but does not watch it.
func (p *Port) Resume(conn net.Conn) {
	var old *client
	switch c := conn.(type) {
	case *client:
		old = c
	case *secret:
		old = &c.client
	default:
		_ = conn.Close() // not of this port
		return
	}
	p.mu.Lock()
	if p.draining.Load() {
		p.mu.Unlock()
		_ = conn.Close() // it has asked for nothing yet
		return
	}
	// A new client: the goroutine that served the old one may not have returned yet, and counts the old one out when it does.
	if old.owner.Swap(closed) != taken {
		p.conns++
		p.opts.Conns.force(old.site)
	}
	p.wg.Add(1)
	p.mu.Unlock()
	defer p.wg.Done()
	if s, ok := conn.(*secret); ok {
		s = &secret{client{Conn: old.Conn, raw: old.raw, port: p, site: old.site, asked: old.asked}, s.tls}
		p.serveHTTP1(&s.client, s)
		return
	}
	p.serveHTTP1(&client{Conn: old.Conn, raw: old.raw, port: p, site: old.site, asked: old.asked}, nil)
}

// handle is in front of every HTTP/1.1 request.
func (p *Port) handle(ctx *fasthttp.RequestCtx) {
	text, chunked := ambiguous(&ctx.Request.Header)
	if text != "" {
		// The next bytes on this connection may be a second request or the rest of this one, so they are not read.
		ctx.Error(text+"\n", fasthttp.StatusBadRequest)
		ctx.SetConnectionClose()
		return
	}
	if chunked {
		// The parser takes text that is no chunk size for an extension of one. A proxy could have seen another end of this request, so
		// nothing may follow. Clients that know the length, nearly all, do not get here.
		ctx.Request.Header.SetConnectionClose() // for handlers that answer by themselves
		ctx.Response.SetConnectionClose()
	}
	p.opts.HTTP1(ctx)
	p.holdBody(ctx)
	shed(ctx)
}

// shed releases the buffers of a large request, and of a large answer once it is written. The server would keep them for the connection's
// next request, which may never come, and the budget does not count them meanwhile.
func shed(ctx *fasthttp.RequestCtx) {
	if len(ctx.Request.Body()) > keptBody {
		ctx.Request.SwapBody(nil)
	}
	if ctx.Response.IsBodyStream() {
		return
	}
	if body := ctx.Response.Body(); len(body) > keptBody {
		ctx.Response.SwapBody(nil)
		ctx.Response.SetBodyRaw(body) // dropped when it is written
	}
}

// keptBody is the largest body whose buffer stays with its connection.
const keptBody = 16 << 10

// holdBody takes room for the answer a handler has made, beyond the room taken before (HoldAnswer, Asker). The client may take it at any
// time, or never. Without room it drops the answer of a read. An answer to a change is kept and counted: the change has happened, and a
// client told to come again would repeat it.
func (p *Port) holdBody(ctx *fasthttp.RequestCtx) {
	if ctx.Response.IsBodyStream() || ctx.Hijacked() {
		return // it comes in pieces
	}
	n := int64(len(ctx.Response.Body()))
	if n <= freeBody {
		return
	}
	c := served(ctx)
	more := n - c.answers.Load()
	if more <= 0 || p.TakeAnswer(&From{asker: c}, more) {
		return
	}
	if !ctx.IsGet() && !ctx.IsHead() {
		c.oweAnswer(more)
		return
	}
	ctx.Response.Reset()
	ctx.Response.Header.Set("Retry-After", "1")
	p.say(ctx, fasthttp.StatusServiceUnavailable, "too many answers that nobody takes")
}

// freeBody is the uncounted size of an answer: about the size of its connection's buffers.
const freeBody = 4 << 10

// HoldAnswer takes room for n bytes of a request's answer before it is made, or reports that there is none. Room that the answer does not
// need can be given back (AnswerUnused); the rest is held until it is written. For a request that did not come through a port there is
// always room.
func HoldAnswer(ctx *fasthttp.RequestCtx, n int64) bool {
	c := clientOf(ctx)
	return c == nil || c.port.TakeAnswer(&From{asker: c}, n)
}

// AnswerUnused gives back a part of what HoldAnswer has taken.
func AnswerUnused(ctx *fasthttp.RequestCtx, n int64) {
	if c := clientOf(ctx); c != nil {
		c.returnAnswer(n)
	}
}

// ambiguous describes the fault of a request whose end, or whose addressee, two servers might see differently. The parser has accepted it,
// but is lenient in places. Behind a proxy such a request lets one client's bytes become the beginning of another's request (RFC 9112,
// section 11.2). chunked: its body came in chunks.
func ambiguous(h *fasthttp.RequestHeader) (text string, chunked bool) {
	proto := h.Protocol()
	if string(proto) != "HTTP/1.1" && string(proto) != "HTTP/1.0" {
		return "this port speaks HTTP/1.0, HTTP/1.1 and HTTP/2", false
	}
	if uri := h.RequestURI(); bytes.IndexByte(uri, ' ') >= 0 || uri[0] != '/' && !bytes.HasPrefix(uri, []byte("http")) && string(uri) != "*" {
		return "the first line is not METHOD /PATH HTTP/1.1", false
	}
	var hosts, lengths, encodings int
	for raw := h.RawHeaders(); len(raw) > 0; {
		line := raw
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			line, raw = raw[:i], raw[i+1:]
		} else {
			raw = nil
		}
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
			continue
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || line[0] == ' ' || line[0] == '\t' || line[colon-1] == ' ' || line[colon-1] == '\t' {
			return "a header line is broken or folded", false
		}
		switch line[0] | 0x20 {
		case 'h':
			if bytes.EqualFold(line[:colon], []byte("host")) {
				hosts++
			}
		case 'c':
			if bytes.EqualFold(line[:colon], []byte("content-length")) {
				lengths++
			}
		case 't':
			if bytes.EqualFold(line[:colon], []byte("transfer-encoding")) {
				encodings++
				if !bytes.EqualFold(bytes.TrimSpace(line[colon+1:]), []byte("chunked")) {
					return "the only transfer coding is chunked", false
				}
			}
		}
	}
	switch http10 := string(proto) == "HTTP/1.0"; {
	case hosts > 1, hosts == 0 && !http10:
		return "one Host header is required", false
	case lengths+encodings > 1:
		return "more than one header gives the length of the body", false
	case encodings > 0 && http10:
		return "HTTP/1.0 has no transfer codings", false
	}
	return "", encodings > 0
}

// refuse answers what is no request, or not one this port takes; the connection is closed after it.
func (p *Port) refuse(ctx *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.Is(err, errBusy):
		stillSending(ctx)
		ctx.Response.Header.Set("Retry-After", "1")
		p.say(ctx, fasthttp.StatusServiceUnavailable, "too many large requests at a time; nothing was done, send it again")
	case errors.Is(err, fasthttp.ErrBodyTooLarge), errors.Is(err, errTooLong):
		stillSending(ctx)
		p.say(ctx, fasthttp.StatusRequestEntityTooLarge, fmt.Sprintf("the request is too large; at most %d bytes", p.opts.MaxBodyBytes))
	case errors.Is(err, errBareLF):
		p.say(ctx, fasthttp.StatusBadRequest, "a line of the head ends without a carriage return")
	case errors.As(err, &small):
		p.say(ctx, fasthttp.StatusRequestHeaderFieldsTooLarge, "the headers are too large")
	case errors.As(err, &timeout), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET):
		p.say(ctx, fasthttp.StatusRequestTimeout, "the request did not arrive in time") // mostly the client is gone
	default:
		p.say(ctx, fasthttp.StatusBadRequest, "this is no HTTP request")
	}
}

// stillSending notes that a request was refused before it was read.
func stillSending(ctx *fasthttp.RequestCtx) {
	if c := clientOf(ctx); c != nil {
		c.refused = true
	}
}

// say answers by the port's own hand, in the door's form.
func (p *Port) say(ctx *fasthttp.RequestCtx, code int, text string) {
	if p.opts.Refusal == nil {
		answer(ctx, code, text)
		return
	}
	kind, body := p.opts.Refusal(code, text)
	ctx.SetStatusCode(code)
	ctx.SetContentType(kind)
	ctx.SetBody(body)
}

func answer(ctx *fasthttp.RequestCtx, code int, text string) {
	ctx.SetStatusCode(code)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text + "\n")
}

// Gone returns a channel that is closed when the client of a request on the port goes away; see client.Gone. It is nil, and
// so never ready, for a request that did not come through a port.
func Gone(ctx *fasthttp.RequestCtx) <-chan struct{} {
	if c, ok := ctx.Conn().(interface{ Gone() <-chan struct{} }); ok {
		return c.Gone()
	}
	return nil
}

// OpenFiles is how many files this process may have open.
func OpenFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1024 // the least on every Unix
	}
	return int(min(l.Cur, 1<<20))
}

package tlog

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/browser"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// http1 answers an HTTP/1.1 request.
func (d *Door) http1(ctx *fasthttp.RequestCtx) {
	h := &ctx.Request.Header
	path, query, _ := bytes.Cut(h.RequestURI(), []byte("?"))
	if len(path) == 0 || path[0] != '/' { // the absolute form that proxies use
		path, query = ctx.URI().PathOriginal(), ctx.URI().QueryString()
	}
	r := request{method: string(h.Method()), path: string(path), query: string(query), body: ctx.Request.Body(), ack: string(h.Peek(ack.Header))}
	if r.method != "POST" {
		r.gzip, r.match = h.HasAcceptEncoding("gzip"), string(h.Peek("If-None-Match"))
		r.bytes, r.ifRange = string(h.Peek("Range")), string(h.Peek("If-Range"))
	} else if d.opts.Admit != nil {
		r.auth = string(h.Peek("Authorization"))
	}
	if r.method == "POST" {
		b := browser.Request{Method: r.method, Host: string(h.Host()), Origin: string(h.Peek("Origin")), Site: string(h.Peek("Sec-Fetch-Site")),
			Local: ctx.LocalAddr(), TLS: ctx.IsTLS()}
		r.refusal = browser.Refusal(&b, d.opts.CORS)
	}
	a := d.serve(&r)
	out := &ctx.Response
	out.SetStatusCode(a.code)
	if a.contentType != "" {
		out.Header.SetContentType(a.contentType)
	}
	a.headers(r.method, out.Header.Set)
	out.SetBodyRaw(a.body)
}

// headers sets the headers other than content type and length.
func (a *response) headers(method string, set func(name, value string)) {
	if a.cache != "" {
		set("Cache-Control", a.cache)
	}
	if a.etag != "" {
		set("ETag", a.etag)
	}
	if a.retryAfter {
		set("Retry-After", "1")
	}
	if a.contentRange != "" {
		set("Content-Range", a.contentRange)
	}
	if a.ranges {
		set("Accept-Ranges", "bytes")
	}
	if a.gzipped {
		set("Content-Encoding", "gzip")
	}
	if a.vary {
		set("Vary", "Accept-Encoding")
	}
	if method != "POST" { // pages of any origin may read and verify a log, but not add to it
		set("Access-Control-Allow-Origin", "*")
	}
	if a.bearer {
		set("WWW-Authenticate", "Bearer")
	}
	if a.allow != "" {
		set("Allow", a.allow)
		if method == "OPTIONS" {
			set("Access-Control-Allow-Methods", a.allow)
			set("Access-Control-Max-Age", "86400")
		}
	}
}

// http2 answers a request of net/http.
func (d *Door) http2(w http.ResponseWriter, q *http.Request) {
	r := request{method: q.Method, path: q.URL.EscapedPath(), query: q.URL.RawQuery, ack: q.Header.Get(ack.Header)}
	if q.Method == "POST" {
		b, err := io.ReadAll(io.LimitReader(q.Body, tiles.MaxEntryBytes+1))
		if err != nil {
			return // the client went away
		}
		r.body, r.auth = b, q.Header.Get("Authorization")
	} else {
		r.gzip, r.match = takesGzip(q.Header.Get("Accept-Encoding")), q.Header.Get("If-None-Match")
		r.bytes, r.ifRange = q.Header.Get("Range"), q.Header.Get("If-Range")
	}
	if r.method == "POST" {
		b := browser.Request{Method: r.method, Host: q.Host, Origin: q.Header.Get("Origin"), Site: q.Header.Get("Sec-Fetch-Site"), TLS: true}
		r.refusal = browser.Refusal(&b, d.opts.CORS)
	}
	a := d.serve(&r)
	h := w.Header()
	if a.contentType != "" {
		h.Set("Content-Type", a.contentType)
	}
	a.headers(r.method, h.Set)
	if a.code != http.StatusNotModified && a.code != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.code)
	if r.method != "HEAD" {
		_, _ = w.Write(a.body) // the client went away
	}
}

// takesGzip judges an Accept-Encoding header as the HTTP/1.1 parser does.
func takesGzip(accept string) bool {
	var h fasthttp.RequestHeader
	h.Set("Accept-Encoding", accept)
	return h.HasAcceptEncoding("gzip")
}

// newHTTP2 serves cleartext HTTP/2 connections that begin with the preface.
func newHTTP2(h http.Handler) *http.Server {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: h, Protocols: &p, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute,
		IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 1024},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)} // malformed requests of strangers are not logged
}

// serveH2 serves what the port hands over until it is shut down.
func (d *Door) serveH2() {
	if err := d.h2.Serve(d.port.GRPC()); err != nil && !errors.Is(err, http.ErrServerClosed) {
		_ = d.h2.Close() // the port has closed the listener: it is being shut down
	}
}

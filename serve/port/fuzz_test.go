package port

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http2/hpack"

	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
)

// FuzzHTTP1 feeds bytes to the HTTP/1.1 half as a client would. A handler must see exactly the requests that net/http, which is strict,
// finds in the same bytes. They come in the same order, with the same bodies. Seeing fewer is fine (the port refuses more), seeing others
// is how requests are smuggled.
func FuzzHTTP1(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"PUT /a HTTP/1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhiGET /b HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
		"GET http://x/a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
		"\r\n\r\nGET / HTTP/1.1\nHost: x\n\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(s), 1000)
		f.Add([]byte(s), 3)
	}
	type request struct{ method, uri, body string }
	var got []request
	p := New(Options{MaxBodyBytes: 1 << 16, HTTP1: func(ctx *fasthttp.RequestCtx) {
		got = append(got, request{string(ctx.Method()), string(ctx.RequestURI()), string(ctx.Request.Body())})
		ctx.WriteString("ok")
	}})
	f.Fuzz(func(t *testing.T, input []byte, part int) {
		got = nil
		w := http2test.On(input, part)
		p.conns++
		p.serveHTTP1(&client{Conn: w, raw: w, port: p}, nil)
		if p.conns != 0 || p.budget.Load() != p.opts.BudgetBytes {
			t.Fatalf("%d connections counted, budget %d", p.conns, p.budget.Load())
		}
		in := bufio.NewReader(bytes.NewReader(input))
		for i, g := range got {
			if _, err := url.ParseRequestURI(g.uri); err != nil {
				break // a broken path is for handlers to refuse, and net/http looks no further
			}
			skipEmptyLines(in)
			r, err := http.ReadRequest(in)
			if err != nil {
				t.Fatalf("request %d is %+v, net/http finds none there: %v", i, g, err)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil && i == len(got)-1 && len(r.TransferEncoding) > 0 {
				break // chunks that are no chunks: nothing follows them
			}
			if want := (request{r.Method, r.RequestURI, string(body)}); g != want || err != nil {
				t.Fatalf("request %d is %+v, net/http sees %+v (%v)", i, g, want, err)
			}
		}
		if n := strings.Count(w.Out.String(), "HTTP/1.1 200 OK\r\n"); n != len(got) {
			t.Fatalf("%d requests, %d answers: %q", len(got), n, w.Out.String())
		}
	})
}

// skipEmptyLines: a server should ignore those before a request (RFC 9112, section 2.2); net/http does not.
func skipEmptyLines(in *bufio.Reader) {
	for {
		if b, _ := in.Peek(2); len(b) > 0 && b[0] == '\n' {
			in.Discard(1)
		} else if string(b) == "\r\n" {
			in.Discard(2)
		} else {
			return
		}
	}
}

// FuzzPeek feeds bytes to the reader that looks for the first request of an HTTP/2 connection. It must end, keep every byte
// for the server behind it in its place, and read no more than it says.
func FuzzPeek(f *testing.F) {
	block := func(fields ...string) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for i := 0; i < len(fields); i += 2 {
			e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return b.Bytes()
	}
	newFrame := func(kind, flags byte, payload []byte) []byte {
		n := len(payload)
		return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, 1}, payload...)
	}
	settings := newFrame(frame.Settings, 0, nil)
	ack := newFrame(frame.Settings, frame.Ack, nil)
	grpcBlock := block(":method", "POST", "content-type", "application/grpc+proto")
	for _, frames := range [][]byte{
		settings,
		bytes.Join([][]byte{settings, ack, newFrame(frame.Headers, frame.EndHeaders, grpcBlock)}, nil),
		bytes.Join([][]byte{settings, newFrame(frame.Headers, 0, grpcBlock[:3]), newFrame(frame.Continuation, frame.EndHeaders, grpcBlock[3:]), ack}, nil),
		bytes.Join([][]byte{settings, newFrame(frame.Headers, frame.EndHeaders|frame.Padded|frame.Priority,
			append(append([]byte{2, 0, 0, 0, 0, 1}, grpcBlock...), 0, 0))}, nil),
		bytes.Join([][]byte{settings, newFrame(frame.Headers, frame.EndHeaders, block(":method", "GET", "content-type", "text/plain")), ack}, nil),
	} {
		f.Add(append([]byte(preface), frames...), 7, 30)
	}
	f.Fuzz(func(t *testing.T, input []byte, part, known int) {
		w := http2test.On(input, part)
		head := bytes.Clone(input[:min(max(known, 0), len(input))])
		w.In.Seek(int64(len(head)), io.SeekStart)
		all, grpc, err := peekRequest(w, head)
		read := len(input) - w.In.Len()
		if len(all) > maxPeeked+2048 && len(all) > len(head) || !bytes.Equal(all, input[:read]) {
			t.Fatalf("%d bytes read, %d kept", read, len(all))
		}
		if err != nil {
			return
		}
		if grpc && !bytes.HasPrefix(input, []byte(preface)) {
			t.Fatal("gRPC without a preface")
		}
		// The server behind sees the same bytes but for the first acknowledgement.
		c := newSecondSettings(&encrypted{counted{Conn: &replayed{w, all}, port: nil}, nil})
		passed, _ := io.ReadAll(c)
		if want := withoutAck(input); !bytes.Equal(passed, want) {
			t.Fatalf("passed on %q, want %q", passed, want)
		}
	})
}

// withoutAck drops the first whole acknowledgement of settings from an HTTP/2 client's bytes, the slow and obvious way.
func withoutAck(b []byte) []byte {
	at := min(len(preface), len(b))
	for at+frame.HeadLen <= len(b) {
		h := b[at : at+frame.HeadLen]
		if h[3] == frame.Settings && h[4]&frame.Ack != 0 {
			return append(bytes.Clone(b[:at]), b[at+frame.HeadLen:]...)
		}
		at += frame.HeadLen + int(h[0])<<16 + int(h[1])<<8 + int(h[2])
		if at >= len(b) {
			return b
		}
	}
	return b[:at] // a frame's head that is not whole stays with us
}

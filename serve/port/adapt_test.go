package port

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// adapted is the answer of a handler of net/http.
func adapted(h http.HandlerFunc) *fasthttp.Response {
	x := &exchange{ctx: &fasthttp.RequestCtx{}, header: make(http.Header), pieces: make(chan []byte), done: make(chan struct{})}
	x.ctx.Response.Header.SetNoDefaultContentType(true) // as newHTTP1 has it
	x.live, x.cancel = context.WithCancel(context.Background())
	go x.run(h, &http.Request{}, func() {})
	x.answer()
	return &x.ctx.Response
}

// TestTheAnswerOfAHandler: the first final status counts, and headers go out except those that frame the answer. A body without a type gets
// the one that it looks like.
func TestTheAnswerOfAHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler     http.HandlerFunc
		status      int
		contentType string
		body        string
		headers     string // X-Own, and the three that the port decides
	}{
		"nothing": {func(http.ResponseWriter, *http.Request) {}, 200, "", "", ""},
		"two final states": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusNotFound)
		}, 200, "", "", ""},
		"an error":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, 418, "", "", ""},
		"a page":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, 200, "text/html; charset=utf-8", "<html>", ""},
		"a byte":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }, 200, "text/plain; charset=utf-8", "x", ""},
		"an empty write": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }, 200, "", "", ""},
		"a type of its own": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/own")
			_, _ = w.Write([]byte("<html>"))
		}, 200, "application/own", "<html>", ""},
		"headers": {func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"X-Own", "Transfer-Encoding", "Content-Length", "Connection"} {
				w.Header().Set(name, "77")
			}
		}, 200, "", "", "77"},
	} {
		got := adapted(c.handler)
		headers := ""
		for _, name := range []string{"X-Own", "Transfer-Encoding", "Content-Length", "Connection"} {
			headers += string(got.Header.Peek(name))
		}
		if got.StatusCode() != c.status || string(got.Header.ContentType()) != c.contentType || string(got.Body()) != c.body || strings.TrimSuffix(headers, "0") != c.headers {
			t.Errorf("%s: %d %q %q, headers %q", name, got.StatusCode(), got.Header.ContentType(), got.Body(), headers)
		}
	}
}

// TestAStreamKeepsAPieceAtMost: what a handler writes and does not flush goes out when there is more than a piece. Before its first flush all is kept.
func TestAStreamKeepsAPieceAtMost(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		x := &exchange{header: make(http.Header), pieces: make(chan []byte, 10), written: make(chan struct{}, 1), live: t.Context(), sent: sent}
		x.written <- struct{}{} // what it flushes has left
		write := func(n int) {
			t.Helper()
			if written, err := x.Write(bytes.Repeat([]byte("x"), n)); err != nil || written != n {
				t.Fatalf("%d, %v", written, err)
			}
		}
		write(maxPiece / 2)
		write(maxPiece / 2)
		if len(x.pieces) != 0 {
			t.Errorf("sent %v: exactly a piece is flushed", sent)
		}
		write(1)
		if flushed := len(x.pieces) == 1; flushed != sent {
			t.Errorf("sent %v: more than a piece, flushed %v", sent, flushed)
		}
		if want := map[bool]int{true: 1, false: maxPiece + 1}[sent]; len(x.buf) != want {
			t.Errorf("sent %v: %d bytes are kept, want %d", sent, len(x.buf), want)
		}
	}
}

// TestDefaults of a port, and the largest request that it takes.
func TestDefaults(t *testing.T) {
	t.Parallel()
	var o Options
	o.fill()
	if o.MaxConns != OpenFiles()/4*3 || o.RequestTimeout != 30*time.Second || o.SilenceTimeout != 10*time.Second || o.IdleTimeout != 5*time.Minute ||
		o.MaxBodyBytes != 4<<20 || o.MaxMessageBytes != 4<<20 || o.BudgetBytes != 32<<20 || o.CallBytes != 64<<20 || o.AnswerBytes != 48<<20 {
		t.Errorf("%+v", o)
	}
	if got := New(Options{MaxBodyBytes: 1000}).maxRequest; got != 1000+500+1<<20 {
		t.Errorf("a body of 1,000 bytes may come in %d", got)
	}
}

// TestWhereARequestComesFrom: its address, or what the Bridge has written.
func TestWhereARequestComesFrom(t *testing.T) {
	t.Parallel()
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.Set("X-Forwarded-For", "10.0.0.9")
	ctx.SetRemoteAddr(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 77})
	if host, at := Host(&ctx), remote(&ctx); host != "192.0.2.1" || at != "192.0.2.1:77" {
		t.Errorf("%s, %s", host, at)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	ctx.SetRemoteAddr(a.RemoteAddr())
	if host, at := Host(&ctx), remote(&ctx); host != "10.0.0.9" || at != "10.0.0.9:0" {
		t.Errorf("through the Bridge: %s, %s", host, at)
	}
}

// TestTheFirstLineAndTheHeaders that a request may have.
func TestTheFirstLineAndTheHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{})
	for request, want := range map[string]string{
		"GET /fast/ HTTP/1.1\r\nHost: x\r\n":                                              "200",
		"GET /fast/ HTTP/1.1\r\nHost:\tx\r\nX-A:\tb\r\n":                                  "200",
		"GET /fast/ HTTP/1.1\r\nHost:x\r\nX-A:b\r\n":                                      "200",
		"GET /fast/ HTTP/1.1\r\nHost: x\r\nX-A : b\r\n":                                   "400",
		"GET /fast/ HTTP/1.1\r\nHost: x\r\nX-A\t: b\r\n":                                  "400",
		"GET /fast/ HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n":                        "400",
		"GET http://x/fast/ HTTP/1.1\r\nHost: x\r\n":                                      "200",
		"GET fast HTTP/1.1\r\nHost: x\r\n":                                                "400",
		"GET ** HTTP/1.1\r\nHost: x\r\n":                                                  "400",
		"GET /fast/ HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("a", 3000) + "\r\n": "200",
	} { // any order: each has a connection of its own
		got := s.ask(request + "Connection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Errorf("%.60q: %.100q", request, got)
		}
	}
}

// TestARequestOfTheWholeServer has no path, which is no mistake of its first line.
func TestARequestOfTheWholeServer(t *testing.T) {
	t.Parallel()
	var h fasthttp.RequestHeader
	if err := h.Read(bufio.NewReader(strings.NewReader("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	if text, _ := ambiguous(&h); text != "" {
		t.Error(text)
	}
}

// TestWhatComesWhileAClientIsWatchedIsNotLost: the next request arrives while a slow one's client is watched, and both are answered. A machine on
// which the watching begins later sees less of it, and no failure.
func TestWhatComesWhileAClientIsWatchedIsNotLost(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{})
	c := s.dial()
	send := func(request string) {
		t.Helper()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
	}
	send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
	letGo := wait.For(t, "the request is handled", s.held)
	time.Sleep(2 * patience)
	send("GET /fast/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	time.Sleep(patience)
	close(letGo)
	b, err := io.ReadAll(c)
	if got := string(b); err != nil || strings.Count(got, "HTTP/1.1 200") != 2 || !strings.HasSuffix(got, "fast") {
		t.Errorf("%q, %v", got, err)
	}
}

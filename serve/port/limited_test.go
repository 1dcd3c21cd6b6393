package port

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestALimitedListener: connections that ask nothing make room, those with a request do not.
func TestALimitedListener(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(inner, 3)
	release := make(chan struct{})
	server := &http.Server{ConnState: l.State, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
		}
		io.WriteString(w, "answer")
	})}
	go server.Serve(l)
	defer server.Close()
	addr := inner.Addr().String()
	dial := func(text string) net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(wait.Limit(t)))
		io.WriteString(c, text)
		return c
	}
	busy := dial("GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		working := len(l.conns) == 1 && l.idle.first == nil
		l.mu.Unlock()
		if working {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the request does not begin")
		}
	}
	for range 20 {
		dial("")
	}
	b, err := io.ReadAll(dial("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
	if err != nil || !strings.HasSuffix(string(b), "answer") {
		t.Errorf("a new one hears %q, %v", b, err)
	}
	l.mu.Lock()
	if n := len(l.conns); n > 3 {
		t.Errorf("%d connections", n)
	}
	l.mu.Unlock()
	close(release)
	if b, err := io.ReadAll(busy); err != nil || !strings.HasSuffix(string(b), "answer") {
		t.Errorf("the one with a request hears %q, %v", b, err)
	}
}

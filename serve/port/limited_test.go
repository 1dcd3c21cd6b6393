package port

import (
	"bufio"
	"fmt"
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
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
		}
		io.WriteString(w, "answer")
	})}
	Watch(server)
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
		l.web.mu.Lock()
		working := false
		for c := range l.web.all {
			working = c.whole == 1
		}
		l.web.mu.Unlock()
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
	if n := l.web.len(); n > 3 {
		t.Errorf("%d connections", n)
	}
	close(release)
	if b, err := io.ReadAll(busy); err != nil || !strings.HasSuffix(string(b), "answer") {
		t.Errorf("the one with a request hears %q, %v", b, err)
	}
}

// TestACrowdOnALimitedListener: silent connections, or ones with half a request, from 16 addresses, many more than there are places. They
// end no connection that was answered before, and keep no new one out. In the end all places are free.
func TestACrowdOnALimitedListener(t *testing.T) {
	t.Parallel()
	for _, half := range []string{"", "GET / HTTP/1.1\r\nHo", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6000\r\n\r\n{", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := Limit(inner, 64)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "answer")
		})}
		Watch(server)
		go server.Serve(l)
		dial := func(from string) net.Conn {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			c, err := d.Dial("tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			_ = c.SetDeadline(time.Now().Add(wait.Limit(t)))
			return c
		}
		ask := func(c net.Conn) error {
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return err
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, res.Body)
			return err
		}
		kept := dial("127.0.0.2")
		for i := range 64 * 5 {
			if i%64 == 0 {
				if err := ask(kept); err != nil {
					t.Fatalf("%q %d times: the connection that was open before: %v", half, i, err)
				}
				c := dial("127.0.0.2")
				if err := ask(c); err != nil {
					t.Fatalf("%q %d times: a client at another address: %v", half, i, err)
				}
				c.Close()
			}
			_, _ = io.WriteString(dial(fmt.Sprintf("127.0.77.%d", 1+i%16)), half) // it may be closed already
		}
		if err := ask(kept); err != nil {
			t.Errorf("%q: the connection that was open before: %v", half, err)
		}
		wait.Until(t, "as many connections are there as are counted", func() bool { return l.web.len() == int(l.conns.Use().Open) })
		if n := l.web.len(); n > 64 {
			t.Errorf("%q: %d connections of 64", half, n)
		}
		_ = server.Close()
		wait.Until(t, "all places are free", func() bool { return l.web.len() == 0 && l.conns.Use().Open == 0 })
	}
}

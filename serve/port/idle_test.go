package port

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/certtest"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port/frame"
)

// TestIdleConnectionsFitTheBudget: as many connections as the budget lets in have each once sent or got something large and are now idle.
// They keep no more than the budget has.
func TestIdleConnectionsFitTheBudget(t *testing.T) {
	const total, n = 256 << 20, 150
	share := total / budget.ConnectionsOf(total, 1<<20).Doors
	authority := certtest.NewAuthority("ca")
	large := "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 2097152\r\n\r\n" + strings.Repeat("x", 2<<20)
	const answer = "GET /copied HTTP/1.1\r\nHost: a\r\n\r\n"
	const check = "/grpc.health.v1.Health/Check"
	for _, c := range []struct {
		name, alpn, hello string
		tls               bool
		answered          int // bytes at least
	}{
		{"HTTP/1.1, large request", "http/1.1", large, false, 1},
		{"HTTP/1.1, large request, TLS", "http/1.1", large, true, 1},
		{"HTTP/1.1, large answer, TLS", "http/1.1", answer, true, 1 << 20},
		{"HTTP/2, large frames, TLS", "h2", afterLargeFrames("/none", "text/plain"), true, 1},
		{"gRPC, large frames", "h2", afterLargeFrames(check, "application/grpc"), false, 1},
		{"gRPC, large frames, TLS", "h2", afterLargeFrames(check, "application/grpc"), true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var offer *tls.Config
			if c.tls {
				offer = authority.Config(authority.Issue("server"))
			}
			s := start(t, offer, Options{})
			before := kept()
			// The client's side of TLS is dropped once the server has answered: only descriptors stay, and what is counted is the server's.
			for range n {
				raw, err := net.Dial("tcp", s.addr)
				if err != nil {
					t.Fatal(err)
				}
				conn := raw
				if c.tls {
					conn = tls.Client(raw, &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost", NextProtos: []string{c.alpn}})
				}
				_ = conn.SetDeadline(time.Now().Add(wait.Limit(t)))
				if _, err := io.WriteString(conn, c.hello); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAtLeast(conn, make([]byte, c.answered+1<<10), c.answered); err != nil {
					t.Fatal(err)
				}
				file, err := raw.(*net.TCPConn).File()
				if err != nil {
					t.Fatal(err)
				}
				raw.Close() // file holds the connection
				t.Cleanup(func() { file.Close() })
			}
			var each int
			for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(50 * time.Millisecond) { // the last answers are under way, and stacks shrink by and by
				if each = (kept() - before) / n; each <= share || time.Now().After(end) {
					break
				}
			}
			if t.Logf("%d KiB each, %d in the budget", each>>10, share>>10); each > share {
				t.Errorf("an idle connection keeps %d bytes, and there may be one for every %d of the budget", each, share)
			}
			s.mu.Lock()
			open := s.conns
			s.mu.Unlock()
			if open < n {
				t.Errorf("%d of %d connections are there to be counted", open, n)
			}
		})
	}
}

// afterLargeFrames is a client's first bytes: frames of an unknown kind, which a server must read and ignore, and a request.
func afterLargeFrames(path, content string) string {
	b := bytes.NewBufferString(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	for range 4 {
		b.WriteString("\x00\x40\x00\xee\x00\x00\x00\x00\x00" + strings.Repeat("x", frame.Max))
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "a"}, {"content-type", content}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	b.Write([]byte{0, byte(block.Len() >> 8), byte(block.Len()), frame.Headers, frame.End | frame.EndHeaders, 0, 0, 0, 1})
	b.Write(block.Bytes())
	return b.String()
}

// kept is what the process holds in its heap and in goroutines' stacks.
func kept() int {
	for range 3 { // what pools hold goes with the second collection, and what finalizers held with the third
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

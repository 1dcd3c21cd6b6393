package port

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

func TestCleartextCarriesGRPCAndHTTP1(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{})
	if err := s.grpc(insecure.NewCredentials()); err != nil {
		t.Error(err)
	}
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	same(t, fetch(t, c, "POST", "http://"+s.addr+"/echo", "hello"), "200 HTTP/1.1 yes hello")
	same(t, fetch(t, c, "GET", "http://"+s.addr+"/fast/x", ""), "200 fast")
	same(t, fetch(t, c, "GET", "http://"+s.addr+"/nowhere", ""), "404 404 page not found\n")
	same(t, fetch(t, c, "GET", "http://"+s.addr+"/panic", ""), "500 internal error\n")
	// One byte at a time is no other protocol.
	conn := s.dial()
	for _, b := range []byte("GET /fast/ HTTP/1.0\r\n\r\n") {
		conn.Write([]byte{b})
		time.Sleep(time.Millisecond)
	}
	if b, _ := io.ReadAll(conn); !strings.HasSuffix(string(b), "\r\n\r\nfast") {
		t.Errorf("byte by byte: %q", b)
	}
}

func TestTLSCarriesGRPCAndJSONOverHTTP2AndHTTP1(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	s := start(t, ca.Server(), Options{})
	client := ca.Config(ca.Issue("somebody"))
	if err := s.grpc(credentials.NewTLS(client.Clone())); err != nil {
		t.Errorf("grpc: %v", err)
	}
	for _, h2 := range []bool{true, false} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: client.Clone(), ForceAttemptHTTP2: h2}}
		defer c.CloseIdleConnections()
		proto := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[h2]
		for range 2 {
			same(t, fetch(t, c, "POST", "https://"+s.addr+"/echo", "hello"), "200 "+proto+" yes hello")
			same(t, fetch(t, c, "GET", "https://"+s.addr+"/fast/x", ""), "200 fast")
			same(t, fetch(t, c, "GET", "https://"+s.addr+"/stream", ""), "200 line 0\nline 1\nline 2\n")
			same(t, fetch(t, c, "GET", "https://"+s.addr+"/common-name", ""), "200 somebody")
		}
		large := strings.Repeat("x", 3<<20)
		same(t, fetch(t, c, "POST", "https://"+s.addr+"/echo", large), "200 "+proto+" yes "+large)
	}
	if got := s.ask("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, "use https://") {
		t.Errorf("HTTP in the clear on a TLS port: %q", got)
	}
}

func TestOnePortCanTakeTLSAndCleartext(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	s := start(t, ca.Server(), Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l, Protocols{TLS: ca.Server(), AlsoPlain: true}) }()
	s.addr = l.Addr().String()
	client := ca.Config(ca.Issue("somebody"))
	for scheme, creds := range map[string]credentials.TransportCredentials{"https": credentials.NewTLS(client.Clone()), "http": insecure.NewCredentials()} {
		if err := s.grpc(creds); err != nil {
			t.Errorf("grpc over %s: %v", scheme, err)
		}
		for _, h2 := range []bool{true, false} {
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: client.Clone(), ForceAttemptHTTP2: h2}}
			proto := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[h2 && scheme == "https"]
			same(t, fetch(t, c, "POST", scheme+"://"+s.addr+"/echo", "hello"), "200 "+proto+" yes hello")
			c.CloseIdleConnections()
		}
	}
	l.Close() // a listener that breaks ends its Serve alone
	if err := <-ended; err == nil {
		t.Error("Serve ended well without its listener")
	}
}

func TestTheClientsCertificateReachesGRPC(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	s := start(t, ca.Server(), Options{})
	err := s.grpc(credentials.NewTLS(ca.Config(ca.Issue("stranger"))))
	if err == nil || !strings.Contains(err.Error(), "a stranger") {
		t.Errorf("a stranger hears %v", err)
	}
}

func TestOneConnectionMayAskEveryHandlerInTurn(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{})
	c := s.dial()
	in := bufio.NewReader(c)
	for range 3 {
		for _, path := range []string{"/fast/a", "/echo", "/taken", "/stream", "/nowhere"} {
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", path)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			b, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			want := map[string]string{"/fast/a": "fast", "/echo": "HTTP/1.1  hi", "/taken": "taken", "/stream": "line 0\nline 1\nline 2\n",
				"/nowhere": "404 page not found\n"}[path]
			same(t, string(b), want)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{})
	got := s.ask("GET /stream HTTP/1.1\r\nHost: x\r\n\r\nGET /fast/ HTTP/1.1\r\nHost: x\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	for _, want := range []string{"line 2\n", "fast", "HTTP/1.1  "} {
		_, rest, ok := strings.Cut(got, want)
		if !ok {
			t.Fatalf("no %q in what is left: %q", want, got)
		}
		got = rest
	}
}

func TestAStreamIsSeenAsItGrowsAndEndsWhenItsClientLeaves(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	for _, secure := range []bool{false, true} {
		var server *tls.Config
		if secure {
			server = ca.Config(ca.Issue("server"))
		}
		s := start(t, server, Options{})
		for _, path := range []string{"/stream?forever", "/wait"} {
			c := s.dial()
			if secure {
				c = tls.Client(c, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"})
			}
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
			if path != "/wait" {
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(res.Body)
				for i := range 3 {
					line, err := in.ReadString('\n')
					if err != nil || line != fmt.Sprintf("line %d\n", i) {
						t.Fatalf("%q %v", line, err)
					}
				}
			} else {
				time.Sleep(2 * patience)
			}
			c.Close()
			select {
			case <-s.left:
			case <-time.After(wait.Limit(t)):
				t.Fatalf("%s (TLS: %v) goes on without its client", path, secure)
			}
		}
	}
}

// TestAMessageIsAChunk: etcd3gw takes each chunk of a watch for one JSON document.
func TestAMessageIsAChunk(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{})
	got := s.ask("GET /messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	_, body, _ := strings.Cut(got, "\r\n\r\n")
	for _, size := range []int{1, 10_000, 300_000} {
		chunk := fmt.Sprintf("%x\r\n%s\n\r\n", size+1, strings.Repeat("x", size))
		rest, ok := strings.CutPrefix(body, chunk)
		if !ok {
			t.Fatalf("a message of %d bytes is cut: %.80q", size, body)
		}
		body = rest
	}
	same(t, body, "0\r\n\r\n")
}

func TestShutdownWaitsForRequestsAndNotForIdleConnections(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{})
	idleConn := s.dial()
	fmt.Fprintf(idleConn, "GET /fast/ HTTP/1.1\r\nHost: x\r\n\r\n")
	http.ReadResponse(bufio.NewReader(idleConn), nil)
	silent := s.dial()
	waiting := s.dial()
	fmt.Fprintf(waiting, "GET /stream?forever HTTP/1.1\r\nHost: x\r\n\r\n")
	in := bufio.NewReader(waiting)
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
		t.Errorf("shut down with a stream open: %v", err)
	}
	for _, c := range []net.Conn{idleConn, silent, waiting} {
		if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("a connection is still open: %v", err)
		}
	}
	if _, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
		t.Error("it still listens")
	}
}

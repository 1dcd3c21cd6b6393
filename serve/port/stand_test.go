package port

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// stand is a port with a gRPC server, a handler for fasthttp and one for net/http behind it, as the kv door is.
type stand struct {
	*testing.T
	*Port
	addr string
	left chan struct{}      // gets one for each stream whose client left
	held chan chan struct{} // gets a channel for each request to /held, which is answered when that is closed
	// answered is how often undisturbed's good client was.
	answered atomic.Int64
}

// start serves until the test ends. tls may be nil.
func start(t *testing.T, tls *tls.Config, opts Options) *stand {
	t.Helper()
	s := &stand{T: t, left: make(chan struct{}, 10), held: make(chan chan struct{}, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Header.Get("X-Test"), b)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 8<<20)) }) // all of it or none
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "line %d\n", i)
			http.NewResponseController(w).Flush()
		}
		if r.URL.Query().Has("forever") {
			<-r.Context().Done()
			s.left <- struct{}{}
		}
	})
	mux.HandleFunc("/wait", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		s.left <- struct{}{}
	})
	mux.HandleFunc("/held", func(http.ResponseWriter, *http.Request) {
		letGo := make(chan struct{})
		s.held <- letGo
		<-letGo
	})
	mux.HandleFunc("/messages", func(w http.ResponseWriter, _ *http.Request) {
		for _, size := range []int{1, 10_000, 300_000} {
			fmt.Fprintln(w, strings.Repeat("x", size))
			http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("a bug") })
	mux.HandleFunc("/common-name", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	})
	adapted := Adapt(mux)
	opts.HTTP1 = func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/taken" { // as a long poll of v2
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntaken")
				go s.Resume(c.(interface{ UnsafeConn() net.Conn }).UnsafeConn())
			})
			return
		}
		if string(ctx.Path()) == "/copied" { // as a list of v2
			ctx.SetBody(make([]byte, 1<<20))
			return
		}
		if bytes.HasPrefix(ctx.Path(), []byte("/fast/")) {
			ctx.WriteString("fast")
			return
		}
		adapted(ctx)
	}
	var bridge http.Handler
	opts.HTTP2 = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fast/") {
			bridge.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	s.Port = New(opts)
	bridge = s.Bridge()

	g := grpc.NewServer(grpc.Creds(state{}), grpc.ReadBufferSize(0))
	healthpb.RegisterHealthServer(g, &who{health.NewServer()})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	ended := make(chan error, 2)
	go func() { g.Serve(s.GRPC()); ended <- nil }()
	go func() { ended <- s.Serve(l, Protocols{TLS: tls}) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
		g.Stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("serve: %v", err)
			}
		}
		wait.GivenBack(t, s.Owed)
	})
	return s
}

// state is what the door's credentials do.
type state struct {
	credentials.TransportCredentials
}

func (state) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if t, ok := c.(interface{ ConnectionState() tls.ConnectionState }); ok {
		return c, credentials.TLSInfo{State: t.ConnectionState()}, nil
	}
	return c, nil, nil
}

func (s state) Clone() credentials.TransportCredentials { return s }

func (state) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// who is a health service that refuses clients whose certificate has the name "stranger".
type who struct{ *health.Server }

func (w *who) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	p, _ := peer.FromContext(ctx)
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 &&
		info.State.PeerCertificates[0].Subject.CommonName == "stranger" {
		return nil, fmt.Errorf("a stranger")
	}
	return w.Server.Check(ctx, r)
}

func (s *stand) dial() net.Conn {
	s.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(wait.Limit(s.T)))
	return c
}

// ask sends raw bytes on a connection of its own and returns everything that comes back until the server closes.
func (s *stand) ask(raw string) string {
	s.Helper()
	c := s.dial()
	if _, err := io.WriteString(c, raw); err != nil {
		s.Fatal(err)
	}
	b, _ := io.ReadAll(c) // a reset is an end too
	return string(b)
}

func (s *stand) grpc(creds credentials.TransportCredentials) error {
	s.Helper()
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(s.T))
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// fetch sends a request and returns "code body".
func fetch(t *testing.T, c *http.Client, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Test", "yes")
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", res.StatusCode, b)
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

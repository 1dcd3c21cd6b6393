package saga

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port"
)

// TestTLS: what is said of HTTP/1.1 holds of HTTP/2, streams of events too, and gRPC has its own address beside them.
func TestTLS(t *testing.T) {
	var seen []bool // whether the caller's connection was known to be encrypted
	s := serve(t, Options{Admit: func(c *Caller) (uint64, int, string) {
		if c.Host != "127.0.0.1" {
			return 0, 403, "not from " + c.Host
		}
		seen = append(seen, c.TLS != nil)
		return 0, 0, ""
	}})
	a := certtest.NewAuthority("saga")
	listen := func(offer port.Protocols) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		offer.TLS = a.Server()
		go func() { _ = s.door.Serve(l, offer) }() // until the door's shutdown
		return l.Addr().String()
	}
	web, rpc := listen(port.Protocols{NoGRPC: true}), listen(port.Protocols{NoHTTP: true})
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: a.Config(a.Issue("client")), ForceAttemptHTTP2: h2}
		c := &http.Client{Transport: transport, Timeout: wait.Limit(t)}
		gid := newGid()
		res, err := c.Post("https://"+web+prefix+"prepare", "application/json", strings.NewReader(`{"gid":"`+gid+`","trans_type":"tcc"}`))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil || string(b) != success || (res.ProtoMajor == 2) != h2 {
			t.Fatalf("%s %s, %v", res.Proto, b, err)
		}
		if res, err = c.Get("https://" + web + "/watch?gid=" + gid); err != nil {
			t.Fatal(err)
		}
		events := &stream{t, bufio.NewScanner(res.Body), func() {}}
		events.wants("prepared", "")
		s.want(200, success, "POST", "forceStop", `{"gid":"`+gid+`"}`)
		events.wants("failed", forceStopped)
		if more := events.next(); more != "" {
			t.Error(more)
		}
		res.Body.Close()
		transport.CloseIdleConnections()
	}
	conn, err := grpc.NewClient(rpc, grpc.WithTransportCredentials(credentials.NewTLS(a.Config(a.Issue("client")))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	var back []byte
	if err := conn.Invoke(ctx, "/dtmgimp.Dtm/NewGid", new([]byte), &back, grpc.ForceCodecV2(bytesCodec{})); err != nil || len(back) != 2+gidLength {
		t.Errorf("%q, %v", back, err)
	}
	if len(seen) != 7 || !seen[0] || !seen[1] || seen[3] || !seen[6] {
		t.Errorf("encrypted: %v", seen) // HTTP/2 comes over a bridge, which does not say so
	}
}

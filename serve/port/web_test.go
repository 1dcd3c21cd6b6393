package port

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestHTTP2WithoutProgressMakesRoom: over TLS, HTTP/2 connections without gRPC that hold half a request take no place from others. One that
// was answered before stays.
func TestHTTP2WithoutProgressMakesRoom(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("test")
	s := start(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue("localhost")}}, Options{MaxConns: 8, SilenceTimeout: time.Hour, RequestTimeout: time.Hour})
	client := func() *http.Client {
		tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
			}}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, Timeout: wait.Limit(t)}
	}
	kept, reused := client(), false
	ask := func(c *http.Client) {
		t.Helper()
		trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", "https://localhost/echo", strings.NewReader("a"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err != nil || string(b) != "HTTP/2.0  a" {
			t.Fatalf("%q, %v", b, err)
		}
		res.Body.Close()
	}
	ask(kept)
	for range 30 {
		body, half := io.Pipe()
		t.Cleanup(func() { half.Close() })
		begun := make(chan struct{})
		go func() {
			defer close(begun)
			_, _ = half.Write([]byte("half")) // the server may have had enough
		}()
		go func() {
			res, err := client().Post("https://localhost/echo", "text/plain", body)
			if err == nil {
				res.Body.Close()
			}
			_ = body.Close()
		}()
		<-begun
	}
	ask(client())
	if ask(kept); !reused {
		t.Error("the connection that was answered before has gone")
	}
	if n := s.count(); n > 8 {
		t.Errorf("%d connections of 8", n)
	}
}

// TestRanksOfConnectionsOfNetHTTP: what a server of net/http says of a connection, and what has come of its request, decide.
func TestRanksOfConnectionsOfNetHTTP(t *testing.T) {
	var w webConns
	now := time.Now()
	for _, row := range []struct {
		state   http.ConnState
		ago     time.Duration
		arrived int64
		whole   int
		asked   bool
		want    []Rank
	}{
		{http.StateNew, time.Second / 2, 0, 0, false, []Rank{Young}},
		{http.StateNew, 2 * time.Second, 0, 0, false, []Rank{Lacking, Young}},
		{http.StateActive, 2 * time.Second, 0, 0, false, []Rank{Young}},
		{http.StateActive, 4 * time.Second, 4 * leastRate, 0, false, []Rank{Young}},
		{http.StateActive, 4 * time.Second, 4*leastRate - 1, 0, false, []Rank{Lacking, Young}},
		{http.StateActive, 4 * time.Second, 0, 0, true, []Rank{Lacking}}, // the rest of a second request does not come
		{http.StateActive, 2 * time.Second, 0, 0, true, nil},
		{http.StateActive, time.Hour, 0, 1, true, nil}, // the server works
		{http.StateIdle, time.Hour, 0, 0, true, []Rank{Idle}},
	} {
		c := w.enter(netip.Addr{}, func() {})
		c.arrived.Store(row.arrived)
		c.state, c.since, c.whole, c.asked = row.state, now.Add(-row.ago), row.whole, row.asked
		var got []Rank
		for _, rank := range []Rank{Lacking, Idle, Young} {
			if c.is(rank, now) {
				got = append(got, rank)
			}
		}
		if len(got) != len(row.want) || len(got) > 0 && got[0] != row.want[0] {
			t.Errorf("%+v: %v", row, got)
		}
		if !w.leave(c) || w.leave(c) {
			t.Error("a connection is counted out never, or twice")
		}
	}
}

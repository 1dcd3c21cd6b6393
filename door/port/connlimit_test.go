package port

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPortsShareAGate: connections to two ports together stay below one bound, and a silent one on either makes room for a
// client of the other.
func TestPortsShareAGate(t *testing.T) {
	t.Parallel()
	gate := NewGate(60)
	a := start(t, nil, Options{Gate: gate, SilenceTimeout: time.Hour})
	b := start(t, nil, Options{Gate: gate, SilenceTimeout: time.Hour})
	for i := range 200 {
		(map[int]*stand{0: a, 1: b})[i%2].dial()
	}
	settle(a, b)
	b.undisturbed(func() {})
	a.undisturbed(func() {})
	if n, m := a.count()+b.count(), int(gate.open.Load()); n > 60 || m != n {
		t.Errorf("%d connections, %d of them counted at the gate", n, m)
	}
}

// settle waits until a flood that is over has been accepted: on a busy machine the system's queue still holds a part of it.
func settle(stands ...*stand) {
	last, calm := uint64(0), 0
	for began := time.Now(); calm < 20 && time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		var now uint64
		for _, s := range stands {
			now += s.accepted.Load()
		}
		if calm++; now != last {
			last, calm = now, 0
		}
	}
}

// TestAConnectionWithoutACallMakesRoom: a client that says it speaks HTTP/2 and nothing else is silent, too.
func TestAConnectionWithoutACallMakesRoom(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{MaxConns: 50})
	for range 200 {
		c := s.dial()
		io.WriteString(c, preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	}
	// All that the flood has opened is taken or closed once the number has stood for a while.
	calm := 0
	for began := time.Now(); calm < 60; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		n := len(s.grpcConns)
		s.mu.Unlock()
		if calm++; n > 50 || s.count() > 50 {
			calm = 0
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%d connections of the gRPC server", n)
		}
	}
	s.undisturbed(func() {})
	if n := s.count(); n > 50 {
		t.Errorf("%d connections", n)
	}
}

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
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, text)
		return c
	}
	busy := dial("GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		working := len(l.conns) == 1 && l.idle.first == nil
		l.mu.Unlock()
		if working {
			break
		}
		if time.Since(began) > 5*time.Second {
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

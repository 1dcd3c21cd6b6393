package port

import (
	"io"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestPortsShareALimit: connections to two ports together stay below one bound, and a silent one on either makes room for a
// client of the other.
func TestPortsShareALimit(t *testing.T) {
	t.Parallel()
	limit := NewConnLimit(60)
	a := start(t, nil, Options{Conns: limit, SilenceTimeout: time.Hour})
	b := start(t, nil, Options{Conns: limit, SilenceTimeout: time.Hour})
	for i := range 200 {
		(map[int]*stand{0: a, 1: b})[i%2].dial()
	}
	settle(a, b)
	b.undisturbed(func() {})
	a.undisturbed(func() {})
	if n, m := a.count()+b.count(), int(limit.Use().Open); n > 60 || m != n {
		t.Errorf("%d connections, %d of them counted in the limit", n, m)
	}
}

// settle waits until a flood that is over has been accepted: on a busy machine the system's queue still holds a part of it.
func settle(stands ...*stand) {
	last, calm := uint64(0), 0
	for end := time.Now().Add(wait.Limit(stands[0].T)); calm < 20 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
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
	for end := time.Now().Add(wait.Limit(t)); calm < 60; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		n := len(s.grpcConns)
		s.mu.Unlock()
		if calm++; n > 50 || s.count() > 50 {
			calm = 0
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections of the gRPC server", n)
		}
	}
	s.undisturbed(func() {})
	if n := s.count(); n > 50 {
		t.Errorf("%d connections", n)
	}
}

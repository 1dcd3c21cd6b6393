package machine

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A reader without the lock that finds the version unchanged has seen the state of one entry, also if others were published meanwhile. One
// that waits is let in by Open.
func TestGateShowsWholeEntries(t *testing.T) {
	var g Gate
	var a, b atomic.Int64 // published together
	var stop atomic.Bool
	var seen, again atomic.Int64
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !stop.Load() {
				v, open := g.Version()
				if !open {
					g.Await()
					continue
				}
				x, y := a.Load(), b.Load()
				if !g.Same(v) {
					again.Add(1)
					continue
				}
				if seen.Add(1); x != y {
					t.Errorf("half an entry: %d and %d", x, y)
					return
				}
			}
		})
	}
	for i := int64(1); i <= 2000 || seen.Load() < 1000; i++ {
		g.Close()
		a.Store(i)
		b.Store(i)
		g.Open()
	}
	stop.Store(true)
	readers.Wait()
	if seen.Load() == 0 {
		t.Error("nobody read anything")
	}
	t.Logf("%d reads, %d more were in vain", seen.Load(), again.Load())
}

func TestGateIsClosedAndOpenedOnce(t *testing.T) {
	var g Gate
	before, open := g.Version()
	if !open {
		t.Fatal("a new gate is closed")
	}
	g.Open() // of an open gate: nothing
	if !g.Same(before) {
		t.Error("opening an open gate changed it")
	}
	g.Close()
	g.Close() // of a closed gate: nothing, above all no waiting for itself
	if v, open := g.Version(); open || v == before {
		t.Errorf("closed: version %d after %d, open %v", v, before, open)
	}
	in := make(chan struct{})
	go func() {
		g.Await()
		close(in)
	}()
	select {
	case <-in:
		t.Fatal("a reader came through a closed gate")
	case <-time.After(20 * time.Millisecond):
	}
	g.Open()
	<-in
	if _, open := g.Version(); !open || g.Same(before) {
		t.Error("opened again, but not as another version")
	}
}

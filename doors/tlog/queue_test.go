package tlog

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestWaitingAddsAreBoundedInBytes: while the log hangs, so many bytes of entries wait, and the rest is refused at once.
func TestWaitingAddsAreBoundedInBytes(t *testing.T) {
	const most, each, adds = 1000, 100, 30
	s, d, _ := open(t, Options{MaxQueueBytes: most}, "default")
	q := d.queue(s.logs.Find("default"))
	s.mu.Lock() // nothing is applied
	var refused atomic.Int64
	var wg sync.WaitGroup
	add := func() {
		if _, _, err := q.add(make([]byte, each), false); errors.Is(err, errQueueFull) {
			refused.Add(1)
		} else if err != nil {
			t.Error(err)
		}
	}
	state := func() (flying bool, waiting int64) {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.flying, int64(q.bytes) / each
	}
	wg.Go(add)
	wait.Until(t, "one is in flight", func() bool { flying, _ := state(); return flying })
	for range adds {
		wg.Go(add)
	}
	wait.Until(t, "all others wait or are refused", func() bool { _, waiting := state(); return waiting+refused.Load() == adds })
	if _, waiting := state(); waiting != most/each {
		t.Errorf("%d wait, %d were refused", waiting, refused.Load())
	}
	s.mu.Unlock()
	wg.Wait()
	if size := s.logs.Find("default").View().Size; size != 1+most/each {
		t.Errorf("%d entries in the end", size)
	}
}

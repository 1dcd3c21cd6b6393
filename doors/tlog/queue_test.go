package tlog

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestWaitingAddsAreBoundedInBytes: while the log hangs, so many bytes of entries wait, and the rest is refused at once.
func TestWaitingAddsAreBoundedInBytes(t *testing.T) {
	const most, each, adds = 1003, 98, 30 // a batch has three bytes of its own, an entry two
	const counted = each + entryHeadBytes
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
		return q.flying, int64(q.bytes) / counted
	}
	wg.Go(add)
	wait.Until(t, "one is in flight", func() bool { flying, _ := state(); return flying })
	for range adds {
		wg.Go(add)
	}
	wait.Until(t, "all others wait or are refused", func() bool { _, waiting := state(); return waiting+refused.Load() == adds })
	if _, waiting := state(); waiting != most/counted {
		t.Errorf("%d wait, %d were refused", waiting, refused.Load())
	}
	s.mu.Unlock()
	wg.Wait()
	if size := s.logs.Find("default").View().Size; size != 1+most/counted {
		t.Errorf("%d entries in the end", size)
	}
}

// TestTheQueueCountsWhatWaits: for every size of entry, the bytes counted in are those waiting and those counted out. So the bound holds
// and no bytes are lost: neither when a batch gets its turn nor when it gives up.
func TestTheQueueCountsWhatWaits(t *testing.T) {
	for _, c := range []struct {
		name    string
		each    int
		timeout time.Duration
		gaveUp  bool
	}{{"empty", 0, 0, false}, {"a byte", 1, 0, false}, {"a kilobyte", 1000, 0, false}, {"large: two batches", 60_000, 0, false}, {"given up", 1, 50 * time.Millisecond, true}} {
		t.Run(c.name, func(t *testing.T) {
			s, d, _ := open(t, Options{MaxQueueBytes: 1 << 20, RequestTimeout: c.timeout}, "default")
			q := d.queue(s.logs.Find("default"))
			waits := func() (entries, bytes, counted int, flying bool) {
				q.mu.Lock()
				defer q.mu.Unlock()
				for _, b := range q.waiting {
					entries += b.n
					bytes += len(b.body)
				}
				return entries, bytes, q.bytes, q.flying
			}
			s.mu.Lock() // nothing is applied
			var wg sync.WaitGroup
			add := func() {
				if _, _, err := q.add(make([]byte, c.each), false); err != nil && !(c.gaveUp && errors.Is(err, errNoTurn)) {
					t.Error(err)
				}
			}
			wg.Go(add)
			wait.Until(t, "one is in flight", func() bool { _, _, _, flying := waits(); return flying })
			const adds = 15
			if c.gaveUp {
				wg.Go(add)
				wait.Until(t, "the batch has given up", func() bool { entries, _, _, _ := waits(); return entries == 0 })
			} else {
				for range adds {
					wg.Go(add)
				}
				wait.Until(t, "all wait", func() bool { entries, _, _, _ := waits(); return entries == adds })
			}
			if _, bytes, counted, _ := waits(); counted != bytes {
				t.Errorf("%d bytes wait, %d are counted", bytes, counted)
			}
			s.mu.Unlock()
			wg.Wait()
			if _, bytes, counted, flying := waits(); counted != 0 || bytes != 0 || flying {
				t.Errorf("in the end %d bytes wait, %d are counted, in flight %v", bytes, counted, flying)
			}
		})
	}
}

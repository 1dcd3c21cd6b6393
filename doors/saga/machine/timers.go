package machine

import (
	"bytes"
	"fmt"
	"sync"
)

// ring is the timers that entries have set last, for the worker: it learns of a new one without reading the store. It is a cache: all
// timers are rows, which Due reads. Any goroutine.
type ring struct {
	mu      sync.Mutex // guards the rest; taken with the gate closed, so nothing waits under it
	slots   []Timer    // the timer of seq n is at n % len
	seq     uint64     // of the newest; the first has 1
	from    uint64     // it holds those with a seq from here on
	changed chan struct{}
}

// recentBatch is how many timers one call of Recent returns at most.
const recentBatch = 1024

// reset forgets all timers. Numbers go on, so that a reader with a number of an earlier life is told to begin anew.
func (r *ring) reset(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slots) != size {
		r.slots = make([]Timer, size)
	}
	r.seq++
	r.from = r.seq + 1
	r.wake()
}

// push adds timers.
func (r *ring) push(all []Timer) {
	if len(all) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range all {
		r.seq++
		r.slots[r.seq%uint64(len(r.slots))] = t
	}
	if size := uint64(len(r.slots)); r.seq >= size {
		r.from = max(r.from, r.seq-size+1)
	}
	r.wake()
}

// stir ends the waiting although no timer was set.
func (r *ring) stir() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake()
}

// wake ends the waiting; the caller holds mu.
func (r *ring) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Recent returns timers that entries have set after the seq-th, oldest first. It may return only part of them: ask again from the seq
// returned. A timer that was replaced or has ended since is among them. ok is false if the ring no longer reaches back that far. Then read
// the timers with Due, and later ones from the seq returned. Without timers, changed is closed when there are some, or the clock has
// jumped. To begin, take the seq that Recent(math.MaxUint64) returns, and ask Due after that. Any goroutine.
func (m *Machine) Recent(after uint64) (timers []Timer, seq uint64, ok bool, changed <-chan struct{}) {
	r := &m.timers
	r.mu.Lock()
	defer r.mu.Unlock()
	if after >= r.seq {
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		return nil, r.seq, true, r.changed
	}
	if after+1 < r.from {
		return nil, r.seq, false, nil
	}
	n := min(r.seq-after, recentBatch)
	timers = make([]Timer, n)
	for i := range timers {
		timers[i] = r.slots[(after+1+uint64(i))%uint64(len(r.slots))]
	}
	return timers, after + n, true, nil
}

// Due lists up to limit timers behind after (the zero Timer: from the first) with a tick of at most until, in order. Any goroutine.
func (m *Machine) Due(after Timer, until int64, limit int) (all []Timer, err error) {
	first := appendTimerKey(nil, spaceTimer, after)
	m.gate.RLock() // so that what it returns is published
	it, err := m.st.NewIter(first, []byte{letter, spaceTimer + 1})
	m.gate.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("read timers: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok && len(all) < limit; ok = it.Next() {
		if bytes.Equal(it.Key(), first) {
			continue
		}
		t, err := splitTimerKey(it.Key())
		if err != nil {
			return nil, err
		}
		if t.Tick > until {
			break
		}
		all = append(all, t)
	}
	return all, it.Error()
}

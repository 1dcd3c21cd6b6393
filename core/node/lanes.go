package node

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
)

// States of a pending command. Only the loop moves it forward. A caller that gives up moves queued or dispatched to
// abandoned; the state it left decides which outcome it may report.
const (
	stateQueued     int32 = iota // not proposed: can still be taken back without trace
	stateDispatched              // in the log or on its way to the leader: only Apply or a later term decides
	stateDone
	stateAbandoned
)

// pending is one command on its way through the log.
type pending struct {
	lane  Lane
	parts []entry.Part
	size  int

	// inTerm is non-zero for a worker's command: it dies with that term instead of being proposed again.
	inTerm uint64
	// change is set for a membership change.
	change *change
	// foreign is a complete encoded command from another member; no caller here waits for it.
	foreign []byte

	// Loop only.
	seq, term uint64
	sentAt    time.Duration

	state atomic.Int32
	done  chan struct{} // capacity 1
	// Written by the loop before done is signalled.
	res *entry.Result
	err error
	// call replaces done in simulation.
	call func(*entry.Result, error)
	// queuedAt is for the propose histogram.
	queuedAt time.Duration
}

var pendingPool = sync.Pool{New: func() any { return &pending{done: make(chan struct{}, 1)} }}

// lanes are the queues in front of the log, bounded in bytes each. Doors put in, the loop takes out.
//
// The doors' lanes share the log by bytes: the lane that has been served least goes next. Taking turns by commands was
// rejected: a command of a bulk load is a thousand times that of a put.
type lanes struct {
	specs  []*LaneSpec // by number, nil where no door has one; never changed
	mu     sync.Mutex
	of     []queue      // by number
	turn   int64        // served of the lane that was last taken from, before that
	queued atomic.Int64 // commands waiting, for status
}

// queue is one lane; guarded by lanes.mu.
type queue struct {
	q      []*pending
	head   int
	bytes  int
	limit  int
	served int64 // bytes taken, and for a lane that was empty at least what the others had by then
}

// newLanes makes the queues of LaneSystem and of the doors. limit is the bytes of a lane that does not say otherwise.
func newLanes(doors []LaneSpec, limit int) (*lanes, error) {
	l := &lanes{specs: []*LaneSpec{{Number: LaneSystem, Name: "system"}}}
	for i := range doors {
		d := &doors[i]
		for int(d.Number) >= len(l.specs) {
			l.specs = append(l.specs, nil)
		}
		if had := l.specs[d.Number]; had != nil {
			return nil, fmt.Errorf("lane %d is of %s and of %s: give one of them another number", d.Number, had.Name, d.Name)
		}
		l.specs[d.Number] = d
	}
	l.of = make([]queue, len(l.specs))
	for i, s := range l.specs {
		if s != nil {
			l.of[i].limit = cmp.Or(s.Bytes, limit)
		}
	}
	return l, nil
}

// spec returns what is known of a lane, nil if this node has none of that number.
func (l *lanes) spec(number Lane) *LaneSpec {
	if int(number) >= len(l.specs) {
		return nil
	}
	return l.specs[number]
}

// last is the lane with the highest number.
func (l *lanes) last() Lane { return Lane(len(l.of) - 1) }

// overheadBytes is the cost of a queued command beyond its parts.
const overheadBytes = 128

// push queues p at the end of its lane, false if the lane is full.
func (l *lanes) push(p *pending) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := &l.of[p.lane]
	if to.bytes > 0 && to.bytes+p.size > to.limit {
		return false
	}
	if to.head == len(to.q) {
		to.served = max(to.served, l.turn) // a lane that was idle has no credit for that
	}
	if len(to.q) == cap(to.q) && to.head > len(to.q)/2 { // a lane that is never empty must not grow with the commands that passed through it
		n := copy(to.q, to.q[to.head:])
		clear(to.q[n:])
		to.q, to.head = to.q[:n], 0
	}
	to.q = append(to.q, p)
	to.bytes += p.size
	l.queued.Add(1)
	return true
}

// unshift puts commands back in front, in order; they were admitted before, so no bound applies.
func (l *lanes) unshift(ps []*pending) {
	if len(ps) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane := range l.of {
		to := &l.of[lane]
		var back []*pending
		for _, p := range ps {
			if int(p.lane) == lane {
				back = append(back, p)
				to.bytes += p.size
				to.served -= int64(p.size)
				l.queued.Add(1)
			}
		}
		if len(back) > 0 {
			to.q, to.head = append(back, to.q[to.head:]...), 0
		}
	}
}

// take moves up to maxBytes and maxCount commands of the lanes up to last into dst. The system lane goes first and whole,
// then the doors' lanes by turns. A command that would have been next and finds no room is the first of the next entry.
func (l *lanes) take(dst []*pending, last Lane, maxBytes, maxCount int) []*pending {
	if l.queued.Load() == 0 {
		return dst
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for bytes := 0; len(dst) < maxCount; {
		lane, ok := l.next(last)
		if !ok {
			break
		}
		from := &l.of[lane]
		p := from.q[from.head]
		if bytes > 0 && bytes+p.size > maxBytes {
			break
		}
		from.q[from.head] = nil
		from.head++
		bytes += p.size
		from.bytes -= p.size
		l.queued.Add(-1)
		dst = append(dst, p)
		if lane != LaneSystem {
			l.turn = from.served
			from.served += int64(p.size)
		}
		if from.head == len(from.q) {
			from.q, from.head = from.q[:0], 0
			if cap(from.q) > 4096 {
				from.q = nil
			}
		}
	}
	return dst
}

// next is the lane to take from, false if those up to last are empty; the caller holds mu.
func (l *lanes) next(last Lane) (next Lane, ok bool) {
	for lane := LaneSystem; lane <= last; lane++ {
		if l.of[lane].head == len(l.of[lane].q) {
			continue
		}
		if lane == LaneSystem {
			return lane, true
		}
		if !ok || l.of[lane].served < l.of[next].served {
			next, ok = lane, true
		}
	}
	return next, ok
}

// usage returns the bytes queued in each lane.
func (l *lanes) usage() []LaneUse {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]LaneUse, 0, len(l.of))
	for i, s := range l.specs {
		if s != nil {
			all = append(all, LaneUse{Name: s.Name, Bytes: l.of[i].bytes})
		}
	}
	return all
}

// total returns the bytes queued in all lanes.
func (l *lanes) total() (bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.of {
		bytes += l.of[i].bytes
	}
	return bytes
}

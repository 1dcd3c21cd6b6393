package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/entry"
)

// States of a pending command. Only the loop moves it forward; a caller that gives up moves queued or dispatched to
// abandoned, and what it saw there decides what it may say about the outcome.
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
	// foreign is a complete encoded command from another member; nobody waits for it here.
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
// The doors' lanes share the log by bytes: the one that has been served least goes next, whatever the sizes of their commands.
// Taking turns by commands was rejected: a command of a bulk load is a thousand times that of a put.
type lanes struct {
	mu     sync.Mutex
	q      [laneCount][]*pending
	head   [laneCount]int
	bytes  [laneCount]int
	limit  [laneCount]int
	served [laneCount]int64 // bytes taken, and for a lane that was empty at least what the others had by then
	turn   int64            // served of the lane that was last taken from, before that
	queued atomic.Int64     // commands waiting, for status
}

const (
	laneCount = 3
	lastLane  = laneCount - 1
)

// overheadBytes is what a queued command costs beyond its parts.
const overheadBytes = 128

// push queues p at the end of its lane, false if the lane is full.
func (l *lanes) push(p *pending) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes[p.lane] > 0 && l.bytes[p.lane]+p.size > l.limit[p.lane] {
		return false
	}
	q, head := l.q[p.lane], l.head[p.lane]
	if head == len(q) {
		l.served[p.lane] = max(l.served[p.lane], l.turn) // having been idle is no claim on the log
	}
	if len(q) == cap(q) && head > len(q)/2 { // a lane that is never empty must not grow with what went through it
		n := copy(q, q[head:])
		clear(q[n:])
		q, l.head[p.lane] = q[:n], 0
	}
	l.q[p.lane] = append(q, p)
	l.bytes[p.lane] += p.size
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
	for lane := range l.q {
		var back []*pending
		for _, p := range ps {
			if int(p.lane) == lane {
				back = append(back, p)
				l.bytes[lane] += p.size
				l.served[lane] -= int64(p.size)
				l.queued.Add(1)
			}
		}
		if len(back) > 0 {
			l.q[lane] = append(back, l.q[lane][l.head[lane]:]...)
			l.head[lane] = 0
		}
	}
}

// take moves up to maxBytes and maxCount commands of the lanes up to last into dst: the system lane first and whole, then the
// doors' by turns. A command that would have been next and finds no room is the first of the next entry.
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
		p := l.q[lane][l.head[lane]]
		if bytes > 0 && bytes+p.size > maxBytes {
			break
		}
		l.q[lane][l.head[lane]] = nil
		l.head[lane]++
		bytes += p.size
		l.bytes[lane] -= p.size
		l.queued.Add(-1)
		dst = append(dst, p)
		if lane != LaneSystem {
			l.turn = l.served[lane]
			l.served[lane] += int64(p.size)
		}
		if l.head[lane] == len(l.q[lane]) {
			l.q[lane], l.head[lane] = l.q[lane][:0], 0
			if cap(l.q[lane]) > 4096 {
				l.q[lane] = nil
			}
		}
	}
	return dst
}

// next is the lane to take from, false if those up to last are empty; the caller holds mu.
func (l *lanes) next(last Lane) (next Lane, ok bool) {
	for lane := LaneSystem; lane <= last; lane++ {
		if l.head[lane] == len(l.q[lane]) {
			continue
		}
		if lane == LaneSystem {
			return lane, true
		}
		if !ok || l.served[lane] < l.served[next] {
			next, ok = lane, true
		}
	}
	return next, ok
}

// usage returns queued bytes per lane.
func (l *lanes) usage() (b [laneCount]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

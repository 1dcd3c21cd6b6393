package lease

import (
	"container/heap"
	"math"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
)

// Lessor keeps the deadlines of leases for as long as one member leads in one term. Times are cluster ticks in
// milliseconds. It is not safe for concurrent use.
type Lessor struct {
	leases map[int64]*lease
	queue  deadlines
	round  uint64 // the last Sync that had this lease; older ones are gone
}

type lease struct {
	id, ttl  int64 // ttl in seconds
	grant    uint64
	deadline int64
	queued   int64 // by which the queue has it, at most deadline: a renewal leaves it where it is
	slot     int   // in queue, -1 while its revocation is under way
	over     bool  // handed out by Due once: never renewed again in this term
	round    uint64
}

// Never is the deadline of an empty Lessor.
const Never = math.MaxInt64

// NewLessor returns a Lessor without leases.
func NewLessor() *Lessor { return &Lessor{leases: make(map[int64]*lease)} }

// Len is the number of leases.
func (l *Lessor) Len() int { return len(l.leases) }

// Sync makes the leases exactly those given: new ones get their full time from now, those that are not given are forgotten.
func (l *Lessor) Sync(all []kvmachine.LeaseChange, now int64) {
	l.round++
	for i := range all {
		given := &all[i].Lease
		l.Add(*given, now)
		l.leases[given.ID].round = l.round
	}
	if len(l.leases) == len(all) {
		return
	}
	for id, x := range l.leases {
		if x.round != l.round {
			l.remove(id, x)
		}
	}
}

// Change applies one change. Changes come in order, but the Lessor may know more of a lease already through a renewal.
func (l *Lessor) Change(c kvmachine.LeaseChange, now int64) {
	if !c.Gone {
		l.Add(c.Lease, now)
	} else if x := l.leases[c.ID]; x != nil && x.grant <= c.Grant {
		l.remove(c.ID, x)
	}
}

// Add adds one lease, with its full time from now, and reports whether it was new. A known lease keeps its deadline. A lease that was
// revoked and granted again is another one, and earlier changes to it are out of date.
func (l *Lessor) Add(given kvmachine.Lease, now int64) bool {
	if x := l.leases[given.ID]; x != nil {
		if x.grant >= given.Grant {
			return false
		}
		l.remove(x.id, x)
	}
	x := &lease{id: given.ID, ttl: given.TTL, grant: given.Grant}
	l.leases[given.ID] = x
	l.enqueue(x, after(now, given.TTL))
	return true
}

func (l *Lessor) enqueue(x *lease, deadline int64) {
	x.deadline, x.queued = deadline, deadline
	heap.Push(&l.queue, x)
}

// next returns the lease that runs out first, nil if none will. Leases that were renewed while at the head of the queue are moved only now.
// A renewal is far more frequent, and would have to move a lease through the whole queue.
func (l *Lessor) next() *lease {
	for len(l.queue) > 0 {
		x := l.queue[0]
		if x.queued == x.deadline {
			return x
		}
		x.queued = x.deadline
		heap.Fix(&l.queue, 0)
	}
	return nil
}

// after is now plus a time to live, which may be longer than the ticks can count.
func after(now, ttl int64) int64 {
	if ttl > (Never-1-now)/1000 {
		return Never - 1
	}
	return now + ttl*1000
}

func (l *Lessor) remove(id int64, x *lease) {
	if x.slot >= 0 {
		heap.Remove(&l.queue, x.slot)
	}
	delete(l.leases, id)
}

// State is the Lessor's state of a lease.
type State uint8

// Unknown: no such lease. Live: it runs. Expiring: its time is up and Due has handed it out; whether it is gone is decided in
// the log.
const (
	Unknown State = iota
	Live
	Expiring
)

// Renew gives a live lease its full time again and returns it in seconds. An expired lease is not renewed, even if Due has not handed it
// out yet: its owner knew how long it would live.
func (l *Lessor) Renew(id, now int64) (ttl int64, state State) {
	x := l.leases[id]
	switch {
	case x == nil:
		return 0, Unknown
	case x.over || x.deadline <= now:
		return 0, Expiring
	}
	if x.deadline = after(now, x.ttl); x.deadline < x.queued { // the tick went back
		x.queued = x.deadline
		heap.Fix(&l.queue, x.slot)
	}
	return x.ttl, Live
}

// Remaining returns a lease's granted and remaining time in seconds, the latter rounded down and never negative.
func (l *Lessor) Remaining(id, now int64) (granted, remaining int64, ok bool) {
	x := l.leases[id]
	if x == nil {
		return 0, 0, false
	}
	return x.ttl, max(x.deadline-now, 0) / 1000, true
}

// NextDeadline is when the next lease runs out, Never if none will.
func (l *Lessor) NextDeadline() int64 {
	if x := l.next(); x != nil {
		return x.deadline
	}
	return Never
}

// Due hands out at most limit leases whose time is up, oldest first. They are expiring from now on: Sync forgets them
// once they are revoked, Retry takes them back if that failed.
func (l *Lessor) Due(now int64, limit int) []int64 {
	var due []int64
	for len(due) < limit {
		x := l.next()
		if x == nil || x.deadline > now {
			break
		}
		heap.Pop(&l.queue)
		x.over = true
		due = append(due, x.id)
	}
	return due
}

// Retry takes expiring leases back so that Due hands them out again at the given time. They cannot be renewed: their revocation
// may be in the log although its outcome was not heard.
func (l *Lessor) Retry(ids []int64, at int64) {
	for _, id := range ids {
		if x := l.leases[id]; x != nil && x.slot < 0 {
			l.enqueue(x, at)
		}
	}
}

// Revoked forgets leases that are gone.
func (l *Lessor) Revoked(ids []int64) {
	for _, id := range ids {
		if x := l.leases[id]; x != nil {
			l.remove(id, x)
		}
	}
}

// deadlines is a heap of leases by the deadline that they are queued by, then id, so that equal deadlines come in a fixed order.
type deadlines []*lease

func (d deadlines) Len() int { return len(d) }

func (d deadlines) Less(i, j int) bool {
	if d[i].queued != d[j].queued {
		return d[i].queued < d[j].queued
	}
	return d[i].id < d[j].id
}

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].slot, d[j].slot = i, j
}

func (d *deadlines) Push(x any) {
	l := x.(*lease)
	l.slot = len(*d)
	*d = append(*d, l)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	x.slot = -1
	return x
}

package port

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// An HTTP/1.1 request that is too large for the present room waits before its body is read. Only its head is in memory by then. Room that
// is given back goes to those that wait, an address after another, so that a client with a hundred large requests delays itself. A gRPC
// connection waits only while nothing else on it is to be read, because its other calls need the reader.

const (
	// maxRoomWaiters bounds the connections that wait for room. Each holds what a small request does.
	maxRoomWaiters = 1024
	// roomLook is how often a connection that waits has others looked at that hold room and send nothing.
	roomLook = time.Second
)

// roomQueue is the connections that wait for room.
type roomQueue struct {
	mu   sync.Mutex
	all  []*roomWaiter // guarded by mu, in the order in which they came
	last netip.Addr    // guarded by mu: the address that was given room last
}

// roomWaiter is one of them.
type roomWaiter struct {
	n       int64
	site    netip.Addr
	settled bool
	given   chan struct{} // closed when it has been given what it waits for
}

// await takes n bytes for a connection that holds none, when there is room for them; it reports false if there was none within patience.
func (p *Port) await(n int64, site netip.Addr, settled bool, patience time.Duration) bool {
	if n > p.opts.BudgetBytes {
		return false
	}
	q := &p.waitRoom
	q.mu.Lock()
	if len(q.all) == 0 && p.tryDraw(n, 0, settled) {
		q.mu.Unlock()
		return true
	}
	if len(q.all) >= maxRoomWaiters {
		q.mu.Unlock()
		return false
	}
	w := &roomWaiter{n: n, site: site, settled: settled, given: make(chan struct{})}
	q.all = append(q.all, w)
	q.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	look := time.NewTicker(roomLook)
	defer look.Stop()
	for {
		p.evictStalled(nil)
		p.giveRoom() // the room given back while this one joined the queue
		select {
		case <-w.given:
			return true
		case <-look.C:
		case <-late.C:
			return !p.stopWaiting(w)
		case <-p.stop:
			return !p.stopWaiting(w)
		}
	}
}

// stopWaiting takes one out of the queue, and reports false if it has been given room already.
func (p *Port) stopWaiting(w *roomWaiter) bool {
	q := &p.waitRoom
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.all, w)
	if at < 0 {
		return false
	}
	q.all = slices.Delete(q.all, at, at+1)
	return true
}

// returnRoom gives back what draw or await has taken.
func (p *Port) returnRoom(n int64) {
	p.budget.Add(n)
	p.giveRoom()
}

// giveRoom gives room to those that wait for it, as long as there is some.
func (p *Port) giveRoom() {
	q := &p.waitRoom
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.all) > 0 {
		at := q.next()
		w := q.all[at]
		if !p.tryDraw(w.n, 0, true) { // a client that has waited is not new any more
			return
		}
		q.all = slices.Delete(q.all, at, at+1)
		q.last = w.site
		close(w.given)
	}
}

// next is whose turn it is: the first of another address than the last one's. The caller holds mu.
func (q *roomQueue) next() int {
	return max(slices.IndexFunc(q.all, func(w *roomWaiter) bool { return w.site != q.last }), 0)
}

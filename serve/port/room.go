package port

import "time"

// Room for large requests is drawn when their length is known, before they come. A server that took in half of each of many would have no
// room to finish any. But an announced request that does not come must not keep others out. So:
//
//   - a connection has three quarters of the room at most, unless one message needs more;
//   - the last quarter is not for connections that have just been opened and have not sent a large request yet;
//   - when there is no room, the connection that holds the most for requests of which nothing has come for a while is closed.
const (
	// stallGrace is how long a client may send nothing, or take nothing, of room that others wait for. A hundred honest writers of a
	// megabyte on a busy machine are silent for longer than half a second.
	stallGrace = 3 * time.Second
	// settledAfter is when a connection is not new any more, in seconds of the port's clock.
	settledAfter = 2
	// evictPatience is how long the room of a connection that was closed is waited for.
	evictPatience = 200 * time.Millisecond
)

// draw takes n bytes for a connection that holds so many already, or reports that they are not there. asks is that connection if it belongs
// to the gRPC server: an unfinished request on it is no reason to end it for another.
func (p *Port) draw(asks *grpcConn, n, holds int64, settled bool) bool {
	if p.tryDraw(n, holds, settled) {
		return true
	}
	if !p.evictStalled(asks) {
		return false
	}
	for began := time.Now(); time.Since(began) < evictPatience; time.Sleep(time.Millisecond) {
		if p.tryDraw(n, holds, settled) {
			return true
		}
	}
	return false
}

func (p *Port) tryDraw(n, holds int64, settled bool) bool {
	if holds > 0 && holds+n > p.opts.BudgetBytes/4*3 {
		return false
	}
	left := p.budget.Add(-n)
	if left >= 0 && (settled || left >= p.opts.BudgetBytes/4 || n > p.opts.BudgetBytes/4*3) {
		return true
	}
	p.budget.Add(n)
	return false
}

// settled reports whether a connection that was opened at a second, and has sent so many large requests, may have the last of the
// room.
func (p *Port) settled(opened, sent uint64) bool {
	return sent > 0 || opened+settledAfter <= p.now.Load()
}

// evictStalled closes the connection other than but that holds the most room for stalled requests. It reports whether there was one: its
// room is worth waiting for. Without one no connection may wait, because a waiting connection is not read. A client with a hundred requests
// on it would be kept from all of them, heartbeats included.
func (p *Port) evictStalled(but *grpcConn) bool {
	now := time.Now().UnixNano()
	last := p.evicted.Load()
	if now-last < int64(relieveInterval) || !p.evicted.CompareAndSwap(last, now) {
		return now-p.cut.Load() < int64(evictPatience) // another caller has just looked
	}
	var most int64
	var cut func()
	for _, i := range p.connections() {
		if i != but && i.room.Load() > most {
			if n := i.Stuck(now - int64(stallGrace)); n > most {
				most, cut = n, i.Cut // the gRPC server notices
			}
		}
	}
	for _, c := range p.requests() {
		if n := c.room.Load(); n > most && c.state.Load()&3 == reading && now-c.heard.Load() > int64(stallGrace) {
			most, cut = n, c.cut
		}
	}
	if cut == nil {
		return false
	}
	cut()
	p.cut.Store(now)
	return true
}

// requests is the HTTP/1.1 connections.
func (p *Port) requests() []*client {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*client, 0, len(p.clients))
	for c := range p.clients { // any order: each is judged alone
		all = append(all, c)
	}
	return all
}

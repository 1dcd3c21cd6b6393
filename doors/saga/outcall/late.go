package outcall

import "time"

// A call that had no answer in time may still get one: the service was slow and not dead. Some of these connections are read for a while
// longer, so that a route's circuit does not open for calls that succeed late.
const (
	// maxLate and maxLateOfRoute bound the calls that are listened to, in all and of one route.
	maxLate, maxLateOfRoute = 256, 8
	// longestLate and leastLate bound for how long; else it is as long again as the call might have taken.
	longestLate, leastLate = 10 * time.Second, time.Second
)

// listen waits for the late answer to a request that was sent whole. The connection is no good for another call, and is closed in the end.
func (n *Net) listen(c *call, conn *conn) {
	r := c.route
	conn.SetReadDeadline(time.Now().Add(min(max(c.timeout(), leastLate), longestLate))) // without one it is broken, and the read says so
	n.mu.Lock()
	ok := !n.closed && len(n.late) < maxLate && r.late < maxLateOfRoute
	if ok {
		n.late[conn] = struct{}{}
		r.late++
	}
	n.mu.Unlock()
	if !ok {
		conn.Close() // the call has failed already
		return
	}
	go func() {
		var b [1]byte
		got, _ := conn.Conn.Read(b[:]) // an error is no answer
		conn.Close()
		n.mu.Lock()
		delete(n.late, conn)
		r.late--
		closed := false
		var all []*call
		if got > 0 {
			closed = n.heard(r, time.Now())
			all = n.ready()
		}
		n.gone.Broadcast()
		n.mu.Unlock()
		n.run(all)
		n.tell(r, closed)
	}()
}

// heard notes an answer of a route. It reports whether that has closed a circuit. n.mu is held.
func (n *Net) heard(r *route, now time.Time) (closed bool) {
	ep := r.endpoint
	ep.heard, r.heard = now, now
	if ep.breaker.answered() {
		closed = true
		n.meter.Open.Add(-1)
		for _, other := range ep.routes { // any order: they take turns
			if other != r {
				n.offer(other)
			}
		}
	}
	if r.breaker.answered() {
		closed = true
		n.meter.Open.Add(-1)
	}
	n.offer(r)
	return closed
}

// tell logs that a route answers again, if it does.
func (n *Net) tell(r *route, closed bool) {
	if closed && n.o.Logger != nil {
		n.o.Logger.Info("a service answers again", "endpoint", r.endpoint.key, "path", r.key)
	}
}

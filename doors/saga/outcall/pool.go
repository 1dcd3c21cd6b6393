package outcall

import (
	"time"
)

// endpointOf finds or makes an endpoint. n.mu is held.
func (n *Net) endpointOf(t *target) *endpoint {
	key := t.endpoint()
	ep := n.endpoints[key]
	if ep != nil {
		return ep
	}
	if len(n.endpoints) >= maxEndpoints {
		n.makeRoom()
	}
	ep = &endpoint{key: key, used: time.Now(), breaker: breaker{stranger: true}, routes: map[string]*route{}, long: make(chan struct{}, maxLongOfHost)}
	n.endpoints[key] = ep
	if n.sweep == nil && !n.closed {
		n.sweep = time.AfterFunc(n.o.Idle/2, n.tidy)
	}
	return ep
}

// unused reports whether no call is on its way to the endpoint. n.mu is held.
func (ep *endpoint) unused() bool {
	if ep.running > 0 {
		return false
	}
	for _, r := range ep.routes { // any order: one is looked for
		if !r.unused() {
			return false
		}
	}
	return true
}

// stale reports whether nothing is lost if the endpoint is forgotten with its routes. n.mu is held.
func (ep *endpoint) stale(old time.Time) bool {
	for _, r := range ep.routes { // any order: one is looked for
		if !r.stale(old) {
			return false
		}
	}
	return ep.running == 0 && ep.breaker.stale(old)
}

// stale reports whether nothing is lost if the route is forgotten. n.mu is held.
func (r *route) stale(old time.Time) bool { return r.unused() && r.breaker.stale(old) }

// makeRoom forgets one unused endpoint: any one that has not answered of late, since there are thousands, and their main cost is a new
// connection. If an answering endpoint were forgotten, its next call would wait behind those to strangers. So these are forgotten only when
// they alone are half of all. n.mu is held.
func (n *Net) makeRoom() {
	now := time.Now()
	if now.Sub(n.crammed) < 20*time.Millisecond { // all are in use
		return
	}
	var victim *endpoint
	answer := 0
	for _, ep := range n.endpoints { // any order
		if !ep.unused() {
			continue
		}
		victim = ep
		if now.Sub(ep.heard) >= memory {
			answer = maxEndpoints
			break
		}
		answer++
	}
	if victim == nil || answer < maxEndpoints/2 {
		n.crammed = now
		return
	}
	var l leftovers
	n.forget(victim, &l)
	go l.close()
}

// leftovers are connections to close, which may take time and so is done without the lock.
type leftovers struct {
	conns    []*conn
	channels []*channel
}

func (l leftovers) close() {
	for _, c := range l.conns {
		c.Close() // it is unused: nothing can be lost by its failure to close
	}
	for _, c := range l.channels {
		c.close()
	}
}

// forget drops an endpoint. n.mu is held.
func (n *Net) forget(ep *endpoint, l *leftovers) {
	l.conns = append(l.conns, ep.idle...)
	n.idle -= len(ep.idle)
	ep.idle = nil
	if ep.grpc != nil {
		l.channels = append(l.channels, ep.grpc)
		ep.grpc = nil
	}
	if ep.breaker.open {
		n.meter.Open.Add(-1)
	}
	for _, r := range ep.routes { // any order: all are forgotten
		n.dropRoute(r)
	}
	delete(n.endpoints, ep.key)
}

// forgetAll drops all endpoints. n.mu is held.
func (n *Net) forgetAll() (l leftovers) {
	for _, ep := range n.endpoints {
		n.forget(ep, &l)
	}
	return l
}

// tidy closes what has been idle for too long. It comes back as long as there is anything.
func (n *Net) tidy() {
	var l leftovers
	n.mu.Lock()
	old := time.Now().Add(-n.o.Idle)
	for _, ep := range n.endpoints {
		gone := 0
		for gone < len(ep.idle) && ep.idle[gone].used.Before(old) {
			gone++
		}
		l.conns = append(l.conns, ep.idle[:gone]...)
		n.idle -= gone
		kept := copy(ep.idle, ep.idle[gone:])
		clear(ep.idle[kept:])
		ep.idle = ep.idle[:kept]
		if kept == 0 && ep.used.Before(old) && ep.stale(old) {
			n.forget(ep, &l)
			continue
		}
		for _, r := range ep.routes { // any order: each is judged by itself
			if r.used.Before(old) && r.stale(old) {
				n.dropRoute(r)
			}
		}
	}
	switch {
	case n.closed:
	case len(n.endpoints) > 0:
		n.sweep.Reset(n.o.Idle / 2)
	default:
		n.sweep = nil
	}
	n.mu.Unlock()
	l.close()
}

// take returns a kept connection, the one used last, or nil.
func (n *Net) take(ep *endpoint) *conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(ep.idle) == 0 {
		return nil
	}
	last := len(ep.idle) - 1
	c := ep.idle[last]
	ep.idle[last] = nil
	ep.idle = ep.idle[:last]
	n.idle--
	return c
}

// keep puts a connection aside for the next call, or closes it if there are as many as there may be.
func (n *Net) keep(ep *endpoint, c *conn) {
	c.used = time.Now()
	n.mu.Lock()
	ok := !n.closed && n.idle < n.o.InFlight && len(ep.idle) < n.o.PerEndpoint && n.endpoints[ep.key] == ep
	if ok {
		ep.idle = append(ep.idle, c)
		n.idle++
	}
	n.mu.Unlock()
	if !ok {
		c.Close() // its answer has been read whole: nothing can be lost by its failure to close
	}
}

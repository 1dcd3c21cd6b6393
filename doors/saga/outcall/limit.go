package outcall

import (
	"fmt"
	"time"
)

// maxEndpoints bounds the endpoints that are remembered. Clients name them, so without a bound they name how much memory they cost.
const maxEndpoints = 4096

// endpoint is a scheme, host and port. Connections are kept per endpoint, and an unreachable one fails as a whole. A call hangs on a route.
// Net.mu guards it.
type endpoint struct {
	key     string
	running int
	routes  map[string]*route
	heard   time.Time // when an answer came last
	breaker breaker   // of connections that cannot be made
	used    time.Time // when the last call ended
	idle    []*conn   // kept connections, the one used last at the end
	grpc    *channel
	long    chan struct{} // of calls that read a long answer of it
}

const (
	// maxLong and maxLongOfHost bound the calls that read an answer beyond its first megabyte, in all and of one endpoint. Reading takes
	// the processor for as long as a service sends.
	maxLong, maxLongOfHost = 16, 4
	// leastShare is the least that one endpoint's share of all places can be.
	leastShare = 8
	// memory is for how long a route is known to answer after it has.
	memory = time.Minute
	// longestWait bounds the wait for a place: a call that may take ten minutes does not wait as long for its place.
	longestWait = 30 * time.Second
)

// share is how many calls to one endpoint may be under way when places are scarce.
func (n *Net) share() int { return max(n.o.InFlight/64, leastShare) }

// hostHangs reports whether a call to the endpoint hangs while nothing there answers. n.mu is held.
func (n *Net) hostHangs(ep *endpoint, now time.Time) bool {
	if now.Sub(ep.heard) <= n.o.Timeout {
		return false
	}
	for _, r := range ep.routes { // any order: one is looked for
		if n.hangs(r, now) {
			return true
		}
	}
	return false
}

// fits reports whether there is a place for one more call of the route. Places are plenty as long as half of them are free. From then on an
// endpoint that hangs has its share, and a route that does, and from three quarters on each endpoint has. The last eighth is for routes that
// answer, and half of it for the first call to each other endpoint. n.mu is held.
func (n *Net) fits(r *route, now time.Time) bool {
	if !n.fitsHost(r, now) || !n.mayBegin(r, now) {
		return false
	}
	ep, all, share := r.endpoint, n.o.InFlight, n.share()
	switch {
	case n.running >= all:
		return false
	case ep.running >= share && (n.running >= all/4*3 || n.running >= all/2 && n.hostHangs(ep, now)):
		return false
	case r.running >= share && n.running >= all/2 && n.hangs(r, now):
		return false
	}
	return n.running < all/8*7 || ep.running == 0 && n.running < n.forLively() || n.lively(r, now)
}

// forLively is from how many calls on places are kept for routes that answer: thousands that were never called may hang as well.
func (n *Net) forLively() int {
	if n.o.InFlight < 8*leastShare {
		return n.o.InFlight
	}
	return n.o.InFlight / 16 * 15
}

// relieve gives up one hanging call, the oldest of the route with the most. It does so where all places are taken and a call waits whose
// route answers, or has no call under way. The request's time limit does not allow it to hold up others. n.mu is held.
func (n *Net) relieve(r *route, now time.Time) {
	most, lively := n.o.InFlight, n.lively(r, now)
	if !lively {
		most = n.forLively()
	}
	if n.running < most {
		n.relieveHost(r, now)
		return
	}
	if r.endpoint.running > 0 && !lively {
		return
	}
	if !lively && n.lately(&n.relieved, now) {
		return
	}
	var worst *route
	for _, ep := range n.endpoints { // any order: the one with the most is looked for
		if ep != r.endpoint {
			worst = n.worst(r, ep.routes, worst, now)
		}
	}
	n.giveUp(worst)
}

// lately reports whether very many endpoints were looked through a moment ago, and otherwise notes that they are now. Thousands of strangers come at
// once, and each look takes a millisecond in which no call of others begins. n.mu is held.
func (n *Net) lately(last *time.Time, now time.Time) bool {
	const many, moment = 1024, 20 * time.Millisecond
	if len(n.endpoints) < many {
		return false
	}
	if now.Sub(*last) < moment {
		return true
	}
	*last = now
	return false
}

// enter gives a call a place: it reports true if the call is to be made at once, by the goroutine that asked. Otherwise the call waits or has been ended.
func (n *Net) enter(c *call) bool {
	n.mu.Lock()
	ep := n.endpointOf(&c.target)
	r := n.routeOf(c, ep)
	c.endpoint, c.route = ep, r
	now := time.Now()
	if c.isCancelled() || n.closed {
		n.mu.Unlock()
		go c.end(Transient, "cancelled before it was sent")
		return false
	}
	ok, trial, reaching := r.allow(now)
	shut, name := (*breaker)(nil), ""
	if !ok {
		shut, name = r.shut(now)
	}
	switch {
	case shut != nil:
		text := fmt.Sprintf("circuit open: calls to %s came to nothing %d times in a row (the last: %s); none is made for %v",
			name, shut.failures, shut.last, max(shut.until.Sub(now), 0).Round(time.Millisecond))
		n.mu.Unlock()
		go c.end(Transient, text)
		return false
	case ok && r.waiting.Len() == 0 && n.fits(r, now):
		c.trial, c.reaching = trial, reaching
		n.start(c)
		n.mu.Unlock()
		return true
	case n.waiting >= n.o.Waiting:
		r.breaker.dropped(trial)
		ep.breaker.dropped(reaching)
		n.mu.Unlock()
		n.meter.Full.Inc()
		go c.end(Transient, fmt.Sprintf("%d calls wait for a place already", n.o.Waiting))
		return false
	}
	c.trial, c.reaching = trial, reaching
	c.state = waiting
	if c.place = r.waiting.PushBack(c); trial || reaching {
		r.waiting.MoveToFront(c.place) // the others wait for its result
	}
	n.waiting++
	n.meter.Waiting.Add(1)
	c.timer = time.AfterFunc(min(c.left, longestWait), func() { n.tooLate(c) })
	n.offer(r)
	n.relieve(r, now)
	n.mu.Unlock()
	return false
}

// start counts a call as under way. n.mu is held.
func (n *Net) start(c *call) {
	c.state = running
	c.started = time.Now()
	if !c.route.known(c.started) {
		n.paceOf(c.endpoint).begun++
	}
	c.under = c.route.calls.PushBack(c)
	c.route.running++
	c.endpoint.running++
	n.running++
	n.meter.Running.Add(1)
}

// leave takes a waiting call out of its queue. n.mu is held.
func (n *Net) leave(c *call) {
	r := c.route
	r.waiting.Remove(c.place)
	c.place = nil
	c.timer.Stop()
	c.state = starting
	n.waiting--
	n.meter.Waiting.Add(-1)
	if r.waiting.Len() == 0 {
		n.noTurn(r)
	}
}

// noTurn takes a route out of those whose turn will come. n.mu is held.
func (n *Net) noTurn(r *route) {
	if r.turn != nil {
		n.turns.Remove(r.turn)
		r.turn = nil
	}
}

// abandon is leave for a call that will not be made. If it was to try its route or endpoint, the next in the queue is. n.mu is held.
func (n *Net) abandon(c *call) {
	n.leave(c)
	if c.trial || c.reaching {
		r := c.route
		r.breaker.dropped(c.trial)
		c.endpoint.breaker.dropped(c.reaching)
		n.noTurn(r) // it was the turn of this one
		n.offer(r)
		if c.reaching {
			n.offerOthers(r)
		}
	}
}

// tooLate ends a call that has waited as long as its service might have taken.
func (n *Net) tooLate(c *call) {
	n.mu.Lock()
	if c.state != waiting {
		n.mu.Unlock()
		return
	}
	room := n.fitsHost(c.route, time.Now()) && n.running < n.o.InFlight
	held := c.endpoint.breaker.open && !c.reaching || c.route.breaker.open && !c.trial
	n.abandon(c)
	n.mu.Unlock()
	if held {
		c.end(Transient, fmt.Sprintf("circuit open: the call that tries %s has not ended in %v", c.route.name(), min(c.left, longestWait)))
		return
	}
	if room {
		c.end(Transient, fmt.Sprintf("%s: no turn in %v: calls to services that have not answered of late begin at %d a second, and there are more",
			c.endpoint.key, min(c.left, longestWait), strangersPerSecond))
		return
	}
	c.end(Transient, fmt.Sprintf("%s: no place in %v among the %d calls that may be under way to it, or the %d in all",
		c.endpoint.key, min(c.left, longestWait), n.o.PerEndpoint, n.o.InFlight))
}

// offer puts a route among those whose turn will come, if it has a call that waits and its endpoint a place for it. While a breaker is open that
// is the one call that tries it. n.mu is held.
func (n *Net) offer(r *route) {
	ep := r.endpoint
	if r.turn != nil || r.waiting.Len() == 0 || ep.running >= n.o.PerEndpoint {
		return
	}
	if first := r.waiting.Front().Value.(*call); !first.trial && !first.reaching && (ep.breaker.open || r.breaker.open) {
		ok := false
		if ok, first.trial, first.reaching = r.allow(time.Now()); !ok {
			return
		}
	}
	r.turn = n.turns.PushBack(r)
}

// offerOthers offers the other routes of an endpoint: one of them may begin what r did not. n.mu is held.
func (n *Net) offerOthers(r *route) {
	if len(r.endpoint.routes) < 2 {
		return
	}
	for _, other := range r.endpoint.routes { // any order: they take turns
		if other != r {
			n.offer(other)
		}
	}
}

// mostLooked bounds the endpoints that next looks at: there may be thousands that have their share.
const mostLooked = 64

// next starts the call whose turn it is: routes take turns, the calls of one are served as they came. While places are scarce every second
// turn is for those that answer. nil if there is none, or no place. n.mu is held.
func (n *Net) next() *call {
	if n.running >= n.o.InFlight || n.turns.Len() == 0 {
		return nil
	}
	now := time.Now()
	r := n.turn(now)
	if r == nil {
		return nil
	}
	n.noTurn(r)
	c := r.waiting.Front().Value.(*call)
	n.leave(c)
	n.start(c)
	n.offer(r)
	return c
}

// turn is the route whose turn it is, nil if none that was looked at has a place; those are not looked at next time. n.mu is held.
func (n *Net) turn(now time.Time) (first *route) {
	// Every second turn is that of an answering route, if there is one: unknown routes must get calls as well.
	n.taken++
	lively := n.taken%2 == 0 && n.o.InFlight >= 8*leastShare && n.running >= n.o.InFlight/2
	for at, i := n.turns.Front(), 0; at != nil && i < mostLooked; i++ {
		r, next := at.Value.(*route), at.Next()
		switch fits := n.fits(r, now); {
		case fits && (!lively || n.lively(r, now)):
			return r
		case fits && first == nil:
			first = r
		case !fits:
			n.turns.MoveToBack(at)
		}
		at = next
	}
	return first
}

// finish counts a call as ended, tells the breakers, and starts the calls that can begin now. The first is returned, for the free
// goroutine; the others get goroutines of their own. Calls that an opened breaker has cut off are ended.
func (n *Net) finish(c *call, v verdict) *call {
	ep, r := c.endpoint, c.route
	cancelled := c.isCancelled()
	n.mu.Lock()
	now := time.Now()
	c.state = starting
	r.calls.Remove(c.under)
	c.under = nil
	r.running--
	ep.running--
	ep.used, r.used = now, now
	n.running--
	n.meter.Running.Add(-1)
	closed := false
	var opened *breaker // and its name
	of := ""
	switch {
	case v.outcome == Refused || cancelled, v.mute && !v.unreachable && r.heard.After(c.started): // since it began the route has answered
		r.breaker.dropped(c.trial)
		ep.breaker.dropped(c.reaching)
	case v.mute && v.unreachable:
		r.breaker.dropped(c.trial)
		opened, of = n.count(&ep.breaker, c.reaching, v.message, now), ep.key
	case v.mute:
		ep.breaker.dropped(c.reaching)
		opened, of = n.count(&r.breaker, c.trial, v.message, now), r.name()
	default:
		closed = n.heard(r, now)
	}
	reaching := c.reaching
	c.trial, c.reaching = false, false
	var dead *channel
	if ep.grpc != nil && ep.running == 0 && (v.mute || !ep.grpc.ready()) {
		// The library would go on dialling for as long as there is a channel. The next call dials again.
		dead, ep.grpc = ep.grpc, nil
	}
	off := n.cutOff(r, opened)
	n.offer(r)
	if reaching || ep.running == n.o.PerEndpoint-1 { // others may wait for the end of the trial, or for its place
		n.offerOthers(r)
	}
	first := n.next()
	n.run(n.ready())
	wait := time.Duration(0)
	if opened != nil {
		wait = opened.until.Sub(now).Round(time.Millisecond)
	}
	n.mu.Unlock()
	if dead != nil {
		go dead.close()
	}
	if len(off) > 0 {
		go func() {
			for _, w := range off {
				w.end(Transient, fmt.Sprintf("circuit open: %s", v.message))
			}
		}()
	}
	if n.o.Logger != nil && opened != nil {
		n.o.Logger.Warn("no calls to a service that does not answer", "endpoint", of, "error", v.message, "for", wait)
	}
	n.tell(r, closed)
	return first
}

// count tells a breaker of a call that failed, and returns it if that has opened it. n.mu is held.
func (n *Net) count(b *breaker, trial bool, why string, now time.Time) *breaker {
	was := b.open
	if !b.failed(now, trial, why, &n.o.Breaker) {
		return nil
	}
	if !was {
		n.meter.Open.Add(1)
	}
	return b
}

// cutOff removes the waiting calls that an opened breaker has blocked; nil: none has. n.mu is held.
func (n *Net) cutOff(r *route, opened *breaker) (off []*call) {
	if opened == nil {
		return nil
	}
	for _, other := range r.endpoint.routes { // any order: all are ended
		if opened == &r.breaker && other != r {
			continue
		}
		for other.waiting.Len() > 0 {
			w := other.waiting.Front().Value.(*call)
			n.abandon(w)
			off = append(off, w)
		}
	}
	return off
}

// work makes a call, then those whose turn comes as places are given back.
func (n *Net) work(c *call) {
	for c != nil {
		began := time.Now()
		c.by = began.Add(c.left)
		v := c.make()
		n.meter.Seconds.Since(began)
		after := n.finish(c, v)
		if c.gaveUp && v.outcome == Transient && v.next == "" {
			v.message = fmt.Sprintf("%s: given up after %v without an answer: all %d places for calls are taken, and services that answer wait for one",
				c.target.endpoint(), time.Since(began).Round(time.Millisecond), n.o.InFlight)
		}
		switch {
		case v.next == "":
			c.end(v.outcome, v.message)
		default:
			c.left = max(time.Until(c.by), time.Millisecond)
			n.redirect(c, v.next)
		}
		c = after
	}
}

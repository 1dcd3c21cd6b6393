package outcall

import (
	"container/list"
	"fmt"
	"time"
)

// maxEndpoints bounds the endpoints that are remembered. Clients name them, so without a bound they name how much memory they cost.
const maxEndpoints = 4096

// endpoint is a scheme, host and port: what the limits, the queue, the breaker and the kept connections are of. Net.mu guards it.
type endpoint struct {
	key     string
	running int
	calls   list.List     // of *call, those under way in the order in which they began
	waiting list.List     // of *call, in the order in which they came
	turn    *list.Element // in Net.turns
	heard   time.Time     // when an answer came last
	breaker breaker
	used    time.Time // when the last call ended
	idle    []*conn   // kept connections, the one used last at the end
	grpc    *channel
}

const (
	// leastShare is the least that one endpoint's share of all places can be.
	leastShare = 8
	// memory is for how long an endpoint is known to answer after it has.
	memory = time.Minute
	// longestWait bounds the wait for a place: a call that may take ten minutes is not kept for as long where there is no place for it.
	longestWait = 30 * time.Second
)

// share is how many calls to one endpoint may be under way when places are scarce.
func (n *Net) share() int { return max(n.o.InFlight/64, leastShare) }

// hangs reports whether a call to the endpoint has been under way for longer than a service usually takes. n.mu is held.
func (n *Net) hangs(ep *endpoint, now time.Time) bool {
	first := ep.calls.Front()
	return first != nil && now.Sub(first.Value.(*call).started) > n.o.Timeout
}

// lively reports whether the endpoint answers, as far as is known. n.mu is held.
func (n *Net) lively(ep *endpoint, now time.Time) bool {
	return now.Sub(ep.heard) < memory && !n.hangs(ep, now)
}

// fits reports whether there is a place for one more call to the endpoint. Places are plenty as long as half of them are free. From then on an
// endpoint that hangs has its share, and from three quarters on each has. The last eighth is for endpoints that answer, and half of it for the first
// call to each other. n.mu is held.
func (n *Net) fits(ep *endpoint, now time.Time) bool {
	all := n.o.InFlight
	switch scarce := ep.running >= n.share(); {
	case ep.running >= n.o.PerEndpoint, n.running >= all:
		return false
	case scarce && (n.running >= all/4*3 || n.running >= all/2 && n.hangs(ep, now)):
		return false
	}
	return n.running < all/8*7 || ep.running == 0 && n.running < n.forLively() || n.lively(ep, now)
}

// forLively is from how many calls on places are kept for endpoints that answer: thousands that were never called may hang as well.
func (n *Net) forLively() int {
	if n.o.InFlight < 8*leastShare {
		return n.o.InFlight
	}
	return n.o.InFlight / 16 * 15
}

// relieve gives up one call that hangs, where every place it might have is taken and a call to an endpoint waits that answers or has none under way: the oldest
// of the endpoint with the most. Its request said how long its service may take, but not that others are to wait for it. n.mu is held.
func (n *Net) relieve(ep *endpoint, now time.Time) {
	most, lively := n.o.InFlight, n.lively(ep, now)
	if !lively {
		most = n.forLively()
	}
	if n.running < most || ep.running > 0 && !lively {
		return
	}
	var worst *endpoint
	for _, other := range n.endpoints { // any order: the one with the most is looked for
		if other != ep && (worst == nil || other.running > worst.running) && n.hangs(other, now) {
			worst = other
		}
	}
	if worst == nil {
		return
	}
	c := worst.calls.Front().Value.(*call)
	if c.gaveUp { // its end is on its way
		return
	}
	c.gaveUp = true
	n.meter.GivenUp.Inc()
	c.interrupt()
}

// enter gives a call a place: it reports true if the call is to be made at once, by the goroutine that asked. Otherwise the call waits or has been ended.
func (n *Net) enter(c *call) bool {
	n.mu.Lock()
	ep := n.endpointOf(&c.target)
	c.endpoint = ep
	now := time.Now()
	if c.isCancelled() || n.closed {
		n.mu.Unlock()
		go c.end(Transient, "cancelled before it was sent")
		return false
	}
	ok, trial := ep.breaker.allow(now)
	switch {
	case !ok && !ep.breaker.trying: // else it waits for what comes of the one that tries
		text := fmt.Sprintf("circuit open: calls to %s came to nothing %d times in a row (the last: %s); none is made for %v",
			ep.key, ep.breaker.failures, ep.breaker.last, max(ep.breaker.until.Sub(now), 0).Round(time.Millisecond))
		n.mu.Unlock()
		go c.end(Transient, text)
		return false
	case ok && ep.waiting.Len() == 0 && n.fits(ep, now):
		c.trial = trial
		n.start(c)
		n.mu.Unlock()
		return true
	case n.waiting >= n.o.Waiting:
		ep.breaker.dropped(trial)
		n.mu.Unlock()
		n.meter.Full.Inc()
		go c.end(Transient, fmt.Sprintf("%d calls wait for a place already", n.o.Waiting))
		return false
	}
	c.trial = trial
	c.state = waiting
	if c.place = ep.waiting.PushBack(c); trial {
		ep.waiting.MoveToFront(c.place) // the others wait for what comes of it
	}
	n.waiting++
	n.meter.Waiting.Add(1)
	c.timer = time.AfterFunc(min(c.left, longestWait), func() { n.tooLate(c) })
	n.offer(ep)
	n.relieve(ep, now)
	n.mu.Unlock()
	return false
}

// start counts a call as under way. n.mu is held.
func (n *Net) start(c *call) {
	c.state = running
	c.started = time.Now()
	c.under = c.endpoint.calls.PushBack(c)
	c.endpoint.running++
	n.running++
	n.meter.Running.Add(1)
}

// leave takes a waiting call out of its queue. n.mu is held.
func (n *Net) leave(c *call) {
	ep := c.endpoint
	ep.waiting.Remove(c.place)
	c.place = nil
	c.timer.Stop()
	c.state = starting
	n.waiting--
	n.meter.Waiting.Add(-1)
	if ep.waiting.Len() == 0 && ep.turn != nil {
		n.turns.Remove(ep.turn)
		ep.turn = nil
	}
}

// abandon is leave for a call that will not be made. If it was to try its endpoint, the next in the queue is. n.mu is held.
func (n *Net) abandon(c *call) {
	n.leave(c)
	if ep := c.endpoint; c.trial {
		ep.breaker.dropped(true)
		if ep.turn != nil { // it was the turn of this one
			n.turns.Remove(ep.turn)
			ep.turn = nil
		}
		n.offer(ep)
	}
}

// tooLate ends a call that has waited as long as its service might have taken.
func (n *Net) tooLate(c *call) {
	n.mu.Lock()
	if c.state != waiting {
		n.mu.Unlock()
		return
	}
	held := c.endpoint.breaker.open && !c.trial
	n.abandon(c)
	n.mu.Unlock()
	if held {
		c.end(Transient, fmt.Sprintf("circuit open: the call that tries %s has not ended in %v", c.endpoint.key, min(c.left, longestWait)))
		return
	}
	c.end(Transient, fmt.Sprintf("%s: no place in %v among the %d calls that may be under way to it, or the %d in all",
		c.endpoint.key, min(c.left, longestWait), n.o.PerEndpoint, n.o.InFlight))
}

// offer puts an endpoint among those whose turn will come, if it has a call that waits and a place for it. While its breaker is open that is
// the one call that tries it. n.mu is held.
func (n *Net) offer(ep *endpoint) {
	if ep.turn != nil || ep.waiting.Len() == 0 || ep.running >= n.o.PerEndpoint {
		return
	}
	if first := ep.waiting.Front().Value.(*call); ep.breaker.open && !first.trial {
		if _, first.trial = ep.breaker.allow(time.Now()); !first.trial {
			return
		}
	}
	ep.turn = n.turns.PushBack(ep)
}

// mostLooked bounds the endpoints that next looks at: there may be thousands that have their share.
const mostLooked = 64

// next starts the call whose turn it is: endpoints take turns, the calls of one are served as they came. While places are scarce every second
// turn is for those that answer. nil if there is none, or no place. n.mu is held.
func (n *Net) next() *call {
	if n.running >= n.o.InFlight || n.turns.Len() == 0 {
		return nil
	}
	now := time.Now()
	ep := n.turn(now)
	if ep == nil {
		return nil
	}
	n.turns.Remove(ep.turn)
	ep.turn = nil
	c := ep.waiting.Front().Value.(*call)
	n.leave(c)
	n.start(c)
	n.offer(ep)
	return c
}

// turn is the endpoint whose turn it is, nil if none of those that were looked at has a place; they are not looked at next time. n.mu is held.
func (n *Net) turn(now time.Time) (first *endpoint) {
	// Every second turn is that of one that answers, if there is one: those that nobody knows yet are to be heard as well.
	n.taken++
	lively := n.taken%2 == 0 && n.o.InFlight >= 8*leastShare && n.running >= n.o.InFlight/2
	for at, i := n.turns.Front(), 0; at != nil && i < mostLooked; i++ {
		ep, next := at.Value.(*endpoint), at.Next()
		switch fits := n.fits(ep, now); {
		case fits && (!lively || n.lively(ep, now)):
			return ep
		case fits && first == nil:
			first = ep
		case !fits:
			n.turns.MoveToBack(at)
		}
		at = next
	}
	return first
}

// finish counts a call as no longer under way, tells the breaker, and starts those that can begin now: the first is returned, for
// the goroutine that is free, the others have goroutines of their own. Calls that an opened breaker has cut off are ended.
func (n *Net) finish(c *call, v verdict) *call {
	ep := c.endpoint
	cancelled := c.isCancelled()
	n.mu.Lock()
	now := time.Now()
	c.state = starting
	ep.calls.Remove(c.under)
	c.under = nil
	ep.running--
	ep.used = now
	n.running--
	n.meter.Running.Add(-1)
	opened, closed := false, false
	switch {
	case v.outcome == Refused || cancelled:
		ep.breaker.dropped(c.trial)
	case v.mute:
		was := ep.breaker.open
		opened = ep.breaker.failed(now, c.trial, v.message, &n.o.Breaker)
		if opened && !was {
			n.meter.Open.Add(1)
		}
	default:
		ep.heard = now
		if closed = ep.breaker.answered(); closed {
			n.meter.Open.Add(-1)
		}
	}
	c.trial = false
	var dead *channel
	if ep.grpc != nil && ep.running == 0 && (v.mute || !ep.grpc.ready()) {
		// The library would go on dialling for as long as there is a channel. It is dialled again when somebody calls it.
		dead, ep.grpc = ep.grpc, nil
	}
	var off []*call
	if opened {
		for ep.waiting.Len() > 0 {
			w := ep.waiting.Front().Value.(*call)
			n.abandon(w)
			off = append(off, w)
		}
	}
	n.offer(ep)
	first := n.next()
	for more := n.next(); more != nil; more = n.next() {
		go n.work(more)
	}
	wait := ep.breaker.until.Sub(now).Round(time.Millisecond)
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
	if n.o.Logger != nil && opened {
		n.o.Logger.Warn("no calls to a service that does not answer", "endpoint", ep.key, "error", v.message, "for", wait)
	}
	if n.o.Logger != nil && closed {
		n.o.Logger.Info("a service answers again", "endpoint", ep.key)
	}
	return first
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

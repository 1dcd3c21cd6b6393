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
	waiting list.List     // of *call, in the order in which they came
	turn    *list.Element // in Net.turns
	breaker breaker
	used    time.Time // when the last call ended
	idle    []*conn   // kept connections, the one used last at the end
	grpc    *channel
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
	case ok && ep.running < n.o.PerEndpoint && ep.waiting.Len() == 0 && n.running < n.o.InFlight:
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
	c.timer = time.AfterFunc(c.left, func() { n.tooLate(c) })
	n.offer(ep)
	n.mu.Unlock()
	return false
}

// start counts a call as under way. n.mu is held.
func (n *Net) start(c *call) {
	c.state = running
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
		c.end(Transient, fmt.Sprintf("circuit open: the call that tries %s has not ended in %v", c.endpoint.key, c.left))
		return
	}
	c.end(Transient, fmt.Sprintf("%s: no place in %v among the %d calls that may be under way to it, or the %d in all",
		c.endpoint.key, c.left, n.o.PerEndpoint, n.o.InFlight))
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

// next starts the call whose turn it is: endpoints take turns, the calls of one are served as they came. nil if there is none, or
// no place. n.mu is held.
func (n *Net) next() *call {
	if n.running >= n.o.InFlight || n.turns.Len() == 0 {
		return nil
	}
	ep := n.turns.Remove(n.turns.Front()).(*endpoint)
	ep.turn = nil
	c := ep.waiting.Front().Value.(*call)
	n.leave(c)
	n.start(c)
	n.offer(ep)
	return c
}

// finish counts a call as no longer under way, tells the breaker, and starts those that can begin now: the first is returned, for
// the goroutine that is free, the others have goroutines of their own. Calls that an opened breaker has cut off are ended.
func (n *Net) finish(c *call, v verdict) *call {
	ep := c.endpoint
	cancelled := c.isCancelled()
	n.mu.Lock()
	now := time.Now()
	c.state = starting
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
		if closed = ep.breaker.answered(); closed {
			n.meter.Open.Add(-1)
		}
	}
	c.trial = false
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

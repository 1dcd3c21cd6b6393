package outcall

import (
	"container/list"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// maxRoutes bounds the routes that one endpoint has by themselves. The paths of further calls share one route: clients name paths.
const maxRoutes = 256

// otherRoutes is the key of the route that further paths share.
const otherRoutes = "*"

// leastDivided is from how many places of an endpoint on its routes have shares of them.
const leastDivided = 8

// route is what fails and hangs by itself: a method and the first two segments of a path at one endpoint. Behind an ingress all services of a
// company have one host and port, so a path that hangs must not close the others. Net.mu guards it.
type route struct {
	endpoint *endpoint
	key      string
	running  int
	calls    list.List     // of *call, those under way in the order in which they began
	waiting  list.List     // of *call, in the order in which they came
	turn     *list.Element // in Net.turns
	heard    time.Time     // when an answer came last
	breaker  breaker
	used     time.Time // when the last call ended
	large    bool      // an answer over gRPC was longer than maxBody
	late     int       // calls whose time is over and whose answer is still listened for
}

// name is the route for people.
func (r *route) name() string {
	if r.key == otherRoutes {
		return fmt.Sprintf("%s, paths beyond the first %d", r.endpoint.key, maxRoutes)
	}
	return r.endpoint.key + ", " + r.key
}

// routeKey is the method and the first two segments of the path, over JSON-RPC the method that the URL names as well.
func (c *call) routeKey() string {
	path, query, _ := strings.Cut(c.target.path, "?")
	end := len(path)
	for i, segments := 0, 0; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if segments++; segments == 3 {
			end = i
			break
		}
	}
	key := path[:end]
	if c.jsonRPC {
		if v, err := url.ParseQuery(query); err == nil {
			key += "?method=" + v.Get("method")
		}
	}
	if c.method == "" {
		return key
	}
	return c.method + " " + key
}

// routeOf finds or makes the route of a call at its endpoint. n.mu is held.
func (n *Net) routeOf(c *call, ep *endpoint) *route {
	key := c.routeKey()
	r := ep.routes[key]
	if r == nil && len(ep.routes) >= maxRoutes && !n.forgetRoute(ep) {
		key = otherRoutes
		r = ep.routes[key]
	}
	if r == nil {
		r = &route{endpoint: ep, key: key, used: time.Now(), breaker: breaker{stranger: ep.heard.IsZero()}}
		ep.routes[key] = r
	}
	return r
}

// unused reports whether no call of the route is on its way. n.mu is held.
func (r *route) unused() bool { return r.running == 0 && r.waiting.Len() == 0 && r.late == 0 }

// forgetRoute makes room for one route, by the unused one whose last call is the oldest. It reports false if all are used or given up. n.mu is held.
func (n *Net) forgetRoute(ep *endpoint) bool {
	var oldest *route
	for _, r := range ep.routes { // any order: the oldest is looked for
		if r.unused() && r.breaker.quiet() && (oldest == nil || r.used.Before(oldest.used)) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	n.dropRoute(oldest)
	return true
}

// dropRoute forgets a route. n.mu is held.
func (n *Net) dropRoute(r *route) {
	if r.breaker.open {
		n.meter.Open.Add(-1)
	}
	delete(r.endpoint.routes, r.key)
}

// allow reports whether a call may be made now, and whether it is the trial of its route, or of its endpoint. n.mu is held.
func (r *route) allow(now time.Time) (ok, trial, reaching bool) {
	if ok, reaching = r.endpoint.breaker.allow(now); !ok {
		return false, false, false
	}
	if ok, trial = r.breaker.allow(now); !ok {
		r.endpoint.breaker.dropped(reaching)
		return false, false, false
	}
	return true, trial, reaching
}

// shut is the breaker that makes a call end at once, nil if there is none: during a trial a call waits for its result. n.mu is held.
func (r *route) shut(now time.Time) (of *breaker, name string) {
	if b := &r.endpoint.breaker; b.shut(now) {
		return b, r.endpoint.key
	}
	if b := &r.breaker; b.shut(now) {
		return b, r.name()
	}
	return nil, ""
}

// hangs reports whether a call of the route has been under way for longer than a service usually takes. n.mu is held.
func (n *Net) hangs(r *route, now time.Time) bool {
	first := r.calls.Front()
	return first != nil && now.Sub(first.Value.(*call).started) > n.o.Timeout
}

// known reports whether the route has answered of late. Net.mu is held.
func (r *route) known(now time.Time) bool { return now.Sub(r.heard) < memory }

// lively reports whether the route answers, as far as is known. n.mu is held.
func (n *Net) lively(r *route, now time.Time) bool { return r.known(now) && !n.hangs(r, now) }

// fitsHost reports whether there is a place for one more call of the route among those of its endpoint. The endpoint's other routes need
// some as well. From half of them on a hanging route has a quarter, from three quarters on each has a half. The last eighth is for routes
// that answer and for the first call of each other. n.mu is held.
func (n *Net) fitsHost(r *route, now time.Time) bool {
	ep, all := r.endpoint, n.o.PerEndpoint
	switch {
	case ep.running >= all:
		return false
	case len(ep.routes) < 2 || all < leastDivided:
		return true
	case r.running >= all/4 && ep.running >= all/2 && n.hangs(r, now):
		return false
	case r.running >= all/2 && ep.running >= all/4*3:
		return false
	}
	return ep.running < all/8*7 || r.running == 0 || n.lively(r, now)
}

// relieveHost gives up one hanging call, the oldest of the route with the most. It does so where all places of an endpoint are taken and a
// call waits whose route answers, or has no call under way. n.mu is held.
func (n *Net) relieveHost(r *route, now time.Time) {
	if r.endpoint.running < n.o.PerEndpoint || r.running > 0 && !n.lively(r, now) {
		return
	}
	n.giveUp(n.worst(r, r.endpoint.routes, nil, now))
}

// worst is the route that hangs and has the most calls under way, but for r. n.mu is held.
func (n *Net) worst(r *route, routes map[string]*route, worst *route, now time.Time) *route {
	for _, other := range routes { // any order: the one with the most is looked for
		if other != r && (worst == nil || other.running > worst.running) && n.hangs(other, now) {
			worst = other
		}
	}
	return worst
}

// giveUp ends the oldest call of a route that hangs, nil for none. n.mu is held.
func (n *Net) giveUp(worst *route) {
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

// reached notes that a connection to an endpoint was made: it is up, with any result of the call.
func (n *Net) reached(ep *endpoint) {
	n.mu.Lock()
	var all []*call
	closed := ep.breaker.answered()
	if closed {
		n.meter.Open.Add(-1)
		for _, r := range ep.routes { // any order: they take turns
			n.offer(r)
		}
		all = n.ready()
	}
	n.mu.Unlock()
	n.run(all)
	if closed && n.o.Logger != nil {
		n.o.Logger.Info("a service answers again", "endpoint", ep.key)
	}
}

// ready starts all calls that can begin now. n.mu is held.
func (n *Net) ready() (all []*call) {
	for c := n.next(); c != nil; c = n.next() {
		all = append(all, c)
	}
	return all
}

// run gives calls that have been started goroutines of their own.
func (n *Net) run(all []*call) {
	for _, c := range all {
		go n.work(c)
	}
}

package outcall

import (
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"sync"
	"time"
)

// Net makes calls over the network. It is safe for concurrent use.
type Net struct {
	o     Options
	judge judge
	meter Meter
	tls   *tls.Config
	base  context.Context // ends with Close
	stop  context.CancelFunc

	long  chan struct{} // of calls that read a long answer
	large chan struct{} // of calls that have a long answer over gRPC in memory

	mu        sync.Mutex
	endpoints map[string]*endpoint // guarded by mu, as everything below
	relieved  time.Time            // when relieve looked through very many endpoints for one that does not answer. Guarded by mu.
	crammed   time.Time            // when makeRoom found all endpoints in use. Guarded by mu.
	firsts    pace                 // of calls to strangers that have no other under way. Guarded by mu.
	others    pace                 // of other calls to strangers. Guarded by mu.
	waking    bool                 // a timer runs that looks at those whom the pace holds up. Guarded by mu.
	turns     *list.List           // of *route: those with a call that waits and a place for it, in the order of their turns
	late      map[*conn]struct{}   // that a late answer may come from
	calls     map[*call]struct{}   // that have begun and whose done has not returned
	running   int
	waiting   int
	taken     uint64 // turns
	bytes     int64  // of the payloads of calls
	idle      int    // kept connections over HTTP
	closed    bool
	sweep     *time.Timer // runs while there are endpoints
	gone      sync.Cond   // a call has ended
}

var _ Caller = (*Net)(nil)

// New makes a Net. Close ends it.
func New(o Options) *Net {
	o.PerEndpoint = cmp.Or(o.PerEndpoint, 256)
	o.InFlight = cmp.Or(o.InFlight, 4096)
	o.Waiting = cmp.Or(o.Waiting, 64<<10)
	o.Bytes = cmp.Or(o.Bytes, 128<<20)
	o.Timeout = cmp.Or(o.Timeout, 3*time.Second)
	o.Idle = cmp.Or(o.Idle, time.Minute)
	o.Breaker.Failures = cmp.Or(o.Breaker.Failures, 5)
	o.Breaker.First = cmp.Or(o.Breaker.First, time.Second)
	o.Breaker.Longest = cmp.Or(o.Breaker.Longest, 30*time.Second)
	if o.Lookup == nil {
		o.Lookup = lookup
	}
	n := &Net{o: o, judge: newJudge(o.Policy), tls: clientTLS(o.TLS), endpoints: map[string]*endpoint{}, turns: list.New(),
		calls: map[*call]struct{}{}, late: map[*conn]struct{}{}, long: make(chan struct{}, maxLong)}
	n.large = make(chan struct{}, min(max(int(o.Bytes/(2*largestMessage)), 1), maxLong))
	n.base, n.stop = context.WithCancel(context.Background())
	n.gone.L = &n.mu
	return n
}

// Meter returns its counters.
func (n *Net) Meter() *Meter { return &n.meter }

// Go implements Caller.
func (n *Net) Go(req *Request, done func(Result)) (cancel func()) {
	c := &call{net: n, req: req, size: int64(len(req.Payload)), done: done, began: time.Now()}
	c.left = c.timeout()
	n.mu.Lock()
	closed, full := n.closed, len(n.calls) > 0 && n.bytes+c.size > n.o.Bytes
	n.calls[c] = struct{}{}
	n.bytes += c.size
	n.mu.Unlock()
	switch {
	case closed:
		go c.end(Transient, "the coordinator is stopping")
		return c.cancel
	case full:
		n.meter.Full.Inc()
		go c.end(Transient, "no room for the payload beside those of the calls under way; it comes as they end")
		return c.cancel
	case req.URL == "":
		go c.end(OK, "")
		return c.cancel
	}
	if err := c.prepare(); err != nil {
		go c.end(Refused, err.Error())
		return c.cancel
	}
	if n.enter(c) {
		go n.work(c)
	}
	return c.cancel
}

// cancel implements what Go returns.
func (c *call) cancel() {
	n := c.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.state == waiting {
		n.abandon(c)
		go c.end(Transient, "cancelled before it was sent")
		return
	}
	c.interrupt()
}

// Close ends all calls as if they were cancelled and returns when each has ended. A call that begins later is Transient.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	all := make([]*call, 0, len(n.calls))
	for c := range n.calls {
		all = append(all, c)
	}
	for conn := range n.late { // any order: all are interrupted
		conn.SetDeadline(past) // a connection that cannot take a deadline is broken, and ends by itself
	}
	n.mu.Unlock()
	n.stop()
	for _, c := range all {
		c.cancel()
	}
	n.mu.Lock()
	for len(n.calls)+len(n.late) > 0 {
		n.gone.Wait()
	}
	if n.sweep != nil {
		n.sweep.Stop()
	}
	left := n.forgetAll()
	n.mu.Unlock()
	left.close()
}

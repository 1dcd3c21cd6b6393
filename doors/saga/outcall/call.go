package outcall

import (
	"container/list"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// state is where a call stands. Net.mu guards it.
type state byte

const (
	starting state = iota // between Go and its first place, and between a redirect and the next
	waiting
	running
	ended
)

// call is one Request on its way.
type call struct {
	net  *Net
	req  *Request
	size int64 // of its payload
	done func(Result)

	// The message and its target: of the request at first, then of each redirect. The goroutine that has the call owns them.
	target  target
	method  string
	body    []byte
	jsonRPC bool
	hops    int           // redirects followed
	strip   bool          // a redirect led to another host: no credentials
	began   time.Time     // Go
	left    time.Duration // the service's remaining time
	by      time.Time     // when it must have answered; set when running

	// Guarded by Net.mu.
	state    state
	endpoint *endpoint
	route    *route
	trial    bool          // tries a route whose breaker is open
	reaching bool          // tries an endpoint to which no connection could be made
	place    *list.Element // in the route's queue, while waiting
	under    *list.Element // among the route's calls, while running
	started  time.Time     // when it began to run
	gaveUp   bool          // its place was taken from it
	timer    *time.Timer   // ends the waiting

	mu        sync.Mutex
	cancelled bool               // guarded by mu, as the two below: the targets of a cancel
	conn      *conn              // HTTP, once connected
	stop      context.CancelFunc // of dialling, or of a call over gRPC
}

// hold sets the targets of a cancel from now on; nil and nil: none. It reports false if the call was cancelled already.
func (c *call) hold(conn *conn, stop context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.stop = conn, stop
	return !c.cancelled
}

func (c *call) isCancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// interrupt makes what the call does at present fail.
func (c *call) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = true
	if c.conn != nil {
		c.conn.SetDeadline(past) // a connection that cannot take a deadline is broken, and the call fails anyway
	}
	if c.stop != nil {
		c.stop()
	}
}

var past = time.Unix(1, 0)

// verdict is what one step of a call, to one endpoint, came to.
type verdict struct {
	outcome Outcome
	message string
	// mute: the endpoint gave no sign of life. Otherwise it answered, unless the outcome is Refused or the call was cancelled.
	mute bool
	// unreachable: it is mute because no connection could be made. Otherwise the route is.
	unreachable bool
	// next is where a redirect leads; the call goes on there.
	next string
}

// failed is the verdict on a call without an answer.
func (c *call) failed(err error) verdict {
	return verdict{outcome: Transient, mute: true, message: c.explain(err)}
}

// unreached is the verdict on a call for which no connection could be made.
func (c *call) unreached(err error) verdict {
	v := c.failed(err)
	v.unreachable = true
	return v
}

// explain describes the error in words for the operator of the service.
func (c *call) explain(err error) string {
	if isTimeout(err) {
		return fmt.Sprintf("%s gave no answer in time (%v)", c.target.endpoint(), c.timeout())
	}
	return fmt.Sprintf("%s: %v", c.target.endpoint(), err)
}

// timeout is the request's time limit.
func (c *call) timeout() time.Duration {
	if c.req.Timeout > 0 {
		return c.req.Timeout
	}
	return c.net.o.Timeout
}

// end hands out the result, from when on the request is the caller's again. The call is in no queue any more.
func (c *call) end(o Outcome, message string) {
	n := c.net
	n.meter.Ended[o].Inc()
	n.mu.Lock()
	n.bytes -= c.size
	n.mu.Unlock()
	c.done(Result{Outcome: o, Message: cut(message, MaxMessage), Elapsed: time.Since(c.began)})
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.calls, c)
	if n.closed {
		n.gone.Broadcast()
	}
}

// cut is the beginning of s as valid UTF-8, at most n bytes. Bytes that are no letter become U+FFFD first, which is longer than they are.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

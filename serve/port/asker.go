package port

import (
	"context"
	"sync"
	"time"
)

// A handler of net/http may answer an HTTP/1.1 request by way of a call of this process's own gRPC server. Then the answer is in
// memory until the HTTP client has taken it, long after the gRPC server's transport is done with it. So the call says on behalf of
// which request it is made, and its answer is drawn for that request's connection.

// askers are the requests that are being handled so.
type askers struct {
	came chan struct{} // has something when a stream has given back room; waiting requests are told in turn
	mu   sync.Mutex
	last uint64
	by   map[uint64]*Streamed // guarded by mu
}

// askerKey is the key of a request's number in its context.
type askerKey struct{}

// begin numbers a request. end is to be called when its handler has returned.
func (a *askers) begin(ctx context.Context, s *Streamed) (numbered context.Context, _ *Streamed, end func()) {
	s.turn = make(chan struct{}, 1)
	s.turn <- struct{}{}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[uint64]*Streamed{}
	}
	a.last++
	n := a.last
	a.by[n] = s
	return context.WithValue(ctx, askerKey{}, n), s, func() {
		a.mu.Lock()
		delete(a.by, n)
		a.mu.Unlock()
		s.end()
	}
}

func (a *askers) get(n uint64) *Streamed {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.by[n]
}

// overHTTP2 is the requests over HTTP/2.
func (a *askers) overHTTP2() (all []*Streamed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.by { // any order: each is judged alone
		if s.of == nil {
			all = append(all, s)
		}
	}
	return all
}

// AskerOf returns the number of the HTTP request whose context this is, for Asker and Streamed; false: it is none of a port's.
func AskerOf(ctx context.Context) (uint64, bool) {
	n, ok := ctx.Value(askerKey{}).(uint64)
	return n, ok
}

// Asker returns the account of the connection of an HTTP/1.1 request that is being handled, nil if it is not (any more). It is for
// answers alone: TakeAnswer, AnswerSent, AnswerGone. It must be used only for calls from this process: others could name any
// request.
func (p *Port) Asker(n uint64) *From {
	s := p.askers.get(n)
	if s == nil || s.of == nil {
		return nil
	}
	return &From{Addr: s.of.RemoteAddr(), asker: s.of}
}

// Asks reports whether this is the account of an HTTP/1.1 connection: see Asker. f may be nil.
func (f *From) Asks() bool { return f != nil && f.asker != nil }

// largeBody is the size from which an answer over HTTP/1.1 leaves the last third of all room to others, also on an old connection. Fifty
// untaken answers get three seconds each, and readers over gRPC would wait for all of them.
const largeBody = 1 << 20

// takeAnswer is tryAnswer for an HTTP/1.1 connection. lasts: it is a piece of a stream, of which there may be many at a time for long.
func (c *client) takeAnswer(n int64, lasts bool) bool {
	p, all, reserve := c.port, c.port.opts.AnswerBytes, int64(0)
	c.answersMu.Lock()
	defer c.answersMu.Unlock()
	held := c.answers.Load()
	if c.left || held > 0 && held+n > all/3*2 {
		return false
	}
	if (lasts || n > largeBody || c.opened+settledAfter > p.now.Load()) && n <= all/3*2 {
		reserve = all / 3
	}
	if p.answers.Add(-n) < reserve {
		p.answers.Add(n)
		return false
	}
	if c.answers.Add(n) == n {
		c.took.Store(time.Now().UnixNano())
	}
	return true
}

// oweAnswer takes n bytes even if that is more than there is: others wait until they are given back.
func (c *client) oweAnswer(n int64) {
	c.answersMu.Lock()
	defer c.answersMu.Unlock()
	c.port.answers.Add(-n)
	if c.answers.Add(n) == n {
		c.took.Store(time.Now().UnixNano())
	}
}

func (c *client) returnAnswer(n int64) {
	c.answersMu.Lock()
	defer c.answersMu.Unlock()
	n = min(n, c.answers.Load()) // the connection may have ended
	c.answers.Add(-n)
	c.port.answers.Add(n)
}

// answered gives back what the connection's answers held: they have been written, or with left never will be.
func (c *client) answered(left bool) {
	if !left && c.answers.Load() == 0 {
		return
	}
	c.answersMu.Lock()
	defer c.answersMu.Unlock()
	c.left = left
	c.port.answers.Add(c.answers.Swap(0))
}

// untaken reports whether an answer is being written of which the client has taken nothing since a time, in ns since 1970.
func (c *client) untaken(since int64) bool {
	return c.answers.Load() > 0 && c.state.Load()&3 == writing && c.took.Load() < since
}

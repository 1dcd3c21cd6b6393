// Package deadline has many requests wait under one context. A timer and a derived context for each would cost more than decoding the
// request does. It is not for requests whose client set an early deadline, nor for work that must end when its client goes away.
package deadline

import (
	"context"
	"sync/atomic"
	"time"
)

// slotNanos is how many nanoseconds of arrivals share a context.
const slotNanos = int64(250 * time.Millisecond)

// Shared makes the contexts. The zero Shared is none; New makes one. It is safe for concurrent use.
type Shared struct {
	limit time.Duration
	last  atomic.Pointer[slot]
}

// slot is a context, and the quarter second whose requests wait under it.
type slot struct {
	ctx    context.Context
	number int64
}

// New makes contexts that end limit, and up to a quarter second more, after they are asked for.
func New(limit time.Duration) *Shared { return &Shared{limit: limit} }

// Limit is how long a request waits at least.
func (s *Shared) Limit() time.Duration { return s.limit }

// Context returns the context for a request that comes at now. Nothing but its deadline ends it, so a client that went away is noticed when it
// is answered.
func (s *Shared) Context(now time.Time) context.Context {
	number := now.UnixNano() / slotNanos
	last := s.last.Load()
	if last == nil || last.number != number {
		// Two requests may do this at once; both contexts are good.
		ctx, cancel := context.WithTimeout(context.Background(), s.limit+time.Duration(slotNanos))
		context.AfterFunc(ctx, cancel) // at its deadline, and never earlier: others share it
		last = &slot{ctx, number}
		s.last.Store(last)
	}
	return last.ctx
}

// Package clock is the seam to time. Only drivers and the leader's stamp read it; no state machine ever does.
package clock

import (
	"sync/atomic"
	"time"
)

// Clock tells time. Wall may jump, Mono never goes back. Safe for concurrent use.
type Clock interface {
	Wall() time.Time
	// Mono is the time since an arbitrary start.
	Mono() time.Duration
}

// Real is the machine's clock.
func Real() Clock { return realClock{start: time.Now()} }

type realClock struct{ start time.Time }

func (c realClock) Wall() time.Time     { return time.Now() }
func (c realClock) Mono() time.Duration { return time.Since(c.start) }

// Manual is a clock moved by hand, for simulation and tests. The zero value starts at the Unix epoch.
type Manual struct{ mono, wallOffset atomic.Int64 }

// Advance moves both clocks forward by d.
func (m *Manual) Advance(d time.Duration) { m.mono.Add(int64(d)) }

// Jump moves only the wall clock, in either direction.
func (m *Manual) Jump(d time.Duration) { m.wallOffset.Add(int64(d)) }

// Wall implements Clock.
func (m *Manual) Wall() time.Time { return time.Unix(0, m.mono.Load()+m.wallOffset.Load()) }

// Mono implements Clock.
func (m *Manual) Mono() time.Duration { return time.Duration(m.mono.Load()) }

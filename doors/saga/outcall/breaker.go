package outcall

import (
	"math/rand/v2"
	"time"
)

// breaker decides if calls of one route are made, or if connections to one endpoint are. It counts calls without an answer: any answer,
// good or bad, is none of them. Net.mu guards it.
type breaker struct {
	failures int           // in a row
	open     bool          // no calls but the trial
	trying   bool          // that one is under way or waits for its place
	wait     time.Duration // how long it stays open the next time, before jitter
	until    time.Time     // when it may be tried
	last     string        // the text of the last failure
	stranger bool          // it has never answered
}

// strangersWait is how many times longer an endpoint may be left alone that has never answered: its name may be invented.
const strangersWait = 4

// allow reports whether a call may be made now, and whether it is the trial of an endpoint that was given up.
func (b *breaker) allow(now time.Time) (ok, trial bool) {
	if !b.open {
		return true, false
	}
	if b.trying || now.Before(b.until) {
		return false, false
	}
	b.trying = true
	return true, true
}

// answered takes any answer to any call as a sign of life. It reports whether the breaker was open.
func (b *breaker) answered() bool {
	was := b.open
	*b = breaker{}
	return was
}

// failed counts a call without an answer. It reports whether that has opened the breaker, again if it was the trial.
func (b *breaker) failed(now time.Time, trial bool, why string, o *Breaker) bool {
	b.last = cut(why, 200)
	if b.open && !trial {
		return false // begun before it opened: nothing new
	}
	b.failures++
	if !trial && b.failures < o.Failures {
		return false
	}
	longest := o.Longest
	if b.stranger {
		longest *= strangersWait
	}
	if b.wait = max(b.wait, o.First); trial {
		b.wait = min(2*b.wait, longest)
	}
	b.open, b.trying = true, false
	b.until = now.Add(time.Duration(float64(b.wait) * (0.8 + 0.4*rand.Float64())))
	return true
}

// dropped takes back a trial that ended without a verdict: it was cancelled, refused, or never got a place.
func (b *breaker) dropped(trial bool) {
	if trial {
		b.trying = false
	}
}

// shut reports whether no call is made now, nor under way to try.
func (b *breaker) shut(now time.Time) bool { return b.open && !b.trying && now.Before(b.until) }

// quiet reports whether nothing is lost if the breaker is forgotten.
func (b *breaker) quiet() bool { return b.failures == 0 && !b.open }

// stale reports whether nothing is lost if the breaker is forgotten that was not used since.
func (b *breaker) stale(since time.Time) bool { return b.quiet() || b.until.Before(since) }

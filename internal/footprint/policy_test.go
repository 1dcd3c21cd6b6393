package footprint

import (
	"testing"
	"time"
)

// clocked drives a policy as Keep does, second by second of a clock of its own.
type clocked struct {
	policy
	now   time.Duration
	total uint64
	steps []step
}

func newClocked() *clocked {
	return &clocked{policy: policy{periods: Usual}}
}

// pass lets d go by in which so many bytes a second are allocated; collections come every so many bytes.
func (c *clocked) pass(d time.Duration, perSecond uint64, collection uint64) {
	const tick = 100 * time.Millisecond
	gathered := uint64(0)
	for end := c.now + d; c.now < end; {
		c.now += tick
		c.total += perSecond / 10
		gathered += perSecond / 10
		if gathered >= collection || !c.atRest() && c.now%c.periods.look() == 0 {
			gathered = 0
			c.sample(c.now, c.total)
			if s := c.due(c.now); s != nothing {
				c.steps = append(c.steps, s)
				c.settle(s, c.now, c.total)
			}
		}
	}
}

func (c *clocked) want(t *testing.T, what string, steps ...step) {
	t.Helper()
	if len(c.steps) != len(steps) {
		t.Fatalf("%s: steps %v, want %v", what, c.steps, steps)
	}
	for i, s := range steps {
		if c.steps[i] != s {
			t.Fatalf("%s: steps %v, want %v", what, c.steps, steps)
		}
	}
	c.steps = nil
}

// TestGivenBackOnceAfterWork: garbage after ten seconds, the rest after forty, and then nothing until there was work again.
func TestGivenBackOnceAfterWork(t *testing.T) {
	c := newClocked()
	c.pass(5*time.Minute, 50_000, restRoom)
	c.want(t, "a start", giveGarbage, giveCaches)
	if !c.atRest() {
		t.Fatal("it goes on looking")
	}
	c.pass(time.Minute, 20<<20, leastRoom)
	c.want(t, "work")
	c.pass(9*time.Second, 50_000, restRoom)
	c.want(t, "nine seconds after work")
	c.pass(5*time.Second, 50_000, restRoom)
	c.want(t, "a quarter of a minute after work", giveGarbage)
	c.pass(time.Minute, 50_000, restRoom)
	c.want(t, "a minute after work", giveCaches)
	c.pass(time.Hour, 50_000, restRoom)
	c.want(t, "an hour later")
}

// TestWorkThatPausesKeepsItsCaches: what is lost must be made again, so pauses of seconds cost nothing.
func TestWorkThatPausesKeepsItsCaches(t *testing.T) {
	c := newClocked()
	c.pass(time.Minute, 0, restRoom)
	c.steps = nil
	for range 20 {
		c.pass(time.Second, 20<<20, restRoom)
		c.pass(7*time.Second, 50_000, restRoom)
	}
	c.want(t, "a second of work in eight")
}

// TestLittleWorkIsRest: a few requests a second must not have their caches taken again and again.
func TestLittleWorkIsRest(t *testing.T) {
	c := newClocked()
	c.pass(time.Minute, 0, restRoom)
	c.want(t, "a start", giveGarbage, giveCaches)
	c.pass(time.Hour, busyRate*3/4, restRoom)
	c.want(t, "an hour of little work")
}

// TestABurstIsWork: the garbage of a second of work must go, although no look fell into it.
func TestABurstIsWork(t *testing.T) {
	c := newClocked()
	c.pass(time.Hour, 20_000, restRoom)
	c.steps = nil
	c.pass(500*time.Millisecond, 60<<20, restRoom)
	c.pass(time.Minute, 20_000, restRoom)
	c.want(t, "half a second of work", giveGarbage, giveCaches)
}

// TestRoomForGarbage: it follows the marked bytes and not all that lives. Under load it is never less than collections can afford, and at
// rest it is small.
func TestRoomForGarbage(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		what    string
		heap    heap
		resting bool
		room    int // MiB
	}{
		{"little lives", heap{live: 8 * mib, roots: mib, scanned: 5 * mib}, false, 36},
		{"memtables and blocks live", heap{live: 60 * mib, roots: mib, scanned: 10 * mib}, false, 64},
		{"many blocks live", heap{live: 447 * mib, roots: mib, scanned: 20 * mib}, false, 149},
		{"keys live", heap{live: 100 * mib, roots: mib, scanned: 60 * mib}, false, 240},
		{"little lives, at rest", heap{live: 8 * mib, roots: mib, scanned: 5 * mib}, true, 4},
		{"much lives, at rest", heap{live: 320 * mib, roots: mib, scanned: 60 * mib}, true, 40},
	} {
		percent := c.heap.percent(c.resting)
		room := int(c.heap.live+c.heap.roots) * percent / 100 / mib
		if d := room - c.room; d < -4 || d > 1 {
			t.Errorf("%s: GOGC %d leaves %d MiB, want %d", c.what, percent, room, c.room)
		}
	}
	if p := (heap{}).percent(false); p != mostPercent {
		t.Errorf("before the first collection: GOGC %d", p)
	}
}

package turn

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// stepsOfAPiece is how many rows a statement may handle before it asks for its turn, and between two looks at who else waits.
	stepsOfAPiece = 128
	// slice is how long a holder goes on while others wait.
	slice = 50 * time.Millisecond
	// crowded is how long others run, where there are some, before a statement that yields comes back; and rest how long it rests then.
	crowded, rest = 100 * time.Microsecond, 2 * time.Millisecond
	// stall is how long a holder may take for one piece. Behind a holder that takes longer, others go on as if the place were free: it may wait
	// for what this package does not know of.
	stall = 100 * time.Millisecond
)

// Turns are the places of one door.
type Turns struct {
	places func() int

	mu      sync.Mutex
	holders []*Turn // guarded by mu, as all below
	queue   []*Turn // in the order in which they are served
}

// New returns as many places as places says each time when one is asked for, at least one.
func New(places func() int) *Turns { return &Turns{places: places} }

// OneLeft leaves one of Go's processors free.
func OneLeft() int { return runtime.GOMAXPROCS(0) - 1 }

// Turn is the part of one session. Its methods are called by one goroutine, and do nothing if it is nil.
type Turn struct {
	all   *Turns
	steps int
	holds bool          // it has a place, or goes on without one until its next look
	given chan struct{} // capacity 1: a place

	// Guarded by all.mu.
	since time.Time // it has the place
	seen  time.Time // it looked last
}

// Turn returns the part of a new session.
func (t *Turns) Turn() *Turn { return &Turn{all: t, given: make(chan struct{}, 1)} }

// Step is called for each row that a statement reads or writes. It waits from time to time.
func (t *Turn) Step() {
	if t == nil {
		return
	}
	if t.steps++; t.steps >= stepsOfAPiece {
		t.Long()
	}
}

// Long is called before a piece of work that is known to be long. It returns when the piece may begin.
func (t *Turn) Long() {
	if t == nil {
		return
	}
	t.steps = 0
	a := t.all
	a.mu.Lock()
	now := time.Now()
	if slices.Contains(a.holders, t) {
		t.seen = now
		if len(a.queue) == 0 || now.Sub(t.since) < slice {
			a.mu.Unlock()
			yield(now)
			return
		}
		a.remove(t)
		a.serve(now)
	}
	if len(a.queue) == 0 && a.free(now) {
		a.give(t, now)
		a.mu.Unlock()
		t.holds = true
		return
	}
	a.queue = append(a.queue, t)
	a.mu.Unlock()
	t.wait()
	t.holds = true
}

// yield lets what has come back from the disk or the network go first. Where there is such work, the statement rests as well: other processes want
// a processor too, and the work's clients may be among them.
func yield(began time.Time) {
	runtime.Gosched()
	if time.Since(began) > crowded {
		time.Sleep(rest)
	}
}

// wait returns when the turn has been given a place, or goes on without one because a holder has stalled.
func (t *Turn) wait() {
	a := t.all
	for timer := time.NewTimer(stall); ; timer.Reset(stall) {
		select {
		case <-t.given:
			timer.Stop()
			return
		case <-timer.C:
		}
		a.mu.Lock()
		a.serve(time.Now())
		a.mu.Unlock()
	}
}

// Leave gives the place back: the statement has ended, or is about to wait. The next row asks for a place again, if there has been a long piece.
func (t *Turn) Leave() {
	if t == nil || !t.holds {
		return
	}
	t.holds, t.steps = false, stepsOfAPiece
	a := t.all
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(t)
	a.serve(time.Now())
}

// End is Leave behind a statement: the next one is short until it is seen to be long.
func (t *Turn) End() {
	t.Leave()
	if t != nil {
		t.steps = 0
	}
}

// free reports whether there is a place. A holder that has stalled counts for none.
func (a *Turns) free(now time.Time) bool {
	n := 0
	for _, h := range a.holders {
		if now.Sub(h.seen) < stall {
			n++
		}
	}
	return n < max(1, a.places())
}

func (a *Turns) give(t *Turn, now time.Time) {
	t.since, t.seen = now, now
	a.holders = append(a.holders, t)
}

func (a *Turns) remove(t *Turn) {
	if i := slices.Index(a.holders, t); i >= 0 {
		a.holders = slices.Delete(a.holders, i, i+1)
	}
}

// serve gives free places to those that wait.
func (a *Turns) serve(now time.Time) {
	for len(a.queue) > 0 && a.free(now) {
		t := a.queue[0]
		a.queue = slices.Delete(a.queue, 0, 1)
		a.give(t, now)
		t.given <- struct{}{}
	}
}

package sim

import (
	"context"
	"iter"
	"time"

	"github.com/holdfastdb/holdfast/internal/task"
)

// tasks is everything that runs beside the loop in one process: doors' calls, workers, the start of the member. It implements
// task.Runner by coroutines of which one runs at a time, and each until it waits.
type tasks struct {
	h       *host
	gen     int
	all     []*coroutine // in the order in which they began; those that have ended are taken out at the next turn
	current *coroutine
	turning bool
}

var _ task.Runner = (*tasks)(nil)

// coroutine is one of them. Between two turns it is parked.
type coroutine struct {
	next func() (struct{}, bool)
	stop func()
	park func()

	begun, ended bool
	on           [task.MaxWait]<-chan struct{}
	until        time.Duration // on the host's clock; below zero: for ever
	got          int
	err          error // its result, or the panic of its function
}

// killed is the panic that ends a coroutine whose process has ended: its deferred calls run, and its outcome goes nowhere.
type killed struct{}

func newCoroutine(f func() error) *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.park = func() {
			if !yield(struct{}{}) {
				panic(killed{})
			}
		}
		defer func() {
			c.ended = true
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(r)
				}
			}
		}()
		c.err = guard(f)
	})
	return c
}

// resume lets c run until it parks or ends.
func (t *tasks) resume(c *coroutine) {
	c.begun = true
	t.as(c, func() { c.next() })
}

// as does something of c, which may be to end it: its deferred calls wait and begin tasks as it did.
func (t *tasks) as(c *coroutine, do func()) {
	was, other := t.current, t.h.w.running
	t.current, t.h.w.running = c, t
	defer func() { t.current, t.h.w.running = was, other }()
	do()
}

// Go implements task.Runner. The new task begins a little later.
func (t *tasks) Go(f func()) {
	t.all = append(t.all, newCoroutine(func() error { f(); return nil }))
	t.soon(Around(t.h.w.rNet, 20*time.Microsecond))
}

// soon plans a turn.
func (t *tasks) soon(d time.Duration) {
	t.h.w.after(d, func() {
		if t.h.gen == t.gen {
			t.turn()
		}
	})
}

// turn runs every task that has something to do, until none has.
func (t *tasks) turn() {
	if t.turning || t.h.paused || t.h.gen != t.gen {
		return
	}
	t.turning = true
	defer func() { t.turning = false }()
	t.h.syncClock()
	ran := false
	for again := true; again; {
		again = false
		for i := 0; i < len(t.all); i++ { // it may grow meanwhile
			c := t.all[i]
			if c.ended || c.begun && !t.ready(c) {
				continue
			}
			again, ran = true, true
			t.resume(c)
			if c.err != nil {
				t.h.fatal(c.err)
				return
			}
		}
	}
	if ran {
		kept := t.all[:0]
		for _, c := range t.all {
			if !c.ended {
				kept = append(kept, c)
			}
		}
		clear(t.all[len(kept):])
		t.all = kept
		t.h.pumpSoon()
	}
}

// ready reports whether what c waits for has come, and takes it.
func (t *tasks) ready(c *coroutine) bool {
	for i, ch := range c.on {
		select {
		case <-ch:
			c.got = i
			return true
		default:
		}
	}
	c.got = -1
	return c.until >= 0 && t.h.clock.Mono() >= c.until
}

// Wait implements task.Runner.
func (t *tasks) Wait(d time.Duration, on ...<-chan struct{}) int {
	c := t.current
	c.on, c.until = [task.MaxWait]<-chan struct{}{}, -1
	copy(c.on[:], on)
	if d >= 0 {
		c.until = t.h.clock.Mono() + d
	}
	if t.ready(c) {
		return c.got
	}
	if d >= 0 && d < time.Minute { // for longer ones the loop's regular turns come in time
		t.wakeAt(c, c.until)
	}
	c.park()
	return c.got
}

// wakeAt plans a turn for the moment at which the host's clock shows until.
func (t *tasks) wakeAt(c *coroutine, until time.Duration) {
	t.h.w.after(t.h.real(until-t.h.clock.Mono()), func() {
		if t.h.gen != t.gen || c.ended || c.until != until {
			return
		}
		t.h.syncClock()
		if t.h.clock.Mono() < until { // the clock's rate has become slower since
			t.wakeAt(c, until)
			return
		}
		t.turn()
	})
}

// Timeout implements task.Runner.
func (t *tasks) Timeout(d time.Duration) (context.Context, context.CancelFunc) {
	l := &limit{done: make(chan struct{})}
	t.h.w.after(t.h.real(d), func() {
		if t.h.gen == t.gen && l.end(context.DeadlineExceeded) {
			t.turn()
		}
	})
	return l, func() { l.end(context.Canceled) }
}

// limit is a context that ends in simulated time.
type limit struct {
	done chan struct{}
	err  error
}

func (l *limit) end(err error) bool {
	if l.err != nil {
		return false
	}
	l.err = err
	close(l.done)
	return true
}

func (l *limit) Deadline() (time.Time, bool) { return time.Time{}, false }
func (l *limit) Done() <-chan struct{}       { return l.done }
func (l *limit) Err() error                  { return l.err }
func (l *limit) Value(any) any               { return nil }

// Yield implements task.Runner: the loop is overtaken by the rest of its process, now and then for long.
func (t *tasks) Yield() {
	h, w := t.h, t.h.w
	c := t.current
	if c == nil || c != h.loop || w.nemesis.over || w.nemesis.stalls == 0 || w.rNet.IntN(w.nemesis.stalls) > 0 {
		return
	}
	d := Around(w.rNet, 3*time.Millisecond)
	if w.rNet.IntN(20) == 0 {
		d = Between(w.rNet, 5*time.Millisecond, 300*time.Millisecond)
	}
	h.midway = w.now + d
	c.park()
}

// kill ends all of them where they are.
func (t *tasks) kill() {
	for i := 0; i < len(t.all); i++ { // it may grow meanwhile
		c := t.all[i]
		t.as(c, c.stop)
	}
	t.all = nil
}

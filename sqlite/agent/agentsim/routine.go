package agentsim

import (
	"context"
	"iter"
	"time"

	"github.com/holdfastdb/holdfast/internal/task"
)

// process is an agent's. It implements task.Runner by coroutines, of which one runs at a time, and each until it waits.
type process struct {
	m        *machine
	routines []*routine // that have not ended, in the order in which they began
	dead     bool
}

var _ task.Runner = (*process)(nil)

// routine is a coroutine.
type routine struct {
	p     *process
	next  func() (struct{}, bool)
	stop  func()
	park  func()
	begun bool
	ended bool
	on    [task.MaxWait]<-chan struct{}
	until time.Duration // below zero: for ever
	got   int
}

// killed is the panic that ends a routine whose process has ended.
type killed struct{}

// Go implements task.Runner.
func (p *process) Go(f func()) {
	if p.dead {
		return
	}
	r := &routine{p: p}
	r.next, r.stop = iter.Pull(func(yield func(struct{}) bool) {
		r.park = func() {
			if !yield(struct{}{}) {
				panic(killed{})
			}
		}
		defer func() {
			r.ended = true
			if v := recover(); v != nil {
				if _, ok := v.(killed); !ok {
					panic(v)
				}
			}
		}()
		f()
	})
	p.routines = append(p.routines, r)
}

// run lets r run until it parks or ends.
func (r *routine) run() {
	w := r.p.m.w
	was := w.current
	w.current, r.begun = r, true
	r.next()
	w.current = was
	if r.ended {
		r.p.forget(r)
	}
}

func (p *process) forget(r *routine) {
	for i, other := range p.routines {
		if other == r {
			p.routines = append(p.routines[:i], p.routines[i+1:]...)
			return
		}
	}
}

// ready reports whether what r waits for has come, and takes it.
func (r *routine) ready() bool {
	if !r.begun {
		return true
	}
	if r.got >= 0 {
		return true // it was taken when others were chosen
	}
	for i, ch := range r.on {
		if ch == nil {
			continue
		}
		select {
		case <-ch:
			r.got = i
			return true
		default:
		}
	}
	return r.until >= 0 && r.p.m.w.now >= r.until
}

// Wait implements task.Runner.
func (p *process) Wait(d time.Duration, on ...<-chan struct{}) int {
	w := p.m.w
	if p.dead {
		panic(killed{})
	}
	r := w.current
	if r == nil || r.p != p {
		panic("a wait outside the process's routines")
	}
	r.on, r.until, r.got = [task.MaxWait]<-chan struct{}{}, -1, -1
	copy(r.on[:], on)
	if d >= 0 {
		r.until = w.now + d
		w.after(d, func() {}) // time goes on to there at least
	}
	r.park()
	got := r.got
	r.got = -1
	return got
}

// Timeout implements task.Runner.
func (p *process) Timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return p.timeout(context.Background(), d)
}

// timeout is context.WithTimeout in the world's time.
func (p *process) timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	p.m.w.after(d, cancel)
	return ctx, cancel
}

// Yield implements task.Runner.
func (p *process) Yield() {}

// kill ends every routine where it is.
func (p *process) kill() {
	p.dead = true
	w := p.m.w
	was := w.current
	for len(p.routines) > 0 {
		r := p.routines[0]
		w.current = r
		r.stop()
		p.forget(r)
	}
	w.current = was
}

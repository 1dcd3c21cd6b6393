package sim

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/doors/saga/advance"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// sagaBook is everything about global transactions in one run: clients that begin them, some in one command with a change of keys, the
// services that the leader's worker calls, and the checks: a change of keys and its saga are there together or not at all, on every
// member at every moment; every saga ends, and leaves its services all done or all undone; nobody is called before the time, after the
// end or against the log.
type sagaBook struct {
	w  *World
	on bool
	r  *rand.Rand
	// machine and limits bound memory, in some runs to so little that most of it is read again and again.
	machine sagamachine.Options
	limits  advance.Options
	all     []*order // in the order in which they were drawn
	by      map[string]*order
	pairs   []*order                 // those that were sent with a change of keys
	last    int64                    // revision at which the client knows lastOrder
	since   map[uint64]time.Duration // when somebody was first seen to lead in a term
	pause   time.Duration            // mean time between two orders
	done    bool                     // no more of them
	calm    bool                     // services answer at once
}

// pairsSeen is what one process has shown of changes of keys with a saga.
type pairsSeen struct {
	looked bool
	upTo   int      // in sagaBook.pairs
	open   []*order // those before it that were not there the last time
}

const (
	// intervalMs is what a saga waits between two passes at first, callMs how long a service may take.
	intervalMs, callMs = 300, 400
	// pairTime is for how long a command that has not come through is looked for on each member. At the end of the run all are.
	pairTime = 20 * time.Second
)

// Begin implements Workload.
func (b *sagaBook) Begin(w *World) {
	*b = sagaBook{w: w, r: rand.New(rand.NewPCG(w.opt.Seed, 8)), by: map[string]*order{}, since: map[uint64]time.Duration{}}
	// A run with chosen faults has no sagas unless it asks for them, so that its seeds go on meaning the same.
	if b.on = w.opt.Sagas || w.opt.Faults == nil && b.r.IntN(2) == 0; !b.on {
		return
	}
	if b.r.IntN(2) == 0 {
		b.machine = sagamachine.Options{CacheBytes: 2 << 10, FilterBytes: 1 << 10, RecentTimers: 4}
	}
	if b.r.IntN(2) == 0 {
		b.limits = advance.Options{MaxRunning: 1 + b.r.IntN(4), PerEndpoint: 1 + b.r.IntN(2)}
	}
	b.pause = between(b.r, 50*time.Millisecond, 600*time.Millisecond)
	if !w.opt.Quiet {
		w.after(between(b.r, 0, 200*time.Millisecond), b.next)
	}
}

// worker is how a process carries sagas on.
func (b *sagaBook) worker(h *host) advance.Options {
	o := b.limits
	o.Caller = &caller{b, h, h.gen}
	o.RetryIntervalMs, o.RequestTimeoutMs = intervalMs, callMs
	return o
}

// next sends one order, and what its client may send after it.
func (b *sagaBook) next() {
	w, r := b.w, b.r
	if b.done {
		return
	}
	w.after(around(r, b.pause), b.next)
	member := func() *host {
		if h := w.hosts[r.IntN(len(w.hosts))]; h.n != nil && h.n.ClusterLevel() >= sagapart.Level {
			return h
		}
		return nil
	}
	h := member()
	if h == nil {
		return
	}
	o := b.draw([]besides{alone, alone, withPut, withCAS, withCAS, withLie}[r.IntN(6)])
	if o.with == withCAS && r.IntN(4) > 0 {
		b.last = h.mod(lastOrder) // else what it knew: another may have been faster
	}
	again := r.IntN(2) == 0
	b.submit(h, o, between(r, time.Second, 5*time.Second), func() {
		if h := member(); h != nil && again && o.open > 0 && !b.done {
			b.submit(h, o, between(r, time.Second, 5*time.Second), func() {})
		}
	})
	if r.IntN(4) == 0 { // or does not wait for an answer
		w.after(around(r, 10*time.Millisecond), func() {
			if h := member(); h != nil && !b.done {
				b.submit(h, o, time.Second, func() {})
			}
		})
	}
	ask := b.hurry
	if o.mode == sagapart.Saga && r.IntN(2) == 0 {
		ask = b.abort
	}
	if r.IntN(3) == 0 {
		w.after(between(r, time.Millisecond, time.Second), func() {
			if h := member(); h != nil && !b.done {
				ask(h, o)
			}
		})
	}
}

// key reads a key of a member as it has it.
func (h *host) key(name string) (state keyState, version int64) {
	res, _, err := h.kv.Range(&kvpart.Range{Key: []byte(name)}, 0)
	if err != nil {
		h.w.fail(Stopped, "%s range: %v", h.name, err)
	}
	if len(res.KVs) > 0 {
		version = res.KVs[0].Version
	}
	return stateOf(res), version
}

func (h *host) mod(key string) int64 {
	s, _ := h.key(key)
	return s.mod
}

// find reads an order of a member as it has it, nil if it does not.
func (b *sagaBook) find(h *host, o *order) *sagamachine.Transaction {
	tx, err := h.saga.Find(o.gid)
	if err != nil {
		b.w.fail(Stopped, "%s reads %s: %v", h.name, o, err)
	}
	return tx
}

// Turn implements Workload: it looks at a member that has applied something, and at one that has just started.
func (b *sagaBook) Turn(h *Member, changed bool) {
	if !b.on || !changed && h.pairs.looked {
		return
	}
	if term := h.Leads(); term > 0 {
		if _, ok := b.since[term]; !ok {
			b.since[term] = b.w.now
		}
	}
	p := &h.pairs
	p.looked = true
	p.open = append(p.open, b.pairs[p.upTo:]...)
	p.upTo = len(b.pairs)
	left := p.open[:0]
	for _, o := range p.open {
		if !b.whole(h, o) && b.w.now < o.asked+pairTime {
			left = append(left, o)
		}
	}
	p.open = left
}

// whole checks that a member has both halves of a command or none, and reports which.
func (b *sagaBook) whole(h *host, o *order) bool {
	key, version := h.key(o.key())
	tx := b.find(h, o)
	if (key.mod != 0) != (tx != nil) {
		b.w.fail(HalfCommand, "%s, which has applied %d, has the key of %s at revision %d; it has the saga: %v", h.name, h.appliedAt, o, key.mod, tx != nil)
	}
	if version > 1 {
		b.w.fail(HalfCommand, "%s has the key of %s written %d times", h.name, o, version)
	}
	return tx != nil
}

// End implements Workload.
func (b *sagaBook) End() { b.done, b.calm = true, true }

// Settled implements Workload.
func (b *sagaBook) Settled(h *Member) string {
	if !b.on {
		return ""
	}
	if c := h.saga.Counts(); c.Prepared+c.Submitted+c.Aborting > 0 {
		return fmt.Sprintf("%s has %d sagas that have not ended, %d of them to be undone", h.name, c.Submitted+c.Aborting, c.Aborting)
	}
	return ""
}

// Check implements Workload.
func (b *sagaBook) Check(all []*Member) {
	for _, o := range b.all {
		tx := b.find(all[0], o)
		for _, h := range all[1:] {
			if other := b.find(h, o); !reflect.DeepEqual(tx, other) {
				b.w.fail(Diverged, "at rest %s has %s as %+v and %s as %+v", all[0].name, o, tx, h.name, other)
			}
		}
		for _, h := range all {
			if o.with != alone {
				b.whole(h, o)
			}
		}
		b.ended(o, tx)
	}
}

// ended checks what became of an order against what its client was told and what its services have done. tx is nil if there is none.
func (b *sagaBook) ended(o *order, tx *sagamachine.Transaction) {
	w := b.w
	switch {
	case tx == nil && o.there:
		w.fail(SagaLost, "%s was acknowledged, and is not there", o)
	case tx != nil && !o.there && o.open == 0:
		w.fail(HalfCommand, "%s was refused, and is there", o)
	case tx == nil:
		for k, d := range o.steps {
			if d.acts+d.undoes > 0 {
				w.fail(Miscalled, "step %d of %s was called, and there is none", k+1, o)
			}
		}
		return
	case !tx.Status.Final():
		w.fail(SagaLost, "%s is %s when all is at rest", o, tx.Status)
	}
	well := tx.Status == sagapart.Succeed
	if w.rep.Sagas++; !well {
		w.rep.Undone++
	}
	switch {
	case well && o.fails >= 0:
		w.fail(SagaLost, "%s has succeeded, but step %d was refused", o, o.fails+1)
	case !well && o.fails < 0 && o.plain():
		w.fail(SagaLost, "%s has failed (%s), and nothing was in its way", o, tx.Reason)
	}
	for k := range o.steps {
		switch d := &o.steps[k]; {
		case well && !d.done:
			w.fail(SagaLost, "%s has succeeded, but step %d was not done", o, k+1)
		case well && d.undoes > 0:
			w.fail(SagaLost, "%s has succeeded, but step %d was undone", o, k+1)
		case !well && d.acts > 0 && !d.undone:
			w.fail(SagaLost, "%s has failed (%s), but step %d, which was called, was not undone", o, tx.Reason, k+1)
		}
	}
}

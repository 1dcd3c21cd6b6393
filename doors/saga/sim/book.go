// Package sim has global transactions in simulated runs. A program that imports it has the saga door in every second run (sim.Register), or
// in runs that ask for it (sim.Options.Doors).
package sim

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/doors/saga/advance"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/sim"
)

// sagaBook is everything about global transactions in one run: the clients that begin them, the services that the leader's worker calls,
// and the checks. Some begin in one command with a change of keys; both are there together or not at all, on every member at every moment.
// Every saga ends, and leaves its services all done or all undone. No service is called before the time, after the end or against the log.
type sagaBook struct {
	w *sim.World
	r *rand.Rand
	// machine and limits bound memory, in some runs to so little that most of it is read again and again.
	machine sagamachine.Options
	limits  advance.Options
	all     []*order // in the order in which they were drawn
	by      map[string]*order
	pairs   []*order                 // those that were sent with a change of keys
	last    int64                    // revision at which the client knows lastOrder
	since   map[uint64]time.Duration // when a member was first seen to lead in a term
	pause   time.Duration            // mean time between two orders
	shown   map[*sim.Member]*pairsSeen
	done    bool // no more of them
	calm    bool // services answer at once
}

// pairsSeen is what one process has shown of changes of keys with a saga.
type pairsSeen struct {
	process int
	upTo    int      // in sagaBook.pairs
	open    []*order // those before it that were not there the last time
}

const (
	// intervalMs is a saga's wait between two passes at first, callMs how long a service may take.
	intervalMs, callMs = 300, 400
	// pairTime is for how long a command that has not come through is looked for on each member. At the end of the run all are.
	pairTime = 20 * time.Second
)

// begin draws what a run has of sagas; nil: none. A run with chosen faults has none unless it asks for other doors, so that its seeds go on
// meaning the same.
func begin(opt *sim.Options) *sagaBook {
	b := &sagaBook{r: rand.New(rand.NewPCG(opt.Seed, 8)), by: map[string]*order{}, since: map[uint64]time.Duration{}, shown: map[*sim.Member]*pairsSeen{}}
	if !opt.Doors && (opt.Faults != nil || b.r.IntN(2) != 0) {
		return nil
	}
	if b.r.IntN(2) == 0 {
		b.machine = sagamachine.Options{CacheBytes: 2 << 10, FilterBytes: 1 << 10, RecentTimers: 4}
	}
	if b.r.IntN(2) == 0 {
		b.limits = advance.Options{MaxRunning: 1 + b.r.IntN(4), PerEndpoint: 1 + b.r.IntN(2)}
	}
	b.pause = sim.Between(b.r, 50*time.Millisecond, 600*time.Millisecond)
	return b
}

func init() {
	sim.Register(func(opt *sim.Options) *sim.Part {
		b := begin(opt)
		if b == nil {
			return nil
		}
		return &sim.Part{
			Machine:  func() machine.Machine { return sagamachine.New(b.machine) },
			Lanes:    []node.LaneSpec{{Number: lane, Name: "saga", Level: sagapart.Level}},
			Work:     func(m *sim.Member) { advance.New(m.Node(), machineOf(m), b.worker(m)).Run() },
			Workload: b,
		}
	})
}

// lane is where the door's commands wait before the log.
const lane node.Lane = 4

// machineOf is the saga machine of a member's process.
func machineOf(m *sim.Member) *sagamachine.Machine {
	return m.Machine(sagapart.Machine).(*sagamachine.Machine)
}

// The promises that a run with sagas checks.
const (
	SagaLost  = "saga lost" // an acknowledged saga that is not there, has not ended, or left services half done
	Miscalled = "miscalled" // a service was called against what the log says
	TooEarly  = "too early" // or before its time
)

// The figures of a run (sim.World.Count).
const (
	Ended   = "sagas ended"
	Undone  = "sagas undone"
	Calls   = "calls to services"
	Pairs   = "sagas with a change of keys"
	Refused = "sagas refused for a compare"
)

// Begin implements Workload.
func (b *sagaBook) Begin(w *sim.World) {
	b.w = w
	if !w.Options().Quiet {
		w.After(sim.Between(b.r, 0, 200*time.Millisecond), b.next)
	}
}

// worker is how a process carries sagas on.
func (b *sagaBook) worker(h *sim.Member) advance.Options {
	o := b.limits
	o.Caller = &caller{b, h, h.Process()}
	o.RetryIntervalMs, o.RequestTimeoutMs = intervalMs, callMs
	return o
}

// next sends one order, and what its client may send after it.
func (b *sagaBook) next() {
	w, r := b.w, b.r
	if b.done {
		return
	}
	w.After(sim.Around(r, b.pause), b.next)
	member := func() *sim.Member {
		if h := w.Members()[r.IntN(len(w.Members()))]; h.Node() != nil && h.Node().ClusterLevel() >= sagapart.Level {
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
		b.last, _ = b.key(h, lastOrder) // else what it knew: another may have been faster
	}
	again := r.IntN(2) == 0
	b.submit(h, o, sim.Between(r, time.Second, 5*time.Second), func() {
		if h := member(); h != nil && again && o.open > 0 && !b.done {
			b.submit(h, o, sim.Between(r, time.Second, 5*time.Second), func() {})
		}
	})
	if r.IntN(4) == 0 { // or does not wait for an answer
		w.After(sim.Around(r, 10*time.Millisecond), func() {
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
		w.After(sim.Between(r, time.Millisecond, time.Second), func() {
			if h := member(); h != nil && !b.done {
				ask(h, o)
			}
		})
	}
}

// keys is the kv machine, as this package needs it.
type keys interface {
	Range(r *kvpart.Range, maxBytes int64) (*kvpart.RangeResult, int64, error)
}

// key reads a member's own version of a key: its last revision, and how often it was written; 0: it does not exist.
func (b *sagaBook) key(h *sim.Member, name string) (mod, version int64) {
	res, _, err := h.Machine(entry.MachineKV).(keys).Range(&kvpart.Range{Key: []byte(name)}, 0)
	if err != nil {
		b.w.Fail(sim.Stopped, "%s range: %v", h.Name(), err)
	}
	if len(res.KVs) > 0 {
		mod, version = res.KVs[0].ModRevision, res.KVs[0].Version
	}
	return mod, version
}

// find reads an order of a member as it has it, nil if it does not.
func (b *sagaBook) find(h *sim.Member, o *order) *sagamachine.Transaction {
	tx, err := machineOf(h).Find(o.gid)
	if err != nil {
		b.w.Fail(sim.Stopped, "%s reads %s: %v", h.Name(), o, err)
	}
	return tx
}

// Turn implements Workload: it looks at a member that has applied something, and at one that has just started.
func (b *sagaBook) Turn(h *sim.Member, changed bool) {
	p := b.shown[h]
	if p == nil || p.process != h.Process() {
		p = &pairsSeen{process: h.Process()}
		b.shown[h] = p
	} else if !changed {
		return
	}
	if term := h.Leads(); term > 0 {
		if _, ok := b.since[term]; !ok {
			b.since[term] = b.w.Now()
		}
	}
	p.open = append(p.open, b.pairs[p.upTo:]...)
	p.upTo = len(b.pairs)
	left := p.open[:0]
	for _, o := range p.open {
		if !b.whole(h, o) && b.w.Now() < o.asked+pairTime {
			left = append(left, o)
		}
	}
	p.open = left
}

// whole checks that a member has both halves of a command or none, and reports which.
func (b *sagaBook) whole(h *sim.Member, o *order) bool {
	mod, version := b.key(h, o.key())
	tx := b.find(h, o)
	if (mod != 0) != (tx != nil) {
		b.w.Fail(sim.HalfCommand, "%s, which has applied %d, has the key of %s at revision %d; it has the saga: %v", h.Name(), h.AppliedAt(), o, mod, tx != nil)
	}
	if version > 1 {
		b.w.Fail(sim.HalfCommand, "%s has the key of %s written %d times", h.Name(), o, version)
	}
	return tx != nil
}

// End implements Workload.
func (b *sagaBook) End() { b.done, b.calm = true, true }

// Settled implements Workload.
func (b *sagaBook) Settled(h *sim.Member) string {
	if c := machineOf(h).Counts(); c.Prepared+c.Submitted+c.Aborting > 0 {
		return fmt.Sprintf("%s has %d sagas that have not ended, %d of them to be undone", h.Name(), c.Submitted+c.Aborting, c.Aborting)
	}
	return ""
}

// Check implements Workload.
func (b *sagaBook) Check(all []*sim.Member) {
	for _, o := range b.all {
		tx := b.find(all[0], o)
		for _, h := range all[1:] {
			if other := b.find(h, o); !reflect.DeepEqual(tx, other) {
				b.w.Fail(sim.Diverged, "at rest %s has %s as %+v and %s as %+v", all[0].Name(), o, tx, h.Name(), other)
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
		w.Fail(SagaLost, "%s was acknowledged, and is not there", o)
	case tx != nil && !o.there && o.open == 0:
		w.Fail(sim.HalfCommand, "%s was refused, and is there", o)
	case tx == nil:
		for k, d := range o.steps {
			if d.acts+d.undoes > 0 {
				w.Fail(Miscalled, "step %d of %s was called, and there is none", k+1, o)
			}
		}
		return
	case !tx.Status.Final():
		w.Fail(SagaLost, "%s is %s when all is at rest", o, tx.Status)
	}
	well := tx.Status == sagapart.Succeed
	if w.Count(Ended, 1); !well {
		w.Count(Undone, 1)
	}
	switch {
	case well && o.fails >= 0:
		w.Fail(SagaLost, "%s has succeeded, but step %d was refused", o, o.fails+1)
	case !well && o.fails < 0 && o.plain():
		w.Fail(SagaLost, "%s has failed (%s), and nothing was in its way", o, tx.Reason)
	}
	for k := range o.steps {
		switch d := &o.steps[k]; {
		case well && !d.done:
			w.Fail(SagaLost, "%s has succeeded, but step %d was not done", o, k+1)
		case well && d.undoes > 0:
			w.Fail(SagaLost, "%s has succeeded, but step %d was undone", o, k+1)
		case !well && d.acts > 0 && !d.undone:
			w.Fail(SagaLost, "%s has failed (%s), but step %d, which was called, was not undone", o, tx.Reason, k+1)
		}
	}
}

package sim

import (
	"context"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
)

// Workload is what one door adds to a run: clients that use its machine, what they were told, and the checks of both. Everything in it
// draws from its own source of randomness, so that one does not shuffle another's run. All methods run on the one goroutine of the run.
type Workload interface {
	// Begin plans the first steps of its clients (World.After).
	Begin(w *World)
	// Turn looks at a member after each turn of its loop, changed says whether that has applied anything. It may do there what the
	// worker of a leader does.
	Turn(m *Member, changed bool)
	// End stops the clients: the faults are healed.
	End()
	// Settled says why a member is not at rest yet, "" if it is.
	Settled(m *Member) string
	// Check judges the run at its end, when all members are at rest.
	Check(all []*Member)
}

// Plug is a door that this package does not know: its machine, its lanes and its workload take part in every run of a program that
// imports the package which registers it.
type Plug struct {
	// Machine makes the machine of one process. Order of registration is the order of machines (node.Config.Machines).
	Machine  func() machine.Machine
	Lanes    []node.LaneSpec
	Workload func(seed uint64) Workload
}

var plugs []Plug

// Register adds a door to all runs. Call it from an init function.
func Register(p Plug) { plugs = append(plugs, p) }

// Member is one machine of the simulated cluster, as workloads see it.
type Member = host

// Name is the host's name.
func (h *host) Name() string { return h.name }

// Node is the running member, nil while there is none. It changes with every restart.
func (h *host) Node() *node.Node { return h.n }

// Machine is the machine of a letter that the present process runs, nil if there is none.
func (h *host) Machine(id entry.Machine) machine.Machine {
	for _, m := range h.machines() {
		if m.Spec().ID == id {
			return m
		}
	}
	return nil
}

// Go runs f as a task of the present process: it ends with it, and ctx with f's patience. f may block in the node's calls.
func (h *host) Go(patience time.Duration, f func(ctx context.Context)) {
	h.tasks.Go(func() {
		ctx, cancel := h.tasks.Timeout(patience)
		defer cancel()
		f(ctx)
	})
}

// Members lists every host there ever was; those without a Node are down.
func (w *World) Members() []*Member { return w.hosts }

// Leads reports whether nobody is known to lead in a later term than h, and in which term it does; 0: it does not lead.
func (h *host) Leads() (term uint64) {
	if h.n == nil {
		return 0
	}
	term, _ = h.n.Leadership()
	return term
}

// After plans do for d from now, in simulated time.
func (w *World) After(d time.Duration, do func()) { w.after(d, do) }

// Trace adds a line to the trace.
func (w *World) Trace(format string, a ...any) { w.trace.add(w.now, format, a...) }

// Fail ends the run: a promise of that kind is broken.
func (w *World) Fail(kind, format string, a ...any) { w.fail(kind, format, a...) }

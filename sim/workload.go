package sim

import (
	"context"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
)

// Workload is one door's part of a run: clients that use its machine, their answers, and the checks of both. Everything in it draws from
// its own source of randomness, so that one does not shuffle another's run. All methods run on the one goroutine of the run.
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

// Plug decides whether a door that this package does not know takes part in a run, and with what; nil: not in this one. Order of registration
// is the order of machines (node.Config.Machines).
type Plug func(opt *Options) *Part

// Part is a door's in one run.
type Part struct {
	// Machine makes the machine of one process.
	Machine func() machine.Machine
	Lanes   []node.LaneSpec
	// Work is the work of the door's worker in one process, as a task of it; nil: there is none.
	Work     func(m *Member)
	Workload Workload
}

var plugs []Plug

// Register adds a door to all runs of a program. Call it from an init function.
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

// Store holds the rows of the present process.
func (h *host) Store() store.Store { return h.mem }

// Go runs f as a task of the present process: it ends with it, and ctx with f's patience. f may block in the node's calls.
func (h *host) Go(patience time.Duration, f func(ctx context.Context)) {
	h.tasks.Go(func() {
		ctx, cancel := h.tasks.Timeout(patience)
		defer cancel()
		f(ctx)
	})
}

// Process is the number of this machine's present or last process. Work begun for another process has no listener.
func (h *host) Process() int { return h.gen }

// AppliedAt is the index up to which the present process has shown what it applied.
func (h *host) AppliedAt() uint64 { return h.appliedAt }

// Paused reports whether the process is stopped for a while.
func (h *host) Paused() bool { return h.paused }

// Real is how much simulated time passes while the machine's clock advances by d.
func (h *host) Real(d time.Duration) time.Duration { return h.real(d) }

// Hear has the process take an answer from outside: its clock is set, and its tasks go on afterwards.
func (h *host) Hear(f func()) {
	h.syncClock()
	f()
	h.tasks.turn()
}

// Pump plans a turn of the node's loop, for proposals made without waiting.
func (h *host) Pump() { h.pumpSoon() }

// Permitted is the command of a part as this member's door would propose it: with a pass before it while authentication is on.
func (h *host) Permitted(part entry.Part) []entry.Part {
	parts, _ := h.permit(part)
	return parts
}

// Outdated reports whether a write was refused because users or roles have changed since it was judged; a door then judges it again.
func (w *World) Outdated(r *entry.Rejection) bool { return w.users.outdated(r) }

// Now is the time since the run began.
func (w *World) Now() time.Duration { return w.now }

// Options are those of the run.
func (w *World) Options() *Options { return &w.opt }

// Count adds to a figure of the report (Report.More).
func (w *World) Count(what string, n int) {
	if w.rep.More == nil {
		w.rep.More = map[string]int{}
	}
	w.rep.More[what] += n
}

// Workloads are those of the run, those of other doors last.
func (w *World) Workloads() []Workload { return w.workloads }

// Members lists every host there ever was; those without a Node are down.
func (w *World) Members() []*Member { return w.hosts }

// Leads returns the term in which h leads, if no member is known to lead in a later one; 0: it does not lead.
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

package sim

import (
	"strconv"
	"time"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/sim"
)

// Services outlive every member. Each does a thing once, like a service with DTM's barrier. A repeated call changes nothing and gets the
// same answer, and an action undone before it was done is never done. Before that they may be down, at it, slow or silent, as the seed
// says.

// caller makes the calls of one process.
type caller struct {
	b       *sagaBook
	h       *sim.Member
	process int
}

var _ outcall.Caller = (*caller)(nil)

// Go implements outcall.Caller.
func (c *caller) Go(req *outcall.Request, done func(outcall.Result)) (cancel func()) {
	b, h, w := c.b, c.h, c.b.w
	o, k := b.by[req.Gid], branchStep(req.BranchID)
	undo := req.Op == sagapart.OpCompensate
	w.Count(Calls, 1)
	w.Trace("%s calls %s %s %s", h.Name(), req.Gid, req.Op, req.BranchID)
	tries := &o.steps[k].acts
	if undo {
		tries = &o.steps[k].undoes
	}
	*tries++
	b.judge(h, o, k, undo)
	ended := false
	var end func(r outcall.Result)
	end = func(r outcall.Result) {
		switch {
		case ended || h.Process() != c.process: // the caller is gone
		case h.Paused():
			w.After(5*time.Millisecond, func() { end(r) })
		default:
			ended = true
			w.Trace("%s hears of %s %s %s: %s", h.Name(), req.Gid, req.Op, req.BranchID, r.Outcome)
			h.Hear(func() { done(r) })
		}
	}
	s := b.script(*tries, req.Timeout)
	w.After(s.arrives, func() {
		r := outcall.Result{Outcome: s.outcome, Message: "not now"}
		if s.does {
			served := o.serve(k, undo)
			if s.outcome == 0 {
				r = served
			}
		}
		w.After(s.answers, func() { end(r) })
	})
	w.After(h.Real(req.Timeout), func() { end(outcall.Result{Outcome: outcall.Transient, Message: "no answer in time"}) })
	return func() {
		w.After(0, func() { end(outcall.Result{Outcome: outcall.Transient, Message: "cancelled"}) })
	}
}

// branchStep is the step that a branch belongs to.
func branchStep(id string) int {
	n, err := strconv.Atoi(id)
	if err != nil {
		panic(err) // it is order.parts that makes them
	}
	return n - 1
}

// scripted is how one call goes: when it arrives, whether the service does its work then, and when it says what. Outcome 0 is the work's
// own result.
type scripted struct {
	arrives, answers time.Duration
	does             bool
	outcome          outcall.Outcome
}

// badTries is how often a service may be in the way of one thing it is to do.
const badTries = 3

// script draws how a call goes that is the n-th of its kind.
func (b *sagaBook) script(n int, timeout time.Duration) scripted {
	r := b.r
	s := scripted{arrives: sim.Around(r, 2*time.Millisecond), answers: sim.Around(r, 5*time.Millisecond), does: true}
	if n > badTries || b.calm {
		return s
	}
	switch r.IntN(12) {
	case 0: // 425
		s.does, s.outcome = false, outcall.Ongoing
	case 1: // 500
		s.does, s.outcome = false, outcall.Transient
	case 2: // 500, but the work is done
		s.outcome = outcall.Transient
	case 3: // it hangs
		s.does, s.answers = r.IntN(2) == 0, time.Hour
	case 4: // its answer comes too late
		s.answers = timeout + sim.Around(r, timeout)
	case 5: // the call itself arrives when its caller no longer waits, or is long gone
		s.arrives = sim.Around(r, 2*timeout)
	}
	return s
}

// serve is the service of one step at work.
func (o *order) serve(k int, undo bool) outcall.Result {
	d := &o.steps[k]
	switch {
	case undo:
		d.undone = true
	case k == o.fails:
		return outcall.Result{Outcome: outcall.Failure, Message: "not enough money"}
	case !d.undone:
		d.done = true
	}
	return outcall.Result{Outcome: outcall.OK}
}

// judge checks a call against the calling member's own log. A deposed leader may still call, but a leader knows every decision of earlier
// terms.
func (b *sagaBook) judge(h *sim.Member, o *order, k int, undo bool) {
	w, d := b.w, &o.steps[k]
	if early := o.asked + time.Duration(float64(o.delay)/sim.MaxRate) - time.Millisecond; o.delay > 0 && w.Now() < early {
		w.Fail(TooEarly, "%s delivers %s, and by no clock that is right enough it is time before %v", h.Name(), o, early)
	}
	term := h.Leads()
	if term == 0 {
		return
	}
	tx, err := machineOf(h).Find(o.gid)
	now := h.Node().Tick() + machineOf(h).Elapsed()
	switch {
	case err != nil:
		w.Fail(sim.Stopped, "%s reads %s: %v", h.Name(), o, err)
	case tx == nil:
		w.Fail(Miscalled, "%s calls a service for %s, which it does not have", h.Name(), o)
	case tx.Status.Final():
		w.Fail(Miscalled, "%s calls a service for %s, which has ended as %s", h.Name(), o, tx.Status)
	case tx.DueTick > now:
		w.Fail(TooEarly, "%s calls a service for %s at %d; it is due at %d", h.Name(), o, now, tx.DueTick)
	case now < tx.CreatedTick+o.delay.Milliseconds():
		w.Fail(TooEarly, "%s delivers %s at %d; it began at %d, with a delay of %v", h.Name(), o, now, tx.CreatedTick, o.delay)
	}
	compensation, action := 2*k, 2*k+1
	if o.mode == sagapart.Msg {
		compensation, action = -1, k
	}
	place := action
	if undo {
		place = compensation
	}
	if s := tx.Branches[place].Status; s != sagapart.Prepared {
		w.Fail(Miscalled, "%s calls step %d of %s again, undo %v, although the log has it as %s", h.Name(), k+1, o, undo, s)
	}
	if !undo {
		return
	}
	if tx.Status != sagapart.Aborting {
		w.Fail(Miscalled, "%s undoes step %d of %s, which is %s", h.Name(), k+1, o, tx.Status)
	}
	// An earlier leader may have made calls that the log does not have. They are of the step whose turn it is or, where results wait, of
	// any step.
	mayHave := o.free(k, func(step int) bool { return tx.Branches[2*step+1].Status == sagapart.Succeed }) && (tx.Passes > 0 || b.inherits(o, term)) ||
		o.lazy() && o.aborted && b.inherits(o, term)
	if d.acts == 0 && !mayHave {
		w.Fail(Miscalled, "%s undoes step %d of %s, which was never called", h.Name(), k+1, o)
	}
}

// inherits reports whether the leader of a term takes an order for one that a leader before may have had. The clocks of two leaders differ.
func (b *sagaBook) inherits(o *order, term uint64) bool {
	return o.asked <= b.since[term]+1500*time.Millisecond
}

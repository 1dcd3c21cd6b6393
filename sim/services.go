package sim

import (
	"strconv"
	"time"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// Services outlive every member. Each does a thing once, as one with DTM's barrier does: a call that comes again changes nothing and gets
// the same answer, and what was undone before it was done is never done. Before that they may be down, at it, slow or silent, as the seed
// says.

// caller makes the calls of one process.
type caller struct {
	b   *sagaBook
	h   *host
	gen int
}

var _ outcall.Caller = (*caller)(nil)

// Go implements outcall.Caller.
func (c *caller) Go(req *outcall.Request, done func(outcall.Result)) (cancel func()) {
	b, h, w := c.b, c.h, c.b.w
	o, k := b.by[req.Gid], branchStep(req.BranchID)
	undo := req.Op == sagapart.OpCompensate
	w.rep.Calls++
	w.trace.add(w.now, "%s calls %s %s %s", h.name, req.Gid, req.Op, req.BranchID)
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
		case ended || h.gen != c.gen: // nobody hears it any more
		case h.paused:
			w.after(5*time.Millisecond, func() { end(r) })
		default:
			ended = true
			w.trace.add(w.now, "%s hears of %s %s %s: %s", h.name, req.Gid, req.Op, req.BranchID, r.Outcome)
			h.syncClock()
			done(r)
			h.tasks.turn()
		}
	}
	s := b.script(*tries, req.Timeout)
	w.after(s.arrives, func() {
		r := outcall.Result{Outcome: s.outcome, Message: "not now"}
		if s.does {
			served := o.serve(k, undo)
			if s.outcome == 0 {
				r = served
			}
		}
		w.after(s.answers, func() { end(r) })
	})
	w.after(h.real(req.Timeout), func() { end(outcall.Result{Outcome: outcall.Transient, Message: "no answer in time"}) })
	return func() {
		w.after(0, func() { end(outcall.Result{Outcome: outcall.Transient, Message: "cancelled"}) })
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

// scripted is how one call goes: when it arrives, whether the service does its work then, and when it says what. Outcome 0 is what the work
// came to.
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
	s := scripted{arrives: around(r, 2*time.Millisecond), answers: around(r, 5*time.Millisecond), does: true}
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
		s.answers = timeout + around(r, timeout)
	case 5: // the call itself arrives when nobody waits for it any more, or its caller is long gone
		s.arrives = around(r, 2*timeout)
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

// judge holds a call against what the member that makes it has in its own log: nobody can keep a deposed leader from calling, but one
// that leads knows everything that was decided in the terms before.
func (b *sagaBook) judge(h *host, o *order, k int, undo bool) {
	w, d := b.w, &o.steps[k]
	if early := o.asked + time.Duration(float64(o.delay)/maxRate) - time.Millisecond; o.delay > 0 && w.now < early {
		w.fail(TooEarly, "%s delivers %s, and by no clock that is right enough it is time before %v", h.name, o, early)
	}
	term := h.Leads()
	if term == 0 {
		return
	}
	tx, err := h.saga.Find(o.gid)
	now := h.n.Tick() + h.saga.Elapsed()
	switch {
	case err != nil:
		w.fail(Stopped, "%s reads %s: %v", h.name, o, err)
	case tx == nil:
		w.fail(Miscalled, "%s calls a service for %s, which it does not have", h.name, o)
	case tx.Status.Final():
		w.fail(Miscalled, "%s calls a service for %s, which has ended as %s", h.name, o, tx.Status)
	case tx.DueTick > now:
		w.fail(TooEarly, "%s calls a service for %s at %d; it is due at %d", h.name, o, now, tx.DueTick)
	case now < tx.CreatedTick+o.delay.Milliseconds():
		w.fail(TooEarly, "%s delivers %s at %d; it began at %d, with a delay of %v", h.name, o, now, tx.CreatedTick, o.delay)
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
		w.fail(Miscalled, "%s calls step %d of %s again, undo %v, although the log has it as %s", h.name, k+1, o, undo, s)
	}
	if !undo {
		return
	}
	if tx.Status != sagapart.Aborting {
		w.fail(Miscalled, "%s undoes step %d of %s, which is %s", h.name, k+1, o, tx.Status)
	}
	// What the log does not say a leader before may have called: the step whose turn it is, or, where results wait, any one.
	mayHave := o.free(k, func(step int) bool { return tx.Branches[2*step+1].Status == sagapart.Succeed }) && (tx.Passes > 0 || b.inherits(o, term)) ||
		o.lazy() && o.aborted && b.inherits(o, term)
	if d.acts == 0 && !mayHave {
		w.fail(Miscalled, "%s undoes step %d of %s, which was never called", h.name, k+1, o)
	}
}

// inherits reports whether the leader of a term takes an order for one that a leader before may have had. The clocks of two leaders differ.
func (b *sagaBook) inherits(o *order, term uint64) bool {
	return o.asked <= b.since[term]+1500*time.Millisecond
}

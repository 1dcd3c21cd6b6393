package saga

import (
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// submit begins a transaction that is to run, or lets a prepared one run. A second one of a gid changes nothing, and asks for a pass now if
// there has been one (repeated.go). With wait_result the answer waits for the end of the next pass.
func (d *Door) submit(q *ask, r *request) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.Mode == sagapart.Workflow {
		return d.finish(q, r)
	}
	p, err := d.begin(r, sagapart.Submitted)
	if err != nil {
		return err
	}
	var w *waiter
	if r.Options.WaitResult {
		w = d.wait(r.Gid) // before anything is proposed: the pass may have ended when Propose returns
		defer w.cancel()
	}
	kind := sagapart.Begin
	if p.Definition.Gives() && d.node.Status().Level >= sagapart.SubmitLevel {
		kind = sagapart.Submit // a transaction that was prepared takes what this request gives
	}
	q.repeatable = true
	st, rej, err := d.propose(q, &sagapart.Part{Kind: kind, Begin: p})
	switch {
	case err != nil:
		return err
	case rej != nil:
		return d.finished(q, r, p, rej)
	case st.Was == sagapart.Submitted:
		if err := d.sameOpen(q, r, p, st); err != nil {
			return err
		}
	}
	return d.submitted(q, w, st, p.FirstMs)
}

// submitted is what follows once a transaction has been let run. w is nil for a client that does not wait.
func (d *Door) submitted(q *ask, w *waiter, st *sagapart.State, delayMs int64) error {
	runs := delayMs == 0
	if st.Was == sagapart.Submitted {
		// A pass that was under way when its client repeated the submit is no answer to that. Nothing is lost: where a pass has ended by now, it
		// is asked for another one.
		if w != nil {
			w.take()
		}
		var err error
		if runs, err = d.again(q, st); err != nil {
			return err
		}
	}
	if w == nil {
		return nil
	}
	if !runs || d.machine.Held() {
		return notYet()
	}
	return d.outcome(q, w, st)
}

// begin is the part that makes a transaction.
func (d *Door) begin(r *request, as sagapart.Status) (*sagapart.BeginPart, error) {
	c, err := r.custom()
	if err != nil {
		return nil, err
	}
	p := &sagapart.BeginPart{Definition: r.Definition, Status: as, IntervalMs: r.Options.FirstIntervalMs(d.opts.RetryInterval.Milliseconds())}
	if p.Branches, err = d.branches(r); err != nil {
		return nil, err
	}
	switch {
	case as == sagapart.Submitted:
		if p.FirstMs = c.delayMs; p.FirstMs > 0 {
			p.FirstMs++ // the entry's tick is a whole number of milliseconds, and may be up to one behind the client's clock
		}
	case r.Mode == sagapart.Workflow || r.Mode == sagapart.Saga:
		p.FirstMs = p.IntervalMs
	default: // nothing is to be done about it before it is late
		p.FirstMs = orMs(r.Options.TimeoutMs, d.opts.TimeoutToFail)
	}
	return p, nil
}

func orMs(ms int64, other time.Duration) int64 {
	if ms > 0 {
		return ms
	}
	return other.Milliseconds()
}

// again is called for a transaction that had been submitted before: a client that submits it once more wants it to continue now. It reports
// whether it does: one that was never due yet, because it is delayed, goes on waiting.
func (d *Door) again(q *ask, st *sagapart.State) (runs bool, err error) {
	t, err := d.machine.BriefNumber(st.Number)
	if err != nil {
		return false, err
	}
	switch {
	case t == nil || t.Status != sagapart.Submitted:
		return true, nil // it has gone on meanwhile
	case t.DueTick <= d.now():
		return true, nil
	case t.Passes == 0:
		return false, nil
	}
	return true, d.hurry(q, hurried(t))
}

// finish is the submit of a workflow: its client has run it and reports its result. Said once more, it is no error.
func (d *Door) finish(q *ask, r *request) error {
	to := sagapart.ParseStatus(r.status)
	if !to.Final() {
		return refuse(500, "req_extra.status %s: a workflow is submitted as succeed or failed", quote(r.status))
	}
	c := &sagapart.ChangePart{Gid: r.Gid, From: sagapart.Of(sagapart.Prepared), To: to, Reason: cut(r.why), Result: r.outcome}
	_, rej, err := d.propose(q, &sagapart.Part{Kind: sagapart.Change, Change: c})
	switch {
	case err != nil || rej == nil:
		return err
	case rej.Code == sagapart.NotFound:
		return refuse(500, "storage: NotFound")
	case rej.Code == sagapart.WrongStatus && rej.Detail == to.String():
		return nil
	}
	return refusedAs(rej, submitWord)
}

// cut is a reason in the length there is for one.
func cut(reason string) string { return reason[:min(len(reason), sagapart.MaxReasonBytes)] }

// prepare begins a transaction that waits for its submit or abort.
func (d *Door) prepare(q *ask, r *request) error {
	_, rej, err := d.prepared(q, r, false)
	if err == nil && rej != nil {
		err = refusedAs(rej, "prepare")
	}
	return err
}

// prepared is what prepare and prepareWorkflow have in common.
func (d *Door) prepared(q *ask, r *request, mayExist bool) (*sagapart.State, *entry.Rejection, error) {
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	p, err := d.begin(r, sagapart.Prepared)
	if err != nil {
		return nil, nil, err
	}
	p.Exists = mayExist
	q.repeatable = true
	return d.propose(q, &sagapart.Part{Kind: sagapart.Begin, Begin: p})
}

// submitWord is DTM's own spelling, which its clients compare with: it is no mistake of ours to be mended.
const submitWord = "sumbmit"

// refusedAs is the refusal of a Begin.
func refusedAs(rej *entry.Rejection, what string) error {
	if rej.Code == sagapart.WrongStatus {
		return failed("current status '%s', cannot %s.", rej.Detail, what)
	}
	return unknown(rej)
}

package advance

import (
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// view is all that a decision rests on: the transaction as the log has it, this pass's later results, and the time. decide reads it and
// nothing else, so that a decision can be tested without a log, a network or a clock.
type view struct {
	tx       *sagamachine.Transaction
	plan     *plan // the CustomData, read once
	branches []branch
	query    call // of QueryPrepared
	// queried: the log was read again since QueryPrepared answered.
	queried bool

	ageMs  int64 // since the transaction began, by the cluster tick
	passMs int64 // since this pass began
	// aheadMs is added to the age where a delay is judged. Tests of other programs alone set it.
	aheadMs int64

	// inherited: an earlier leader may have begun a pass that it did not end, with calls of which the log says nothing.
	inherited bool
	succeeded bool  // a call of this pass
	retries   int64 // under the retry limit, of all passes
	timing    *timing
}

// branch is one branch's state.
type branch struct {
	status sagapart.Status // the log's, or the result of a call of this pass
	saved  bool            // the log has it
	idle   bool            // nothing was called for it: its URL is empty
	doubt  bool            // an earlier pass may have called it, with an unknown outcome
	call
}

// call is how far one call of this pass is.
type call struct {
	state   callState
	outcome outcall.Outcome // of the last one that ended
	message string          // likewise
	tries   int             // how often it was called in this pass
	retryMs int64           // by passMs, when it may be tried again
}

type callState byte

const (
	uncalled callState = iota
	running
	retrying // when its time has come
	ended
)

// queryCall stands for the call to QueryPrepared among places of branches.
const queryCall = -1

// step is the next step. A change goes first: after it everything is decided anew. The zero step waits for the calls and commands in
// flight.
type step struct {
	change *change
	calls  []int // places of branches to call, or queryCall
	cancel bool  // the calls under way, because their outcome no longer matters
	wakeMs int64 // by passMs, when to decide again although nothing has happened; 0: never
	reread bool  // read the log again before deciding
	over   bool  // nothing is left to do
}

// change is a command to propose. All results that the log lacks go with it.
type change struct {
	to     sagapart.Status // 0: the status stays
	reason string
	marks  []sagapart.BranchResult // of branches whose outcome is not known and will not be asked for
	// end: the pass ends with it. Unless to is final, the next one is due after nextMs.
	end                bool
	nextMs, intervalMs int64
	alert              *alert // the operators' message once it is in the log; nil: none
}

// newView begins a view of a transaction that was just read.
func newView(tx *sagamachine.Transaction, t *timing, inherited bool) *view {
	v := &view{tx: tx, inherited: inherited, timing: t, retries: tx.Retries}
	v.plan = newPlan(tx)
	v.merge(tx)
	v.doubts()
	return v
}

// merge takes over the log's present state. Later results of this pass stay.
func (v *view) merge(tx *sagamachine.Transaction) {
	if tx.CustomData != v.tx.CustomData { // a submit has given another
		v.plan = newPlan(tx)
	}
	v.tx = tx
	if len(v.branches) < len(tx.Branches) {
		v.branches = append(v.branches, make([]branch, len(tx.Branches)-len(v.branches))...)
	}
	for i := range tx.Branches {
		b := &v.branches[i]
		b.idle = tx.Branches[i].URL == ""
		if logged := tx.Branches[i].Status; b.status == 0 || logged != sagapart.Prepared {
			b.status, b.saved = logged, true
		}
	}
}

// doubts notes, at the beginning of a pass over a saga, which actions an earlier one may have called last. If there was none, none was.
func (v *view) doubts() {
	if v.plan.problem != "" || v.tx.Mode != sagapart.Saga || v.tx.Passes == 0 && !v.inherited {
		return
	}
	for k := range v.steps() {
		a := v.action(k)
		a.doubt = a.status == sagapart.Prepared && v.free(k)
	}
}

// record stores the result of a call. spread is from 0 to 1, for the wait before it is tried again.
func (v *view) record(place int, r outcall.Result, spread float64) {
	c := v.call(place)
	c.state, c.outcome, c.message = ended, r.Outcome, r.Message
	if r.Outcome == outcall.OK {
		v.succeeded = true
	}
	if place == queryCall {
		v.queried = false
		return
	}
	b := &v.branches[place]
	op := v.tx.Branches[place].Op
	switch {
	case b.status != sagapart.Prepared: // a client has reported its outcome meanwhile
	case r.Outcome == outcall.OK:
		b.status, b.saved = sagapart.Succeed, false
	case r.Outcome == outcall.Failure && v.tx.Mode == sagapart.Saga && op == sagapart.OpAction:
		b.status, b.saved = sagapart.Failed, false
	case r.Outcome == outcall.Ongoing:
	case v.tx.Mode == sagapart.Saga && op == sagapart.OpAction && v.tx.Status == sagapart.Submitted && v.retries < v.tx.Options.RetryLimit:
		v.retries++
		b.state, b.retryMs = retrying, v.passMs+retryAfterMs(b.tries, spread)
	}
}

// start notes that a call begins.
func (v *view) start(place int) {
	c := v.call(place)
	c.state, c.outcome, c.message = running, 0, ""
	c.tries++
}

func (v *view) call(place int) *call {
	if place == queryCall {
		return &v.query
	}
	return &v.branches[place].call
}

func (v *view) tries(place int) int { return v.call(place).tries }

// anyCalled reports whether this pass has called a branch without hearing what became of it.
func (v *view) anyCalled() bool {
	for i := range v.branches {
		if b := &v.branches[i]; b.tries > 0 && b.status == sagapart.Prepared {
			return true
		}
	}
	return false
}

// running reports whether a call is under way.
func (v *view) running() bool {
	if v.query.state == running {
		return true
	}
	for i := range v.branches {
		if v.branches[i].state == running {
			return true
		}
	}
	return false
}

// unsaved reports whether a call has a result that the log does not have. A status without a call is never missed.
func (v *view) unsaved() bool {
	for i := range v.branches {
		if b := &v.branches[i]; !b.saved && !b.idle {
			return true
		}
	}
	return false
}

// results lists what the log lacks.
func (v *view) results() (all []sagapart.BranchResult) {
	for i := range v.branches {
		if b := &v.branches[i]; !b.saved {
			all = append(all, sagapart.BranchResult{Branch: uint32(i), Status: b.status})
		}
	}
	return all
}

// trouble returns the first branch whose call must be made again because of an error, and whether any service is still at it.
func (v *view) trouble() (broken int, found, ongoing bool) {
	look := func(place int, c *call) {
		switch {
		case c.state != ended || c.outcome == outcall.OK:
		case c.outcome == outcall.Ongoing:
			ongoing = true
		case place == queryCall || v.branches[place].status == sagapart.Prepared:
			if !found {
				broken, found = place, true
			}
		}
	}
	look(queryCall, &v.query)
	for i := range v.branches {
		look(i, &v.branches[i].call)
	}
	return broken, found, ongoing
}

// decide returns the next step.
func decide(v *view) step {
	if v.tx.Status.Final() {
		return step{over: true}
	}
	if v.plan.problem != "" {
		return v.later()
	}
	switch v.tx.Mode {
	case sagapart.Saga:
		return decideSaga(v)
	case sagapart.Msg:
		return decideMsg(v)
	case sagapart.TCC:
		return decideTCC(v)
	case sagapart.XA:
		return decideXA(v)
	case sagapart.Workflow:
		return decideWorkflow(v)
	}
	return v.later()
}

package advance

import (
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// decideMsg delivers a message once it is submitted. The outcome of one that is only prepared is queried when its time is up.
func decideMsg(v *view) step {
	switch v.tx.Status {
	case sagapart.Prepared:
		return v.ask()
	case sagapart.Aborting: // not from DTM's clients: nothing was delivered, so nothing is to be done
		return step{change: &change{to: sagapart.Failed, end: true}}
	}
	if left := notBefore(v.plan.delayMs) - v.ageMs - v.aheadMs; left > 0 {
		return v.endAfter(left, v.intervalMs())
	}
	var calls []int
	done := true
	for i := range v.branches {
		b := &v.branches[i]
		if v.tx.Branches[i].Op != sagapart.OpAction || b.status != sagapart.Prepared {
			continue
		}
		done = false
		if b.state == uncalled {
			calls = append(calls, i)
		}
		if !v.tx.Options.Concurrent { // one at a time, and none behind one that is not done
			break
		}
	}
	switch {
	case done:
		return step{change: &change{to: sagapart.Succeed, end: true}}
	case v.unsaved():
		return step{change: &change{}}
	case len(calls) > 0:
		return step{calls: calls}
	case v.running():
		return step{}
	}
	return v.later()
}

// ask asks the client whether its local transaction was committed, once there was time enough for that.
func (v *view) ask() step {
	if left := v.timeoutMs() - v.ageMs; left > 0 {
		return v.endAfter(left, v.intervalMs())
	}
	switch q := &v.query; {
	case q.state == uncalled:
		return step{calls: []int{queryCall}}
	case q.state == running:
		return step{}
	case q.outcome == outcall.OK:
		return step{change: &change{to: sagapart.Submitted}}
	case q.outcome == outcall.Failure:
		return step{change: &change{to: sagapart.Failed, end: true, reason: failureOf(v.tx.QueryPrepared, q.message)}}
	case q.outcome == outcall.Ongoing:
		reset := v.timing.interval(&v.tx.Options)
		return v.endAfter(reset, reset)
	}
	return v.later()
}

// notBefore is the age in ticks at which so many milliseconds have passed for certain. The two ticks in the difference are both rounded
// down to a millisecond. The door has the first timer fire then.
func notBefore(delayMs int64) int64 {
	if delayMs <= 0 {
		return 0
	}
	return delayMs + 1
}

package advance

import (
	"fmt"
	"strings"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// A saga's branches come in pairs, the compensation of a step and then its action.

func (v *view) steps() int                     { return len(v.plan.before) }
func (v *view) compensation(k int) *branch     { return &v.branches[2*k] }
func (v *view) action(k int) *branch           { return &v.branches[2*k+1] }
func placeOf(k int) (compensation, action int) { return 2 * k, 2*k + 1 }

// lazy reports whether results of actions may wait for the command that ends the saga or decides to compensate (DECISIONS A17). That is so
// only if nothing but an action's failure can end the saga badly. A leader after a crash then calls the same actions in the same order
// again. The actions it has not reached were never called, or all before them had succeeded. A time limit or a retry limit could stop it
// short of the earlier leader's calls.
func (v *view) lazy() bool {
	return v.tx.Mode == sagapart.Saga && !v.plan.concurrent && v.tx.Options.TimeoutMs == 0 && v.tx.Options.RetryLimit == 0
}

// free reports whether all that step k follows has succeeded.
func (v *view) free(k int) bool {
	for _, earlier := range v.plan.before[k] {
		if v.action(earlier).status != sagapart.Succeed {
			return false
		}
	}
	return true
}

func decideSaga(v *view) step {
	switch v.tx.Status {
	case sagapart.Aborting:
		return compensate(v)
	case sagapart.Prepared: // nothing to do until it is submitted
		return v.later()
	}
	if limit := v.timeoutMs(); limit > 0 && v.ageMs >= limit {
		return step{cancel: true, change: &change{to: sagapart.Aborting, reason: timeoutReason(limit)}}
	}
	succeeded, exhausted := 0, false
	for k := range v.steps() {
		a := v.action(k)
		switch {
		case a.status == sagapart.Failed:
			return step{change: &change{to: sagapart.Aborting, reason: v.failure(k)}}
		case a.status == sagapart.Succeed:
			succeeded++
		case a.state == ended && a.outcome != 0 && !a.ongoing() && v.tx.Options.RetryLimit > 0:
			exhausted = true
		}
	}
	switch {
	case exhausted:
		text := fmt.Sprintf("RetryCount is greater than RetryLimit, RetryLimit: %d", v.tx.Options.RetryLimit)
		return step{change: &change{to: sagapart.Aborting, reason: text}}
	case succeeded == v.steps():
		return step{change: &change{to: sagapart.Succeed, end: true}}
	case !v.lazy() && v.unsaved():
		return step{change: &change{}}
	}
	return v.forward()
}

// forward calls every action whose turn it is.
func (v *view) forward() step {
	var calls []int
	retryMs, under := int64(0), false
	for k := range v.steps() {
		a := v.action(k)
		if a.status != sagapart.Prepared || !v.free(k) {
			continue
		}
		_, place := placeOf(k)
		switch {
		case a.state == running:
			under = true
		case a.state == uncalled, a.state == retrying && v.passMs >= a.retryMs:
			calls = append(calls, place)
		case a.state == retrying:
			retryMs = sooner(retryMs, a.retryMs)
		}
	}
	late := v.passMs >= v.limitMs()
	switch {
	case len(calls) == 0 && retryMs == 0 && !under:
		return v.later()
	case late && !under:
		return v.endAfter(max(retryMs-v.passMs, 0), v.intervalMs())
	case late:
		return step{wakeMs: v.timeoutWake()}
	}
	return step{calls: calls, wakeMs: sooner(retryMs, v.timeoutWake())}
}

// failure is DTM's rollback reason for an action that has failed.
func (v *view) failure(k int) string {
	a := v.action(k)
	if a.state != ended {
		return "fail message lost"
	}
	_, place := placeOf(k)
	return failureOf(v.tx.Branches[place].URL, a.message)
}

// failureOf is DTM's rollback reason for a call whose answer ends a transaction.
func failureOf(url, message string) string {
	return fmt.Sprintf("url:%s return failed: %s FAILURE", url, strings.TrimSuffix(message, " FAILURE"))
}

// mayHaveRun reports whether step k must be compensated: its action is done, has failed, or may have been called.
func (v *view) mayHaveRun(k int) bool {
	a := v.action(k)
	return a.status != sagapart.Prepared || a.tries > 0 || a.doubt || v.inherited && v.abortedByOthers()
}

// abortedByOthers reports whether a client aborted a saga that did not wait for the log: the worker itself aborts only after a failed
// action. An earlier leader may then have called any action.
func (v *view) abortedByOthers() bool { return v.lazy() && !v.anyFailed() }

// settle decides, for a saga that a client has aborted, the status of each step that the log does not know. An action that may have been
// called counts as failed; an uncalled one has nothing to compensate. The next leader then knows what this one knows.
func (v *view) settle() (marks []sagapart.BranchResult) {
	for k := range v.steps() {
		compensation, action := placeOf(k)
		switch {
		case v.action(k).status != sagapart.Prepared || v.compensation(k).status != sagapart.Prepared:
		case v.mayHaveRun(k):
			marks = append(marks, sagapart.BranchResult{Branch: uint32(action), Status: sagapart.Failed})
		default:
			marks = append(marks, sagapart.BranchResult{Branch: uint32(compensation), Status: sagapart.Succeed})
		}
	}
	return marks
}

func (v *view) anyFailed() bool {
	for k := range v.steps() {
		if v.action(k).status == sagapart.Failed {
			return true
		}
	}
	return false
}

// undone reports whether nothing of step k is left to compensate.
func (v *view) undone(k int) bool {
	return v.compensation(k).status == sagapart.Succeed || !v.mayHaveRun(k)
}

// compensate calls the compensations of the actions that were, or may have been, done: those of the last steps first.
func compensate(v *view) step {
	for k := range v.steps() {
		if v.action(k).state == running { // a compensation never overtakes its action
			return v.saveOrWait()
		}
	}
	var marks []sagapart.BranchResult
	if v.abortedByOthers() {
		marks = v.settle()
	}
	var calls []int
	left := false
	for k := v.steps() - 1; k >= 0; k-- {
		if v.undone(k) {
			continue
		}
		left = true
		free := true
		for _, later := range v.plan.after[k] {
			free = free && v.undone(later)
		}
		if place, _ := placeOf(k); free && v.compensation(k).state == uncalled {
			calls = append(calls, place)
		}
	}
	switch {
	case !left:
		return step{change: &change{to: sagapart.Failed, end: true}}
	case len(marks) > 0:
		return step{change: &change{marks: marks}}
	case v.unsaved():
		return step{change: &change{}}
	case len(calls) > 0 && v.passMs < v.limitMs():
		return step{calls: calls}
	case v.running():
		return step{}
	case len(calls) > 0:
		return v.pause()
	}
	return v.later()
}

// saveOrWait has the log told what it lacks, else waits.
func (v *view) saveOrWait() step {
	if v.unsaved() {
		return step{change: &change{}}
	}
	return step{}
}

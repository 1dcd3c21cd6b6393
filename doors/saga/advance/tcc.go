package advance

import (
	"slices"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// decideTCC confirms what was submitted and cancels what was aborted, the branch that was registered last first.
func decideTCC(v *view) step {
	order := make([]int, len(v.branches))
	for i := range order {
		order[i] = i
	}
	slices.Reverse(order)
	return v.phaseTwo(order, sagapart.OpConfirm, sagapart.OpCancel)
}

// phaseTwo carries the client's decision to the branches, one at a time in the order given. One that was never made is to abort
// when its time is up.
func (v *view) phaseTwo(order []int, commit, rollback string) step {
	op, to := commit, sagapart.Succeed
	switch v.tx.Status {
	case sagapart.Prepared:
		limit := v.timeoutMs()
		if left := limit - v.ageMs; left > 0 {
			return v.endAfter(left, v.intervalMs())
		}
		return step{change: &change{to: sagapart.Aborting, reason: timeoutReason(limit)}}
	case sagapart.Aborting:
		op, to = rollback, sagapart.Failed
	}
	for _, i := range order {
		b := &v.branches[i]
		if v.tx.Branches[i].Op != op || b.status == sagapart.Succeed {
			continue
		}
		switch {
		case b.state == running:
			return step{}
		case b.state != uncalled:
			return v.later()
		case v.unsaved():
			return step{change: &change{}}
		}
		return step{calls: []int{i}}
	}
	return step{change: &change{to: to, end: true}}
}

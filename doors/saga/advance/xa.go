package advance

import sagapart "github.com/holdfastdb/holdfast/doors/saga/part"

// decideXA commits or rolls back in the order in which branches were registered. It calls the client's own URL, which speaks XA with its
// database.
func decideXA(v *view) step {
	order := make([]int, len(v.branches))
	for i := range order {
		order[i] = i
	}
	return v.phaseTwo(order, sagapart.OpCommit, sagapart.OpRollback)
}

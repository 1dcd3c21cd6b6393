package saga

import esaga "github.com/holdfastdb/holdfast/entry/saga"

// decideXA commits or rolls back in the order in which branches were registered. What is called is the client's own URL: it speaks
// XA with its database.
func decideXA(v *view) step {
	order := make([]int, len(v.branches))
	for i := range order {
		order[i] = i
	}
	return v.phaseTwo(order, esaga.OpCommit, esaga.OpRollback)
}

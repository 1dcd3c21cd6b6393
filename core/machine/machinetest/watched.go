package machinetest

import "github.com/holdfastdb/holdfast/core/store"

// Watched is a store that calls During, unless it is nil, while a batch becomes visible.
type Watched struct {
	*store.Mem
	During func()
}

// Commit implements store.Store.
func (w *Watched) Commit(b store.Batch, index uint64) error {
	if w.During != nil {
		w.During()
	}
	return w.Mem.Commit(b, index)
}

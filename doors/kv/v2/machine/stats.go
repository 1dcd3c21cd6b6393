package machine

import (
	"sync/atomic"

	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// Stats counts what this process has done with the tree since it started; /v2/stats/store shows it. Reads are counted by the
// door that serves them. All fields are safe for concurrent use. They are no state: members may differ.
type Stats struct {
	Gets, GetFails                           atomic.Uint64
	Sets, SetFails                           atomic.Uint64
	Deletes, DeleteFails                     atomic.Uint64
	Updates, UpdateFails                     atomic.Uint64
	Creates, CreateFails                     atomic.Uint64
	Swaps, SwapFails                         atomic.Uint64
	CompareAndDeletes, CompareAndDeleteFails atomic.Uint64
	Expired                                  atomic.Uint64
	WatchRequests                            atomic.Uint64
}

// Stats returns the counters, to read and to count reads in.
func (m *Machine) Stats() *Stats { return &m.stats }

func (s *Stats) count(k v2part.Kind, ok bool) {
	done, failed := &s.Sets, &s.SetFails
	switch k {
	case v2part.Create, v2part.InOrder:
		done, failed = &s.Creates, &s.CreateFails
	case v2part.Update:
		done, failed = &s.Updates, &s.UpdateFails
	case v2part.CompareAndSwap:
		done, failed = &s.Swaps, &s.SwapFails
	case v2part.Delete:
		done, failed = &s.Deletes, &s.DeleteFails
	case v2part.CompareAndDelete:
		done, failed = &s.CompareAndDeletes, &s.CompareAndDeleteFails
	}
	if ok {
		done.Add(1)
	} else {
		failed.Add(1)
	}
}

func (s *Stats) expired(n int) { s.Expired.Add(uint64(n)) }

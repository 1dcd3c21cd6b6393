// Package refine divides the blocks by which doors/kv/machine counts keys. A count soon after the start, or after many new keys, then walks
// few of them. It runs on every member that answers clients, leader or not, over that member's own memory: nothing of it is in the log.
//
// It decides nothing: the machine chooses the blocks and keeps the counts exact.
package refine

import (
	"errors"
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	"github.com/holdfastdb/holdfast/internal/task"
)

const (
	// piece is how many rows are read at a time: about 2 ms of a processor. A member that stops waits for one.
	piece = 8192
	// pause is after a piece that failed.
	pause = time.Second
)

// member is the worker's view of its node. *node.Node is the one.
type member interface {
	Tasks() task.Runner
	StoppedC() <-chan struct{}
}

// keys is the machine. *machine/kv.Machine is the one.
type keys interface {
	RefineWanted() <-chan struct{}
	Refine(n int) (more bool, err error)
}

var (
	_ member = (*node.Node)(nil)
	_ keys   = (*kvmachine.Machine)(nil)
)

// Run divides large blocks until n stops. Call it once, on a goroutine of its own, after the machine was loaded.
func Run(n member, m keys, log *slog.Logger) { run(n, m, pause, log) }

func run(n member, m keys, pause time.Duration, log *slog.Logger) {
	stopped := func(d time.Duration, on <-chan struct{}) bool { return n.Tasks().Wait(d, n.StoppedC(), on) == 0 }
	wanted := m.RefineWanted()
	for !stopped(task.Forever, wanted) {
		for more := true; more; {
			var err error
			if more, err = m.Refine(piece); err == nil {
				if more && stopped(0, nil) {
					return
				}
				continue
			}
			switch {
			case errors.Is(err, store.ErrClosed): // about to stop
			case errors.Is(err, kvmachine.ErrMiscounted):
				log.Error("the keys are not as many as the counters say; counts of this member may be wrong; compare members by their state "+
					"hash and replace the one that differs", "err", err)
			default:
				log.Warn("counts of keys stay slow", "err", err)
			}
			if stopped(pause, nil) {
				return
			}
		}
	}
}

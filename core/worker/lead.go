// Package worker is common to all workers of a cluster's leader. A worker begins and ends with leadership, and proposes in the term of its
// decision. The packages below it are the workers themselves.
//
// It decides nothing about any machine and keeps no state; each worker's state is in its own package.
package worker

import (
	"context"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/task"
)

// proposeTimeout bounds one command of a worker, and one confirmation that its member still leads. After it the worker looks at its machine
// again: the proposal may have taken effect meanwhile.
const proposeTimeout = 10 * time.Second

// Member is what leader-side work needs of its node. *node.Node is the one; workertest.Member stands for it in tests of workers.
type Member interface {
	Leadership() (term uint64, changed <-chan struct{})
	ProposeInTerm(ctx context.Context, term uint64, lane node.Lane, parts ...entry.Part) (*entry.Result, error)
	LinearizeInTerm(ctx context.Context, term uint64) error
	LeadsAlone(term uint64) bool
	Tasks() task.Runner
	StoppedC() <-chan struct{}
}

var _ Member = (*node.Node)(nil)

// Lead runs a worker on the calling goroutine until its member stops. It calls lead with the term while the member leads, and follow,
// which may be nil, while it does not. Both return when over is closed or the member has stopped; one that returns sooner is called
// again when over is closed. over is closed by any news about who leads, not only by the loss of leadership: lead may be called
// several times in one term.
func Lead(m Member, lead func(term uint64, over <-chan struct{}), follow func(over <-chan struct{})) {
	for {
		term, over := m.Leadership()
		if term != 0 {
			lead(term, over)
		} else if follow != nil {
			follow(over)
		}
		if m.Tasks().Wait(task.Forever, over, m.StoppedC()) == 1 {
			return
		}
	}
}

// Propose proposes a part in the term in which it was decided, in the system lane. It waits for the result, at most 10 s.
// node.ErrSuperseded says that the term is over and the command has no effect; the other errors are those of Node.Propose.
func Propose(m Member, term uint64, p entry.Part) (*entry.Result, error) {
	ctx, cancel := m.Tasks().Timeout(proposeTimeout)
	defer cancel()
	return m.ProposeInTerm(ctx, term, node.LaneSystem, p)
}

// Confirm returns nil if m led in term at some moment after the call began. It waits at most 10 s.
func Confirm(m Member, term uint64) error {
	if term == 0 {
		return node.ErrNotLeader
	}
	if m.LeadsAlone(term) { // without a timer: every read of a single node comes by here
		return nil
	}
	ctx, cancel := m.Tasks().Timeout(proposeTimeout)
	defer cancel()
	return m.LinearizeInTerm(ctx, term)
}

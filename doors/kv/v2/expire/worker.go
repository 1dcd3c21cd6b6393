// Package expire removes nodes of etcd's v2 API whose time is up. The expiry is state: every node with a TTL has a deadline by the cluster
// tick, the same on every member. The leader's Worker only waits for the earliest and proposes a command that removes expired nodes. Apply
// judges again whether a node has expired. It keeps no deadlines in memory, so that millions of nodes cost it nothing, and a new leader
// goes on where the old one stopped.
package expire

import (
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

const (
	// batch is how many nodes one command removes. Removing one takes Apply about 10 µs, during which no other write
	// is applied; many small commands let the others through.
	batch = 128
	// pause is how long the worker waits after a command that failed, and between two that found nothing to do.
	pause = 200 * time.Millisecond
)

// member is the worker's view of its node. *node.Node is the one; tests drive a worker without a log.
type member interface {
	worker.Member
	Tick() int64
}

// reader is the worker's view of the machine.
type reader interface {
	NextDeadline() (tick int64, sooner <-chan struct{}, err error)
}

// Worker removes what is due for as long as its member leads.
type Worker struct {
	node  member
	nodes reader
}

// New makes n's worker, which reads the deadlines of m; Run starts it.
func New(n *node.Node, m *v2machine.Machine) *Worker { return &Worker{node: n, nodes: m} }

var _ reader = (*v2machine.Machine)(nil)

// Run works until the node stops. Call it once.
func (w *Worker) Run() { worker.Lead(w.node, w.lead, nil) }

// lead works in one term until over is closed.
func (w *Worker) lead(term uint64, over <-chan struct{}) {
	for {
		next, sooner, err := w.nodes.NextDeadline()
		wait := pause
		if err == nil {
			wait = w.until(next)
			if wait == 0 && w.remove(term) {
				continue
			}
			wait = max(wait, time.Millisecond)
			if next <= w.node.Tick() { // it failed, or found nothing although something was due: an entry stamped before us
				wait, sooner = pause, nil
			}
		}
		switch w.node.Tasks().Wait(wait, over, w.node.StoppedC(), sooner) {
		case 0, 1:
			return
		}
	}
}

// until is the time to a tick, at most a minute: the cluster's tick and this timer may part.
func (w *Worker) until(tick int64) time.Duration {
	return min(time.Duration(min(max(tick-w.node.Tick(), 0), 60_000))*time.Millisecond, time.Minute)
}

// remove proposes one batch, under the term in which it was found due, and reports whether it removed anything.
func (w *Worker) remove(term uint64) bool {
	body := v2part.Append(nil, &v2part.Part{Kind: v2part.Expire, Limit: batch})
	res, err := worker.Propose(w.node, term, entry.Part{Machine: entry.MachineEtcd2, Body: body})
	if err != nil || res.Rejection != nil {
		return false
	}
	n, _ := res.Of(entry.MachineEtcd2).(int)
	return n > 0
}

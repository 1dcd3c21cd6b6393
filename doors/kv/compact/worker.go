// Package compact forgets old revisions by a policy, as etcd's auto compaction does: everything older than a time, or
// everything but a number of revisions. Only the member that leads proposes; every member keeps the times, so that a new
// leader goes on where the old one stopped.
//
// It is not what frees the space: that is the store's own work once a compaction is applied (doors/kv/machine).
package compact

import (
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// Policy selects the revisions to drop. The zero value forgets nothing; of the two only one is set.
type Policy struct {
	// Period keeps the revisions of this last stretch of time. The worker looks ten times per period, or every six minutes if the period is
	// longer than an hour. It compacts once per period or once an hour.
	Period time.Duration
	// Revisions keeps this many revisions, looked at every five minutes.
	Revisions int64
}

// On reports whether the policy forgets anything.
func (p Policy) On() bool { return p.Period > 0 || p.Revisions > 0 }

const (
	// longest is the longest time between two compactions by period.
	longest = time.Hour
	// samples is how many times per such interval the revision is noted.
	samples = 10
	// revisionInterval is how often the count is looked at.
	revisionInterval = 5 * time.Minute
)

// plan decides what to compact at each look. It belongs to one goroutine and reads no clock.
type plan struct {
	policy Policy
	// noted are the revisions of the last looks, the oldest first. They cover a period and one look, so rather too much is kept than too
	// little.
	noted []int64
	last  int64         // the newest revision that was compacted to
	since time.Duration // when that was, on the clock of look
	first bool          // nothing was compacted yet: wait for a whole period
}

func newPlan(p Policy, now time.Duration) *plan { return &plan{policy: p, since: now, first: true} }

// interval is the time between two looks.
func (p *plan) interval() time.Duration {
	if p.policy.Period > 0 {
		return max(min(p.policy.Period, longest)/samples, time.Millisecond)
	}
	return revisionInterval
}

// note remembers the current revision; every member does so at every look.
func (p *plan) note(revision int64) {
	if p.policy.Period <= 0 {
		return
	}
	p.noted = append(p.noted, revision)
	if keep := int(p.policy.Period/p.interval()) + 1; len(p.noted) > keep {
		p.noted = append(p.noted[:0], p.noted[1:]...)
	}
}

// due returns the revision to compact to now, 0 = none.
func (p *plan) due(now time.Duration, revision int64) int64 {
	target := revision - p.policy.Revisions
	if p.policy.Period > 0 {
		wait := min(p.policy.Period, longest)
		if p.first {
			wait = p.policy.Period
		}
		if len(p.noted) == 0 || now-p.since < wait {
			return 0
		}
		target = p.noted[0]
	}
	if target <= 0 || target == p.last {
		return 0
	}
	return target
}

// done records that everything up to target is forgotten.
func (p *plan) done(now time.Duration, target int64) { p.last, p.since, p.first = target, now, false }

// Run follows the policy until the node stops, by the revisions of m. Call it on a goroutine of its own. It is no worker.Lead: a member
// that does not lead notes the revisions too.
func Run(n *node.Node, m *kvmachine.Machine, policy Policy, log *slog.Logger) {
	if !policy.On() {
		return
	}
	p := newPlan(policy, n.Mono())
	w := &compactor{node: n, log: log}
	revision, _ := m.Revision()
	p.note(revision)
	for w.sleep(p.interval()) {
		revision, _ = m.Revision()
		if term, _ := n.Leadership(); term != 0 {
			if target := p.due(n.Mono(), revision); target != 0 && w.compact(term, target) {
				p.done(n.Mono(), target)
			}
		}
		p.note(revision)
	}
}

type compactor struct {
	node *node.Node
	log  *slog.Logger
}

// sleep waits; false: the node has stopped.
func (w *compactor) sleep(d time.Duration) bool {
	return w.node.Tasks().Wait(d, w.node.StoppedC()) == -1
}

// compact proposes in the term it was decided in: a deposed leader compacts nothing. A compaction behind one that another
// client has made counts as done.
func (w *compactor) compact(term uint64, target int64) bool {
	body := kvpart.Append(nil, &kvpart.Part{Compact: &kvpart.Compact{Revision: target}})
	res, err := worker.Propose(w.node, term, entry.Part{Machine: entry.MachineKV, Body: body})
	switch {
	case err != nil:
		w.log.Warn("auto compaction failed, it is tried again", "revision", target, "err", err)
		return false
	case res != nil && res.Rejection != nil && res.Rejection.Code != kvpart.Compacted:
		w.log.Warn("auto compaction refused, it is tried again", "revision", target, "err", res.Rejection)
		return false
	}
	w.log.Info("auto compaction", "revision", target)
	return true
}

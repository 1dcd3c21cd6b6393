package node

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/raft"
)

// A driver without goroutines (Config.Manual, the simulation) needs these beside Pump, WriteStep, ProposeAsync and
// LinearizeAsync. They do the work of Start, AddMember and TransferLeader, but never wait.

// Initialise makes an empty cfg.Dir the data directory of ident.Member in the given cluster. With members, it is a first
// member of a new cluster that has exactly those voters. Without, it joins an existing cluster and gets its state from
// there.
func Initialise(cfg Config, ident Identity, cluster uint64, members []emember.Member) error {
	cfg.defaults()
	ident.Format = FormatVersion
	if err := cfg.FS.MkdirAll(cfg.Dir); err != nil {
		return fmt.Errorf("make %s: %w", cfg.Dir, err)
	}
	return initialise(&cfg, &ident, cluster, members)
}

// WritesQueued reports whether WriteStep would find something to write.
func (n *Node) WritesQueued() bool {
	n.writer.mu.Lock()
	defer n.writer.mu.Unlock()
	return len(n.writer.queue) > 0
}

// Promises are the term, vote and commit index as this member's log holds them.
func (n *Node) Promises() (term, vote, commit uint64) {
	hs := n.wal.HardState()
	return hs.Term, hs.Vote, hs.Commit
}

// ChangeAsync proposes one membership change with its part of the member machine, without the checks of AddMember and its
// like. done is called on the loop: ErrSuperseded if this member does not lead.
func (n *Node) ChangeAsync(kind raft.ChangeKind, id uint64, part *emember.Part, done func(*entry.Result, error)) error {
	p := &pending{lane: LaneSystem, size: overheadBytes, call: done, change: &change{kind: kind, id: id},
		parts: []entry.Part{{Machine: entry.MachineMember, Body: emember.AppendPart(nil, part)}}}
	if !n.lanes.push(p) {
		return ErrOverloaded
	}
	n.wakeup()
	return nil
}

// TransferAsync starts handing leadership to another voter if this member leads; whether it worked shows in Status.
func (n *Node) TransferAsync(to uint64) {
	n.later(func() error {
		if n.rep.IsLeader() && to != n.id && n.rep.Conf().Voter(to) {
			n.startTransfer(to)
		}
		return nil
	})
}

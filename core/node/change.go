package node

import (
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/raft"
)

// change is a membership change on its way.
type change struct {
	kind raft.ChangeKind
	id   uint64
}

// startChange proposes one membership change at a time. It waits until an entry of this term was applied: before that
// raft silently turns a change into an empty entry. Loop only, leader only.
func (n *Node) startChange(p *pending) {
	if n.changing != nil || n.termApplied != n.rep.Term() {
		if len(n.changes) >= maxChanges {
			n.changes = slices.DeleteFunc(n.changes, func(p *pending) bool { return p.call == nil && p.state.Load() == stateAbandoned })
		}
		if len(n.changes) >= maxChanges {
			n.refused.Add(1)
			n.complete(p, nil, ErrOverloaded)
			return
		}
		n.changes = append(n.changes, p)
		return
	}
	if p.call == nil && !p.state.CompareAndSwap(stateQueued, stateDispatched) {
		return
	}
	term := n.rep.Term()
	n.track(p, term)
	buf := entry.AppendHeader(nil, n.stamp())
	buf = entry.AppendPacked(buf, entry.AppendCommand(nil, &entry.Command{Origin: n.origin, Seq: p.seq, Term: term, Parts: p.parts}))
	if err := n.rep.ProposeChange(raft.Change{Kind: p.change.kind, ID: p.change.id, Context: buf}); err != nil {
		n.untrack(p)
		n.lanes.unshift([]*pending{p})
		return
	}
	n.changing = p
}

// maxChanges bounds the membership changes that wait for the one in flight; further ones are refused.
const maxChanges = 64

// requeueChanges puts waiting membership changes back at the front of their lane once the first can be proposed. It also
// does so once this member no longer leads: they then end like other queued commands. Loop only.
func (n *Node) requeueChanges() {
	if len(n.changes) == 0 || n.rep.IsLeader() && (n.changing != nil || n.termApplied != n.rep.Term()) {
		return
	}
	n.lanes.unshift(n.changes)
	clear(n.changes)
	n.changes = n.changes[:0]
}

// changeApplied does what an applied membership change means for this member. Loop only.
func (n *Node) changeApplied() error {
	n.changing = nil
	// The client may switch a removed member off at once. This member must not restart after a crash with the old
	// configuration, in which it would need that member's vote. So the change is durable before it is answered.
	if err := n.store.Flush(); err != nil {
		return fmt.Errorf("flush a membership change: %w", err)
	}
	if p := n.changed; p != nil {
		n.changed = nil
		n.complete(p, n.changedTo, nil)
	}
	n.soleVoter = isSole(n.rep.Conf(), n.id)
	n.aloneFrom = n.rep.Commit()
	n.syncPeers()
	n.publish(true)
	if n.members.Removed(n.id) && !n.cfg.stopped {
		n.later(func() error {
			// The others stop talking to it, so after a restart it would not hear of this again.
			if err := n.store.Flush(); err != nil {
				n.log.Warn("flush the store", "err", err)
			}
			return removedErr(n.id)
		})
	}
	return nil
}

func removedErr(id uint64) error {
	return fmt.Errorf("member %x was removed from the cluster; its data can be deleted", id)
}

package node

import (
	"context"
	"time"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/raft"
)

// handover is leadership on its way to another member. Loop only.
type handover struct {
	xferTo    uint64 // 0: no transfer
	xferUntil time.Duration
}

// TransferLeader hands leadership to another member; to 0 picks the voter whose log is furthest. It returns once this
// cluster has the new leader. ErrTimeoutTransfer if the target did not take over in time.
func (n *Node) TransferLeader(ctx context.Context, to uint64) error {
	_, err := n.Call(ctx, "leader.transfer", emember.AppendPart(nil, &emember.Part{Promote: &emember.Promote{ID: to}}))
	return err
}

func (n *Node) handleTransfer(ctx context.Context, req []byte) ([]byte, error) {
	part, err := emember.DecodePart(req)
	if err != nil || part.Promote == nil {
		return nil, emember.ErrMalformed
	}
	return nil, n.transfer(ctx, part.Promote.ID)
}

// transfer runs on the leader and returns once another member leads.
func (n *Node) transfer(ctx context.Context, to uint64) error {
	if to == n.id {
		return nil
	}
	target := uint64(0)
	if err := n.onLoop(context.Background(), func() {
		if n.rep.IsLeader() {
			target = transferTarget(n.rep.Progress(), n.id, to, func(id uint64) bool { return n.net.ConnectedFor(id) > 0 })
		}
		if target != 0 {
			n.startTransfer(target)
		}
	}); err != nil {
		return err
	}
	if target == 0 {
		return ErrTransferTargetUnknown
	}
	deadline := n.clock.Mono() + 3*time.Duration(n.cfg.ElectionTicks)*n.cfg.TickInterval
	for {
		changed := n.pubChange.wait()
		if l := n.pub.Load().leader; l != n.id && l != 0 {
			return nil
		}
		switch n.tasks.Wait(max(deadline-n.clock.Mono(), 0), changed, ctx.Done(), n.dead) {
		case -1, 1:
			return ErrTimeoutTransfer
		case 2:
			return ErrStopped
		}
	}
}

// transferTarget returns the voter asked for, or, for 0, the active voter with most of the log. Proposals stop until the target has all of
// it, so a voter that was just restarted would hold up every client. Raft calls a member active for an election timeout after its last
// message, so only connected voters count. 0 = there is none.
func transferTarget(all []raft.Progress, self, asked uint64, connected func(id uint64) bool) (target uint64) {
	most, reached := uint64(0), false
	for _, pr := range all {
		switch {
		case pr.ID == self || pr.Learner:
		case asked != 0:
			if pr.ID == asked {
				return asked
			}
		case pr.Active:
			if there := connected(pr.ID); target == 0 || there && !reached || there == reached && pr.Match > most {
				target, most, reached = pr.ID, pr.Match, there
			}
		}
	}
	return target
}

// startTransfer tells raft; nothing new is proposed until the target leads or an election's time is over. Loop only.
func (n *Node) startTransfer(to uint64) {
	n.rep.Transfer(to)
	n.xferTo, n.xferUntil = to, n.clock.Mono()+time.Duration(n.cfg.ElectionTicks)*n.cfg.TickInterval
}

// transferring: while leadership is being handed over nothing new is proposed, it would be dropped. Loop only.
func (n *Node) transferring() bool {
	if n.xferTo == 0 {
		return false
	}
	if n.clock.Mono() > n.xferUntil {
		n.xferTo = 0
		return false
	}
	return true
}

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/raft"
)

// membership is the set of members and the change to it that is under way. Loop only, except where a field says
// otherwise.
type membership struct {
	soleVoter bool
	aloneFrom uint64     // commit index at the last membership change: a member that left then may have applied that far
	changing  *pending   // membership change in flight
	changes   []*pending // membership changes that wait for it
	changed   *pending   // membership change applied and not answered yet
	changedTo *entry.Result
	promoteAt time.Duration
	peered    map[uint64]struct{} // whom the network was told of
	heardOf   uint64              // the state of the member list that the network knows (mmember.Machine.Changes)
	pending   acquaintances       // any goroutine
	// stranger is the last sender that was refused and is not logged yet. Any goroutine.
	stranger atomic.Uint64
	keepURLs bool // StartOptions.KeepPeerURLs; set before announce runs

	handedMu sync.Mutex
	handed   map[uint64]uint64 // added voters' ids given away without a leader, and to which nonce; guarded by handedMu
}

// registerMembership installs the leader's side of the membership calls.
func (n *Node) registerMembership() {
	n.Handle("member.add", func(ctx context.Context, req []byte) ([]byte, error) {
		m, err := emember.DecodeMember(req)
		if err != nil {
			return nil, err
		}
		m, err = n.addMember(ctx, m)
		return emember.AppendMember(nil, &m), err
	})
	n.Handle("member.remove", func(ctx context.Context, req []byte) ([]byte, error) {
		p, err := emember.DecodePart(req)
		if err != nil || p.Remove == nil {
			return nil, emember.ErrMalformed
		}
		return nil, n.removeMember(ctx, p.Remove.ID)
	})
	n.Handle("member.promote", func(ctx context.Context, req []byte) ([]byte, error) {
		p, err := emember.DecodePart(req)
		if err != nil || p.Promote == nil {
			return nil, emember.ErrMalformed
		}
		return nil, n.promoteMember(ctx, p.Promote.ID)
	})
	n.Handle("member.join", n.handleJoin)
	n.Handle("leader.transfer", n.handleTransfer)
}

func (n *Node) propChange(ctx context.Context, kind raft.ChangeKind, id uint64, p *emember.Part) error {
	res, err := n.propose(ctx, LaneSystem, 0, &change{kind: kind, id: id},
		[]entry.Part{{Machine: entry.MachineMember, Body: emember.AppendPart(nil, p)}})
	return memberErr(res, err)
}

// addMember runs on the leader.
func (n *Node) addMember(ctx context.Context, m emember.Member) (emember.Member, error) {
	if len(m.PeerURLs) == 0 {
		return m, errors.New("a member needs a peer address")
	}
	started, learners := 0, 0
	members := n.members.List()
	voters := 0
	for _, o := range members {
		for _, u := range m.PeerURLs {
			if slices.Contains(o.PeerURLs, u) {
				return m, ErrPeerAddrExists
			}
		}
		if o.Learner {
			learners++
			continue
		}
		voters++
		if o.Name != "" {
			started++
		}
	}
	if m.Learner && learners >= n.cfg.MaxLearners {
		return m, ErrTooManyLearners
	}
	// Adding a voter raises the quorum, so there must be enough started members for the new one (etcd's strict check).
	// With a single started voter a second may be added.
	if !m.Learner && !n.cfg.LooseReconfig && started < (voters+1)/2+1 && !(voters == 1 && started == 1) {
		return m, ErrNotEnoughStarted
	}
	if !slices.ContainsFunc(members, func(o emember.Member) bool { return len(o.PeerURLs) > 0 }) {
		// The new member could reach none of the others, and as a voter it would make the quorum unreachable for good.
		return m, fmt.Errorf("%w: no member has a peer address; start this one with --peer first", ErrUnhealthy)
	}
	// Whether it votes or not: etcd counts the new member as one that is down, unless there is a single voter.
	if !n.cfg.LooseReconfig && voters > 1 && n.healthyVoters(members) < (voters+1)/2+1 {
		return m, n.unhealthy(members)
	}
	m.ID = randomID()
	kind := raft.AddVoter
	if m.Learner {
		kind = raft.AddLearner
	}
	return m, n.propChange(ctx, kind, m.ID, &emember.Part{Add: &emember.Add{Member: m}})
}

// unhealthy names the voters that healthyVoters does not count, and the remedy for each.
func (n *Node) unhealthy(members []emember.Member) error {
	var away []string
	recent := false
	for _, o := range members {
		at := dialable(o.PeerURLs)
		switch since := time.Duration(n.net.ConnectedFor(o.ID)); {
		case o.Learner || o.ID == n.id || since >= n.cfg.HealthyAfter:
		case o.Name == "":
			away = append(away, fmt.Sprintf("member %x at %s was added and has not started: start it, or remove it (holdfast member remove %x)", o.ID, at, o.ID))
		case since <= 0:
			away = append(away, fmt.Sprintf("%s (%x) at %s is not connected to the leader: start it, or remove it (holdfast member remove %x)", o.Name, o.ID, at, o.ID))
		default:
			recent = true
			away = append(away, fmt.Sprintf("%s (%x) at %s has been connected for only %v", o.Name, o.ID, at, since.Round(100*time.Millisecond)))
		}
	}
	switch {
	case len(away) == 0:
		return fmt.Errorf("%w: no other voter has the whole log yet; try again in a moment", ErrUnhealthy)
	case recent:
		return fmt.Errorf("%w: %s; try again in %v", ErrUnhealthy, strings.Join(away, ", "), n.cfg.HealthyAfter)
	}
	return fmt.Errorf("%w: %s; try again %v after all are connected", ErrUnhealthy, strings.Join(away, ", "), n.cfg.HealthyAfter)
}

// healthyVoters counts the voters that have been connected to this leader without a break for a while, itself among them.
func (n *Node) healthyVoters(members []emember.Member) int {
	healthy := 0
	for _, o := range members {
		if !o.Learner && (o.ID == n.id || time.Duration(n.net.ConnectedFor(o.ID)) >= n.cfg.HealthyAfter) {
			healthy++
		}
	}
	return healthy
}

// removeMember runs on the leader.
func (n *Node) removeMember(ctx context.Context, id uint64) error {
	members := n.members.List()
	m, ok := n.members.Get(id)
	if !ok {
		return ErrMemberNotFound
	}
	if !m.Learner {
		voters, started := 0, 0
		for _, o := range members {
			if o.Learner {
				continue
			}
			if o.ID == id {
				continue
			}
			voters++
			if o.Name != "" {
				started++
			}
		}
		if voters == 0 || !n.cfg.LooseReconfig && started < voters/2+1 {
			return ErrNotEnoughStarted
		}
		// A leader does not remove itself. Once it has left, the others might not know that the change was committed, and
		// would keep asking for its vote. The caller goes on with the next leader.
		if id == n.id {
			switch err := n.transfer(ctx, 0); {
			case errors.Is(err, ErrTransferTargetUnknown):
				return n.unhealthy(members)
			case err != nil:
				return err
			}
			return ErrNotLeader
		}
		// A member that is down is no part of the active quorum and may go; a live one only if the rest stays healthy.
		if n.net.ConnectedFor(id) > 0 && !n.cfg.LooseReconfig {
			if n.healthyVoters(members)-1 < voters/2+1 {
				return n.unhealthy(members)
			}
		}
	}
	return n.propChange(ctx, raft.Remove, id, &emember.Part{Remove: &emember.Remove{ID: id}})
}

// promoteMember runs on the leader.
func (n *Node) promoteMember(ctx context.Context, id uint64) error {
	m, ok := n.members.Get(id)
	if !ok {
		return ErrMemberNotFound
	}
	if !m.Learner {
		return ErrMemberNotLearner
	}
	voters, started := 1, 1 // with the one to be promoted
	for _, o := range n.members.List() {
		if o.Learner {
			continue
		}
		voters++
		if o.Name != "" {
			started++
		}
	}
	if !n.cfg.LooseReconfig && started < voters/2+1 {
		return ErrNotEnoughStarted
	}
	switch near, err := n.near(ctx, id); {
	case err != nil:
		return err
	case !near:
		return ErrLearnerNotReady
	}
	return n.propChange(ctx, raft.AddVoter, id, &emember.Part{Promote: &emember.Promote{ID: id}})
}

// near asks the loop whether a learner has caught up, because what is published may be half a second old.
func (n *Node) near(ctx context.Context, id uint64) (bool, error) {
	answer := false
	if err := n.onLoop(ctx, func() { answer = n.caughtUp(id) }); err != nil {
		return false, err
	}
	return answer, nil
}

// caughtUp: the learner's log holds at least nine tenths of the leader's (etcd's measure). Loop only.
func (n *Node) caughtUp(id uint64) bool {
	for _, pr := range n.rep.Progress() {
		if pr.ID == id {
			return pr.Match > 0 && pr.Match*10 >= n.rep.Commit()*9
		}
	}
	return false
}

// promoteLearners promotes learners that joined by themselves once they have caught up. Loop only.
func (n *Node) promoteLearners() {
	if !n.rep.IsLeader() || n.changing != nil || n.rep.Term() != n.termApplied {
		return
	}
	for _, m := range n.members.List() {
		if !m.Learner || !m.AutoPromote || m.Name == "" || !n.caughtUp(m.ID) {
			continue
		}
		p := &pending{lane: LaneSystem, size: overheadBytes, change: &change{kind: raft.AddVoter, id: m.ID},
			parts: []entry.Part{{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &emember.Part{Promote: &emember.Promote{ID: m.ID}})}},
			call:  func(*entry.Result, error) {}}
		n.startChange(p)
		return
	}
}

package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
)

// Errors of membership calls.
var (
	ErrNotLeader             = errors.New("not leader")
	ErrMemberNotFound        = errors.New("member not found")
	ErrMemberExists          = errors.New("member exists")
	ErrPeerAddrExists        = errors.New("peer address exists")
	ErrNotEnoughStarted      = errors.New("not enough started members")
	ErrUnhealthy             = errors.New("unhealthy cluster")
	ErrLearnerNotReady       = errors.New("learner not ready")
	ErrMemberNotLearner      = errors.New("member is not a learner")
	ErrTooManyLearners       = errors.New("too many learners")
	ErrTransferTargetUnknown = errors.New("transfer target unknown")
	ErrTimeoutTransfer       = errors.New("leader transfer timed out")
)

// healthyAfter is the default of Config.HealthyAfter, etcd's value.
const healthyAfter = 5 * time.Second

// maxLearners bounds learners in the cluster unless Config says otherwise (etcd's default).
const maxLearners = 1

// Member is one member as the log knows it.
type Member struct {
	ID         uint64
	Name       string // empty = added but never started
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

func publicMember(m emember.Member) Member {
	return Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.Learner}
}

// Members lists the cluster as applied here, by id.
func (n *Node) Members() []Member {
	var out []Member
	for _, m := range n.members.List() {
		out = append(out, publicMember(m))
	}
	return out
}

// AddMember adds a voter or a learner; the leader makes its id. The member will listen for other members at peerURLs,
// which may be addresses without a scheme. The same checks as etcd's strict reconfiguration apply. Works on every member.
func (n *Node) AddMember(ctx context.Context, peerURLs []string, learner bool) (Member, error) {
	m := emember.Member{Learner: learner}
	for _, u := range peerURLs {
		m.PeerURLs = append(m.PeerURLs, n.cfg.peerURLs(u)...)
	}
	b, err := n.Call(ctx, "member.add", emember.AppendMember(nil, &m))
	if err != nil {
		return Member{}, err
	}
	m, err = emember.DecodeMember(b)
	return publicMember(m), err
}

// RemoveMember removes a member for good.
func (n *Node) RemoveMember(ctx context.Context, id uint64) error {
	_, err := n.Call(ctx, "member.remove", emember.AppendPart(nil, &emember.Part{Remove: &emember.Remove{ID: id}}))
	return err
}

// PromoteMember makes a learner that has caught up a voter.
func (n *Node) PromoteMember(ctx context.Context, id uint64) error {
	_, err := n.Call(ctx, "member.promote", emember.AppendPart(nil, &emember.Part{Promote: &emember.Promote{ID: id}}))
	return err
}

// UpdateMember changes a member's peer addresses.
func (n *Node) UpdateMember(ctx context.Context, id uint64, peerURLs []string) error {
	return n.memberCommand(ctx, &emember.Part{SetPeers: &emember.SetPeers{ID: id, PeerURLs: peerURLs}})
}

// Announce publishes this member's name and client addresses if the log does not have them yet, and its peer address if
// it changed. Called by the process once the node is ready.
func (n *Node) Announce(ctx context.Context) error {
	m, ok := n.members.Get(n.id)
	if !ok {
		return nil // a learner that has not caught up to its own addition; the caller tries again
	}
	if m.Name != n.identity.Name || !slices.Equal(m.ClientURLs, n.cfg.ClientURLs) {
		if err := n.memberCommand(ctx, &emember.Part{Publish: &emember.Publish{ID: n.id, Name: n.identity.Name, ClientURLs: n.cfg.ClientURLs}}); err != nil {
			return err
		}
	}
	urls := n.cfg.peerURLs(n.identity.PeerAddr)
	if len(urls) == 0 || n.keepURLs && len(m.PeerURLs) > 0 || slices.Equal(m.PeerURLs, urls) {
		return nil
	}
	for _, o := range n.others() {
		if sharesURL(o.PeerURLs, n.identity.PeerAddr) { // the log would refuse it, at each try
			return ErrPeerAddrExists
		}
	}
	return n.UpdateMember(ctx, n.id, urls)
}

// Announced reports whether the log knows this member by its name.
func (n *Node) Announced() bool {
	m, ok := n.members.Get(n.id)
	return ok && m.Name == n.identity.Name && slices.Equal(m.ClientURLs, n.cfg.ClientURLs)
}

func (n *Node) memberCommand(ctx context.Context, p *emember.Part) error {
	res, err := n.Propose(ctx, LaneSystem, entry.Part{Machine: entry.MachineMember, Body: emember.AppendPart(nil, p)})
	return memberErr(res, err)
}

func memberErr(res *entry.Result, err error) error {
	if err != nil {
		return err
	}
	if res == nil || res.Rejection == nil {
		return nil
	}
	switch res.Rejection.Code {
	case emember.NotFound:
		return ErrMemberNotFound
	case emember.Exists, emember.WasRemoved:
		return ErrMemberExists
	case emember.PeerURLExists:
		return ErrPeerAddrExists
	case emember.NotLearner:
		return ErrMemberNotLearner
	case emember.LastVoter:
		return ErrNotEnoughStarted
	}
	return res.Rejection
}

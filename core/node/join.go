package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/peer"
)

type joinAnswer struct {
	Cluster uint64            `json:"cluster,string"`
	Member  uint64            `json:"member,string"`
	Peers   map[uint64]string `json:"peers"`
}

// join asks a member to take this one in. The nonce in the identity makes asking again harmless.
func join(ctx context.Context, cfg *Config, net Transport, ident *Identity, opt *StartOptions) error {
	if ident.PeerAddr == "" {
		return errors.New("--join needs --peer HOST:PORT, the address at which the other members reach this one")
	}
	deadline := cfg.Clock.Mono() + time.Minute
	for {
		a, err := askAny[joinAnswer](ctx, net, opt.Join, &question{Kind: "join", Name: opt.Name, PeerAddr: ident.PeerAddr, Nonce: ident.Nonce,
			Added: opt.JoinAdded, Level: cfg.knownLevel()})
		if err == nil {
			ident.Member, ident.Peers = a.Member, a.Peers
			return initialise(cfg, ident, a.Cluster, nil)
		}
		if errors.Is(err, peer.ErrRefused) && !passes(err) || cfg.Clock.Mono() > deadline {
			return fmt.Errorf("join through %s: %w", opt.Join, err)
		}
		opt.Notify(fmt.Sprintf("cannot join through %s yet: %v", opt.Join, err))
		if cfg.Tasks.Wait(time.Second, ctx.Done()) == 0 {
			return ctx.Err()
		}
	}
}

// passes reports whether a refusal may be transient.
func passes(err error) bool {
	for _, e := range []error{ErrUnhealthy, ErrTooManyLearners, ErrNoLeader, ErrNotLeader, ErrSuperseded, ErrUnknown, errNotReady} {
		if strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

// handleJoin runs on the leader.
func (n *Node) handleJoin(ctx context.Context, req []byte) ([]byte, error) {
	var q question
	if err := json.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	if err := n.refuseLower(&q); err != nil {
		return nil, err
	}
	var me *emember.Member
	for _, m := range n.members.List() {
		switch {
		case m.Nonce == q.Nonce && q.Nonce != 0:
			me = &m
		case sharesURL(m.PeerURLs, q.PeerAddr):
			if m.Name != "" || m.Nonce != 0 {
				return nil, fmt.Errorf("member %x at %s has been started before; if it lost its disk run `holdfast member remove %x` first", m.ID, q.PeerAddr, m.ID)
			}
			c := emember.Part{Claim: &emember.Claim{ID: m.ID, Nonce: q.Nonce, Name: q.Name}}
			if err := n.memberCommand(ctx, &c); err != nil {
				return nil, err
			}
			me = &m
		}
		if me != nil {
			break
		}
	}
	if me == nil && q.Added {
		return nil, fmt.Errorf("no member with the address %s was added to cluster %x; add it first, with `etcdctl member add`", q.PeerAddr, n.identity.Cluster)
	}
	if me == nil {
		m, err := n.addMember(ctx, emember.Member{PeerURLs: n.cfg.peerURLs(q.PeerAddr), Learner: true, Nonce: q.Nonce, AutoPromote: true})
		if err != nil {
			// The same question, sent twice, has added it meanwhile.
			i := slices.IndexFunc(n.members.List(), func(o emember.Member) bool { return o.Nonce == q.Nonce && q.Nonce != 0 })
			if i < 0 {
				return nil, err
			}
			m = n.members.List()[i]
		}
		me = &m
	}
	if err := n.refuseLower(&q); err != nil { // the level may have gone up meanwhile
		return nil, err
	}
	return n.answerJoin(me.ID)
}

// refuseLower refuses a build that could not apply what this cluster logs.
func (n *Node) refuseLower(q *question) error {
	if at := n.members.Level(); q.Level < at {
		return fmt.Errorf("the cluster is at level %d and the build that asks knows levels up to %d: start it with the build of the other members, or a later one", at, q.Level)
	}
	return nil
}

// awaited returns the voter that was added for the asking process but has not started. Without its vote there may be no
// majority, and so no leader to log its claim. Nil if there is none. For an added learner there never is: the others have
// a majority without it.
func (n *Node) awaited(q *question) *emember.Member {
	for _, m := range n.members.List() {
		if sharesURL(m.PeerURLs, q.PeerAddr) && m.Name == "" && (m.Nonce == 0 || m.Nonce == q.Nonce) && !m.Learner {
			return &m
		}
	}
	return nil
}

// hand gives an added member's id to a process before the log can record the claim: to one process only, while this one runs.
// Once that has started it publishes its name, which settles the claim in the log.
func (n *Node) hand(id, nonce uint64) bool {
	n.handedMu.Lock()
	defer n.handedMu.Unlock()
	if n.handed == nil {
		n.handed = map[uint64]uint64{}
	}
	if _, given := n.handed[id]; !given {
		n.handed[id] = nonce
	}
	return n.handed[id] == nonce
}

// answerJoin tells a new member who it is and where the others are.
func (n *Node) answerJoin(id uint64) ([]byte, error) {
	a := joinAnswer{Cluster: n.identity.Cluster, Member: id, Peers: map[uint64]string{}}
	for _, m := range n.members.List() {
		if m.ID != id && len(m.PeerURLs) > 0 {
			a.Peers[m.ID] = dialable(m.PeerURLs)
		}
	}
	if len(a.Peers) == 0 {
		return nil, errors.New("the members of this cluster have no peer address: start them with --peer first")
	}
	return json.Marshal(a)
}

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/peer"
)

// question is sent to a peer address by a process that is no member yet.
type question struct {
	Kind     string `json:"kind"` // hello, join
	Name     string `json:"name"`
	PeerAddr string `json:"peer_addr"`
	Nonce    uint64 `json:"nonce,string"`
	Added    bool   `json:"added,omitempty"` // StartOptions.JoinAdded
	Level    uint16 `json:"level,omitempty"` // the highest that the asker knows; builds before levels leave it out
}

// askedAt is the address that a question gives as its asker's own.
func askedAt(b []byte) string {
	var q question
	if json.Unmarshal(b, &q) != nil {
		return ""
	}
	return dialable(peerURLs(q.PeerAddr))
}

type helloAnswer struct {
	Name    string            `json:"name"`
	Member  uint64            `json:"member,string"`
	Cluster uint64            `json:"cluster,string"` // 0: not initialised
	Members []emember.Member  `json:"members,omitempty"`
	Peers   map[string]string `json:"peers,omitempty"` // the peers it was given to bootstrap
	Token   string            `json:"token,omitempty"` // and under which token
}

func ask[T any](ctx context.Context, net Transport, addr string, q *question) (*T, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if b, err = net.Ask(ctx, addr, b); err != nil {
		return nil, err
	}
	var a T
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("answer of %s: %w", addr, err)
	}
	return &a, nil
}

// askAny asks at each of the addresses until one answers. A refusal is an answer, unless it may be transient. A member
// that does not know of its removal yet answers for ever that there is no leader, while the next address might have
// answered.
func askAny[T any](ctx context.Context, net Transport, addrs string, q *question) (a *T, err error) {
	for _, url := range peerURLs(addrs) {
		a, err = ask[T](ctx, net, HostPort(url), q)
		if err == nil || errors.Is(err, peer.ErrRefused) && !passes(err) || ctx.Err() != nil {
			return a, err
		}
	}
	return nil, err
}

// hello describes this member. The asking process need not have authenticated, so it hears only that there is a cluster. It learns neither
// this member's id, with which it could open a connection, nor the other members.
func (n *Node) hello(q *question) helloAnswer {
	a, all := helloAnswer{Name: n.identity.Name, Cluster: n.identity.Cluster}, n.members.List()
	if slices.ContainsFunc(all, func(m emember.Member) bool { return q.PeerAddr != "" && sharesURL(m.PeerURLs, q.PeerAddr) }) {
		a.Member, a.Members = n.id, all
	}
	return a
}

// HandleAsk implements peer.Handler for a running node.
func (n *Node) HandleAsk(b []byte) ([]byte, error) {
	var q question
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, err
	}
	switch q.Kind {
	case "hello":
		return json.Marshal(n.hello(&q))
	case "join":
		wait := 10 * time.Second
		if n.awaited(&q) != nil {
			wait = 3 * time.Second // there may be no leader until this member has started; an election takes two seconds
		}
		ctx, cancel := n.tasks.Timeout(wait)
		defer cancel()
		answer, err := n.Call(ctx, "member.join", b)
		if err != nil && n.pub.Load().leader == 0 {
			if m := n.awaited(&q); m != nil && n.refuseLower(&q) == nil && n.hand(m.ID, q.Nonce) {
				return n.answerJoin(m.ID)
			}
		}
		return answer, err
	}
	return nil, fmt.Errorf("unknown question %q", q.Kind)
}

var errNotReady = errors.New("this member is starting; ask again")

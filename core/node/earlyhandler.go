package node

import (
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/peer"
)

// earlyHandler is the network's handler before the node exists. It answers the question "hello" from the identity file,
// so that members that start together find each other. Once there is a node, it passes everything to the node.
type earlyHandler struct {
	node  atomic.Pointer[Node]
	ident atomic.Pointer[Identity]
	opt   StartOptions
}

func (g *earlyHandler) HandleFrame(from uint64, channel peer.Channel, frame []byte) {
	if n := g.node.Load(); n != nil {
		n.HandleFrame(from, channel, frame)
	}
}

func (g *earlyHandler) HandleStream(from uint64, r io.Reader) error {
	if n := g.node.Load(); n != nil {
		return n.HandleStream(from, r)
	}
	return errNotReady
}

func (g *earlyHandler) Reconnected(to uint64, channel peer.Channel) {
	if n := g.node.Load(); n != nil {
		n.Reconnected(to, channel)
	}
}

func (g *earlyHandler) Refused(to uint64) {
	if n := g.node.Load(); n != nil {
		n.Refused(to)
	}
}

func (g *earlyHandler) Expelled(by uint64) {
	if n := g.node.Load(); n != nil {
		n.Expelled(by)
	}
}

func (g *earlyHandler) HandleAsk(b []byte) ([]byte, error) {
	if n := g.node.Load(); n != nil {
		return n.HandleAsk(b)
	}
	var q question
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, err
	}
	// The identity file is on disk before it is shown here, and names no cluster until the first state is complete.
	id := g.ident.Load()
	if q.Kind != "hello" || len(g.opt.Peers) == 0 {
		return nil, errNotReady
	}
	if g.opt.Peers[q.Name] == "" { // it was started with another list, which it learns from the empty list here; or it is a stranger
		return json.Marshal(helloAnswer{Name: id.Name})
	}
	return json.Marshal(helloAnswer{Name: id.Name, Member: id.Member, Peers: g.opt.Peers, Token: g.opt.Token})
}

// nobody is the network of a node without other members.
type nobody struct{}

func (nobody) SetPeer(uint64, string, ...string) {}

func (nobody) RemovePeer(uint64) {}

func (nobody) Send(uint64, peer.Channel, []byte) bool { return false }

func (nobody) SendStream(_ uint64, _ func(io.Writer) error, done func(error)) {
	go done(errors.New("no network"))
}

func (nobody) ConnectedFor(uint64) int64 { return 0 }

func (nobody) Contact(uint64) (peer.Contact, bool) { return peer.Contact{}, false }

func (nobody) Traffic(uint64) *peer.Traffic { return nil }

func (nobody) Close() error { return nil }

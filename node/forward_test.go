package node

import (
	"testing"

	"github.com/holdfastdb/holdfast/peer"
)

// A frame with commands is lost with its connection, and the next one arrives before the follower has sent the first again.
// The leader must not take the second for proof that it had the first.
func TestLostFrameOfCommandsIsSentAgain(t *testing.T) {
	m := newManual(t, 3)
	follower := m.nodes[1]
	m.lose = func(p parcel) bool { return p.lane == peer.LaneForward && p.from == follower.id }
	first := m.propose(follower, "first", "1")
	m.step()
	m.step()
	m.lose = nil
	second := m.propose(follower, "second", "2")
	term := follower.Status().Term
	m.until("both applied", func() bool { return first.done && second.done })
	if first.err != nil || second.err != nil {
		t.Fatal(first.err, second.err)
	}
	if now := follower.Status().Term; now != term {
		t.Fatalf("it took a new leader: term %d, then %d", term, now)
	}
	for _, n := range m.nodes {
		m.until("everywhere", func() bool { _, v := read(t, n, "second"); return v != 0 })
		if _, v := read(t, n, "first"); v != 1 {
			t.Fatalf("member %x applied the first command %d times", n.id, v)
		}
	}
}

package node

import (
	"math"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// packing is how queued commands become entries. Loop only.
type packing struct {
	batch       []*pending
	scratch     []byte
	writesOut   int           // writes submitted and not yet finished
	unkicked    int           // of them, those for which no wake-up was sent
	packedIndex uint64        // of the last entry cut here
	packedAt    time.Duration // when it was
	lookAgain   *time.Timer   // wakes the loop at lookAt; nil without a loop
	lookAt      time.Duration // when the patience with the last entry ends, if commands wait for that
}

// Limits of one raft entry (DECISIONS B4).
const (
	packBytes = 1 << 20
	packCount = 1024
)

// packPatience is how long queued commands wait at most for the entry before them to be committed.
const packPatience = 4 * time.Millisecond

// mayPack reports whether a new entry should be cut now. One entry at a time gives the largest batches. All commands that
// queued while the previous entry was in flight share its cost on every member: messages, wake-ups, an fsync, a store
// batch. Alone, it is on its way while it is being written; in a cluster, until it is committed. A member that is far
// away must not make the others wait for a whole round trip. So after packPatience, or when much has queued up, the next
// entry is cut all the same.
func (n *Node) mayPack() bool {
	switch {
	case n.soleVoter:
		return n.writesOut == 0
	case n.rep.Commit() >= n.packedIndex, n.writesOut < 4 && n.lanesFull():
		return true
	case n.writesOut > 0:
		return false
	}
	now, end := n.clock.Mono(), n.packedAt+packPatience
	if now < end && n.lookAgain != nil && n.lookAt != end {
		n.lookAt = end
		n.lookAgain.Reset(end - now)
	}
	return now >= end
}

func (n *Node) lanesFull() bool { return n.lanes.total() >= 64<<10 }

// pack cuts one raft entry from the queues and proposes it. The leader's stamp is written here, once per entry.
func (n *Node) pack() error {
	if !n.mayPack() {
		return nil
	}
	n.batch = n.lanes.take(n.batch[:0], n.lanes.last(), packBytes, packCount)
	if len(n.batch) == 0 {
		return nil
	}
	term := n.rep.Term()
	size := 64
	for _, p := range n.batch {
		size += p.size
	}
	buf := entry.AppendHeader(wire.Room(size), n.stamp())
	packed := 0
	for i, p := range n.batch {
		if p.foreign != nil {
			if p.term != term { // its origin sees by the later term that it cannot take effect
				n.batch[i] = nil
				continue
			}
			buf = entry.AppendPacked(buf, p.foreign)
			packed++
			continue
		}
		if p.state.Load() == stateAbandoned {
			n.batch[i] = nil
			continue
		}
		if p.inTerm != 0 && p.inTerm != term && !n.cfg.Break.NoTermFence {
			n.complete(p, nil, ErrSuperseded)
			n.batch[i] = nil
			continue
		}
		if p.change != nil {
			n.startChange(p)
			n.batch[i] = nil
			continue
		}
		if p.call == nil && !p.state.CompareAndSwap(stateQueued, stateDispatched) {
			n.batch[i] = nil
			continue
		}
		n.track(p, term)
		buf = entry.AppendPackedCommand(buf, &entry.Command{Origin: n.origin, Seq: p.seq, Term: term, Parts: p.parts})
		packed++
	}
	if packed == 0 {
		return nil
	}
	if err := n.rep.Propose(buf); err != nil {
		// Provably not in the log: take the commands back and put them in front again.
		back := n.batch[:0]
		for _, p := range n.batch {
			if p == nil {
				continue
			}
			if p.foreign == nil {
				n.untrack(p)
			}
			back = append(back, p)
		}
		n.lanes.unshift(back)
		return nil
	}
	n.packedIndex = math.MaxUint64 // known once Ready hands out the write
	n.packedAt = n.clock.Mono()
	clear(n.batch)
	return nil
}

package node

import (
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/entry"
)

// ticking is the time this member goes by. tick is for any goroutine, the others are the loop's.
type ticking struct {
	tick     atomic.Pointer[tickPoint]
	lastTick time.Duration // of raft, on the local clock
	lastWall int64         // the newest wall time stamped or applied
}

// Mono is this member's monotonic clock.
func (n *Node) Mono() time.Duration { return n.clock.Mono() }

// Tick is the cluster tick in milliseconds as this member would stamp it now: it advances by the local monotonic clock
// from the last applied stamp, never back, and does not jump at a change of leader (DECISIONS A10). Loop or worker.
func (n *Node) Tick() int64 { return n.tickAt(n.clock.Mono()) }

func (t *ticking) tickAt(now time.Duration) int64 {
	p := t.tick.Load()
	return max(p.floor, p.at(now))
}

// tickPoint ties the cluster tick to the local monotonic clock.
type tickPoint struct {
	base  int64
	mono  time.Duration
	floor int64 // what a follower has said that was ahead of its leader: it says that until the leader has come to it
}

func (p *tickPoint) at(now time.Duration) int64 { return p.base + int64((now-p.mono)/time.Millisecond) }

// heard takes in the stamp of an entry that has been applied at now. live: the leader of now has stamped it, and is another member. Then its
// clock is what counts, also where ours is ahead of it, because it runs faster or began earlier: else the tick would jump by that
// when this member leads. What an earlier leader has stamped may be applied long after it was stamped, and is no reason to go back. Loop only.
func (t *ticking) heard(stampMs int64, now time.Duration, live bool) {
	p := t.tick.Load()
	switch at := p.at(now); {
	case stampMs > at:
		t.tick.Store(&tickPoint{base: stampMs, mono: now, floor: p.floor})
	case live && stampMs < at:
		t.tick.Store(&tickPoint{base: stampMs, mono: now, floor: max(p.floor, at)})
	}
}

// stamps makes ready for stamping: a leader says what it stamps. Loop only.
func (t *ticking) stamps() {
	if p := t.tick.Load(); p.floor != 0 {
		t.tick.Store(&tickPoint{base: p.base, mono: p.mono})
	}
}

// stamp is what the leader writes on the next entry. Loop only.
func (n *Node) stamp() entry.Header {
	wall := max(n.clock.Wall().UnixNano(), n.lastWall)
	n.lastWall = wall
	idx, hash := n.applier.Hash()
	return entry.Header{WallNs: wall, TickMs: n.Tick(), HashIndex: idx, Hash: hash}
}

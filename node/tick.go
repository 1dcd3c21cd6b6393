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

func (n *Node) tickAt(now time.Duration) int64 {
	p := n.tick.Load()
	return p.base + int64((now-p.mono)/time.Millisecond)
}

// tickPoint ties the cluster tick to the local monotonic clock.
type tickPoint struct {
	base int64
	mono time.Duration
}

// stamp is what the leader writes on the next entry. Loop only.
func (n *Node) stamp() entry.Header {
	wall := max(n.clock.Wall().UnixNano(), n.lastWall)
	n.lastWall = wall
	idx, hash := n.applier.Hash()
	return entry.Header{WallNs: wall, TickMs: n.Tick(), HashIndex: idx, Hash: hash}
}

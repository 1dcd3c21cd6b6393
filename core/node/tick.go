package node

import (
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
)

// ticking is the time this member goes by. tick is for any goroutine, the others are the loop's.
type ticking struct {
	tick     atomic.Pointer[tickPoint]
	lastTick time.Duration // of raft, on the local clock
	lastWall int64         // the newest wall time stamped or applied, 0: none yet
	heardMs  int64         // the newest tick that was applied
	agreed   bool          // it came from the leader of that moment, or was ours: our tick is the one it was stamped by
	counted  bool          // this process has led, or has known another leader: a leader has counted the time since it began
}

// Mono is this member's monotonic clock.
func (n *Node) Mono() time.Duration { return n.clock.Mono() }

// Tick returns the cluster tick in milliseconds as this member would stamp it now. It advances by the local monotonic clock from the last
// applied stamp, and never goes back. It does not jump at a change of leader (DECISIONS A10). Loop or worker.
func (n *Node) Tick() int64 { return n.tickAt(n.clock.Mono()) }

func (t *ticking) tickAt(now time.Duration) int64 {
	p := t.tick.Load()
	return max(p.floor, p.at(now))
}

// tickPoint ties the cluster tick to the local monotonic clock.
type tickPoint struct {
	base  int64
	mono  time.Duration
	floor int64 // a follower's own reported tick that was ahead of its leader's: it reports that until the leader has come to it
}

func (p *tickPoint) at(now time.Duration) int64 { return p.base + int64((now-p.mono)/time.Millisecond) }

// heard takes in the newest stamp of the entries that were applied at now. live: the leader of now has stamped it, and is another member.
// Its clock is then the reference, even if ours is ahead because it runs faster or began earlier. Otherwise the tick would jump by the
// difference when this member leads. A stamp of an earlier leader may be applied long after it was made, and does not turn the tick back
// (but see leads). own: this member leads, and has stamped it. Loop only.
func (t *ticking) heard(stampMs int64, now time.Duration, live, own bool) {
	// An entry stamped by the previous leader and committed by the current one does not set the tick. Our own clock has advanced since the
	// last heard stamp, and may be ahead of that one.
	t.heardMs, t.agreed = stampMs, live || own
	p := t.tick.Load()
	switch at := p.at(now); {
	case stampMs > at:
		t.tick.Store(&tickPoint{base: stampMs, mono: now, floor: p.floor})
	case live && stampMs < at:
		t.tick.Store(&tickPoint{base: stampMs, mono: now, floor: max(p.floor, at)})
	}
}

// leads prepares stamping in a new term, when all stamps of earlier leaders are applied. It returns how long no member has counted the
// time, in milliseconds. How long ago the newest stamp was made is known by the wall clock alone here. If it is wrong, the tick stands
// still for a while, or timers that use the returned time fire early. Leases never end early by it. Loop only.
func (t *ticking) leads(now time.Duration, wallNs int64) (uncountedMs int64) {
	p := t.tick.Load()
	at, ago := p.at(now), max(0, wallNs-t.lastWall)/1e6
	counted := t.counted
	t.counted = true
	switch {
	case t.lastWall == 0: // nothing was ever stamped
	case !counted:
		// No member has led since this process began, and its tick began at the last stamp: time stood still. It stays so for leases, whose
		// holders could not renew them (DECISIONS A10).
		uncountedMs = max(0, ago-(at-t.heardMs))
	case !t.agreed && at > t.heardMs+ago:
		// The previous leader lagged behind us: it had just been started, and led too shortly for us to hear it. Deadlines by its stamps
		// must not pass by our tick before their time.
		t.tick.Store(&tickPoint{base: t.heardMs + ago, mono: now})
		return 0
	}
	if p.floor != 0 { // a leader reports its stamps
		t.tick.Store(&tickPoint{base: p.base, mono: p.mono})
	}
	return uncountedMs
}

// stamp is the header of the leader's next entry. Loop only.
func (n *Node) stamp() entry.Header {
	wall := max(n.clock.Wall().UnixNano(), n.lastWall)
	n.lastWall = wall
	idx, hash := n.applier.Hash()
	return entry.Header{WallNs: wall, TickMs: n.Tick(), HashIndex: idx, Hash: hash}
}

// tellUncounted makes machines add the time during which no member counted. It is the first command stamped in a term, so timers that begin
// in the term do not lose by it. Only a sole voter knows that no member ran. Otherwise another may have run all the time, and a member
// whose wall clock is wrong would be believed against it. Loop only.
func (n *Node) tellUncounted(ms int64) {
	if ms == 0 || !n.soleVoter {
		return
	}
	var parts []entry.Part
	for _, m := range n.cfg.Machines {
		spec := m.Spec()
		if spec.Uncounted == nil {
			continue
		}
		part := entry.Part{Machine: spec.ID, Body: spec.Uncounted(ms)}
		if n.applier.PartLevel(&part) <= n.members.Level() {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return
	}
	buf := entry.AppendHeader(nil, n.stamp())
	buf = entry.AppendPacked(buf, entry.AppendCommand(nil, &entry.Command{Origin: n.origin, Seq: n.nextSeq, Term: n.termLed, Parts: parts}))
	n.nextSeq++
	if err := n.rep.Propose(buf); err != nil {
		n.log.Warn("time in which no member ran is not counted: what is due in it comes later", "ms", ms, "err", err)
	}
}

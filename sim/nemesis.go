package sim

import (
	"time"

	"github.com/holdfastdb/holdfast/entry"
	em "github.com/holdfastdb/holdfast/entry/member"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/replica"
)

// Fault is a kind of trouble.
type Fault string

// The faults. A run allows a part of them, so that rare combinations also come up undisturbed by the rest.
const (
	Kill      Fault = "kill"      // the process ends; what it wrote to its files is still there
	PowerLoss Fault = "powerloss" // the machine loses power: unsynced writes are lost, whole or by sectors
	TornWrite Fault = "torn"      // power goes in the middle of a disk operation
	BadDisk   Fault = "baddisk"   // syncs or writes fail for a while
	Blackout  Fault = "blackout"  // all machines lose power at once
	Partition Fault = "partition" // the hosts fall into two groups
	OneWay    Fault = "oneway"    // nothing passes from one host to another, everything the other way
	Isolate   Fault = "isolate"   // the leader is cut off
	Pause     Fault = "pause"     // a process is not scheduled, the leader's most often
	SlowDisk  Fault = "slowdisk"
	SlowNet   Fault = "slownet"
	Break     Fault = "break" // connections break and lose what is in flight
	WallJump  Fault = "walljump"
	ClockRate Fault = "clockrate"
	Flush     Fault = "flush" // a store makes its state durable (no fault, but its moment matters)
	Transfer  Fault = "transfer"
	Members   Fault = "members"  // members are added as learners, promoted, removed
	SmallLog  Fault = "smalllog" // little log is kept, so that members that were away need a snapshot
	Compact   Fault = "compact"
)

// AllFaults are all kinds.
var AllFaults = []Fault{Kill, PowerLoss, TornWrite, BadDisk, Blackout, Partition, OneWay, Isolate, Pause, SlowDisk, SlowNet, Break, WallJump,
	ClockRate, Flush, Transfer, Members, SmallLog, Compact}

// nemesis makes the trouble.
type nemesis struct {
	w       *World
	allowed []Fault
	mean    time.Duration // between two faults
	logTail int64
	segment int64
	over    bool
	joining *host // added, or being added, and not started yet
	changed time.Duration
}

func (n *nemesis) init(w *World) {
	n.w = w
	w.net.init(w)
	r := w.rFault
	n.allowed = w.opt.Faults
	if n.allowed == nil {
		share := 0.3 + 0.7*r.Float64()
		for _, f := range AllFaults {
			if r.Float64() < share {
				n.allowed = append(n.allowed, f)
			}
		}
	}
	n.mean = between(r, 200*time.Millisecond, 1200*time.Millisecond)
	n.logTail, n.segment = 64<<20, 16<<10
	if n.has(SmallLog) {
		n.logTail, n.segment = 2<<10, 4<<10
	}
}

func (n *nemesis) has(f Fault) bool {
	for _, a := range n.allowed {
		if a == f {
			return true
		}
	}
	return false
}

// step does one thing and plans the next.
func (n *nemesis) step() {
	if n.over {
		return
	}
	n.w.after(around(n.w.rFault, n.mean), n.step)
	n.startJoined()
	if len(n.allowed) > 0 {
		n.w.rep.FaultCount++
		n.do(n.allowed[n.w.rFault.IntN(len(n.allowed))])
	}
}

func (n *nemesis) running() []*host {
	var out []*host
	for _, h := range n.w.hosts {
		if h.n != nil {
			out = append(out, h)
		}
	}
	return out
}

// leader is the running host that leads in the highest term.
func (w *World) leader() *host {
	var best *host
	for _, h := range w.hosts {
		if h.n == nil {
			continue
		}
		if s := h.n.Status(); s.Leader == h.id && (best == nil || s.Term > best.n.Status().Term) {
			best = h
		}
	}
	return best
}

func (n *nemesis) do(f Fault) {
	w, r := n.w, n.w.rFault
	up := n.running()
	if len(up) == 0 {
		return
	}
	h := up[r.IntN(len(up))]
	lead := w.leader()
	if lead == nil {
		lead = h
	}
	short := func() time.Duration { return between(r, 100*time.Millisecond, 3500*time.Millisecond) }
	switch f {
	case Kill:
		if r.IntN(2) == 0 {
			h = lead
		}
		h.crash(false)
	case PowerLoss:
		if r.IntN(2) == 0 {
			h = lead
		}
		h.crash(true)
	case TornWrite:
		if h.dying {
			return
		}
		h.dying = true
		h.disk.PowerOffAfter(r.IntN(6))
		gen := h.gen
		w.after(between(r, 200*time.Millisecond, 2*time.Second), func() {
			if h.gen == gen {
				h.crash(true)
			}
		})
	case BadDisk:
		h.breakDisk(r)
	case Blackout:
		for _, h := range up {
			h.crash(true)
		}
	case Partition:
		side := make([]bool, len(w.hosts))
		for i := range side {
			side[i] = r.IntN(2) == 0
		}
		d := short()
		for _, a := range w.hosts {
			for _, b := range w.hosts {
				if side[a.at] != side[b.at] {
					n.cutFor(a, b, d)
				}
			}
		}
	case OneWay:
		o := w.hosts[r.IntN(len(w.hosts))]
		if o != h {
			n.cutFor(h, o, short())
		}
	case Isolate:
		d := short()
		both := r.IntN(3)
		for _, o := range w.hosts {
			if o == lead {
				continue
			}
			if both != 1 {
				n.cutFor(lead, o, d)
			}
			if both != 2 {
				n.cutFor(o, lead, d)
			}
		}
	case Pause:
		if r.IntN(3) > 0 {
			h = lead
		}
		h.pause(between(r, 50*time.Millisecond, 5*time.Second))
	case SlowDisk:
		was := h.fsync
		h.fsync = between(r, 5*time.Millisecond, 200*time.Millisecond)
		w.trace.add(w.now, "%s slow disk %v", h.name, h.fsync)
		w.after(short(), func() { h.fsync = was })
	case SlowNet:
		w.net.slow = between(r, time.Millisecond, 100*time.Millisecond)
		w.trace.add(w.now, "slow network %v", w.net.slow)
		w.after(short(), func() { w.net.slow = 0 })
	case Break:
		for _, l := range w.net.links {
			if (l.from == h || l.to == h) && r.IntN(2) == 0 {
				l.drop("broken")
			}
		}
	case WallJump:
		d := between(r, -2*time.Hour, 2*time.Hour)
		h.clock.Jump(d)
		w.trace.add(w.now, "%s wall clock jumps %v", h.name, d)
	case ClockRate:
		h.syncClock()
		h.rate = minRate + (maxRate-minRate)*r.Float64()
		w.trace.add(w.now, "%s clock rate %.3f", h.name, h.rate)
	case Flush:
		if h.paused {
			return
		}
		if err := h.mem.Flush(); err != nil {
			w.fail(Stopped, "%s flush: %v", h.name, err)
		}
		w.trace.add(w.now, "%s flushes", h.name)
	case Transfer:
		lead.n.TransferAsync(h.id)
		lead.pumpSoon()
		w.trace.add(w.now, "%s → %s transfer asked for", lead.name, h.name)
	case Members:
		n.changeMembers(lead)
	case SmallLog:
		for _, h := range up { // what is truncated must be durable in the store first
			if !h.paused {
				_ = h.mem.Flush()
			}
		}
	case Compact:
		w.compact(h)
	}
}

// Clocks drift by at most this.
const minRate, maxRate = 0.9, 1.1

func (n *nemesis) cutFor(from, to *host, d time.Duration) {
	if n.w.net.isCut(from, to) {
		return
	}
	n.w.net.setCut(from, to, true)
	n.w.after(d, func() { n.w.net.setCut(from, to, false) })
}

// changeMembers adds a member or removes one, one change at a time, down to a single voter and up to one more than at first.
func (n *nemesis) changeMembers(lead *host) {
	w, r := n.w, n.w.rFault
	if lead.n == nil || n.joining != nil || w.now < n.changed {
		return
	}
	n.changed = w.now + between(r, time.Second, 3*time.Second)
	members := lead.n.Members()
	if len(members) == 0 {
		return // it has just joined and knows nobody
	}
	voters := 0
	for _, m := range members {
		if !m.Learner {
			voters++
		}
	}
	if voters == 1 || len(members) <= w.opt.Nodes && r.IntN(2) == 0 {
		h := w.newHost()
		n.joining = h
		m := em.Member{ID: h.id, Name: h.name, PeerURLs: []string{"http://" + h.name + ":1"}, Nonce: h.id, Learner: true, AutoPromote: true}
		w.trace.add(w.now, "%s add learner %s", lead.name, h.name)
		n.change(lead, replica.AddLearner, h.id, &em.Part{Add: &em.Add{Member: m}}, func() {})
		return
	}
	m := members[r.IntN(len(members))]
	if m.ID == lead.id { // a leader does not remove itself, see node
		for _, o := range members {
			if o.ID != lead.id && !o.Learner {
				lead.n.TransferAsync(o.ID)
				lead.pumpSoon()
				break
			}
		}
		return
	}
	w.trace.add(w.now, "%s remove %s", lead.name, w.byID[m.ID].name)
	gone, off := w.byID[m.ID], r.IntN(2) == 0
	n.change(lead, replica.Remove, m.ID, &em.Part{Remove: &em.Remove{ID: m.ID}}, func() {
		if off { // whoever removed it takes the machine away: nothing may depend on it any more
			w.after(time.Millisecond, gone.retire)
			if n.has(PowerLoss) && r.IntN(2) == 0 {
				w.after(2*time.Millisecond, func() { lead.crash(true) })
			}
		}
	})
}

// change proposes one change; done is called when it has been acknowledged.
func (n *nemesis) change(lead *host, kind replica.ChangeKind, id uint64, part *em.Part, done func()) {
	_ = lead.n.ChangeAsync(kind, id, part, func(res *entry.Result, err error) {
		if err == nil && res.Rejection == nil {
			done()
		}
	})
	lead.pumpSoon()
}

// startJoined starts the host that was to be added once some member knows it; the answer to the change may be lost.
func (n *nemesis) startJoined() {
	j := n.joining
	if j == nil {
		return
	}
	for _, h := range n.running() {
		peers := map[uint64]string{}
		found := false
		for _, m := range h.n.Members() {
			if m.ID == j.id {
				found = true
			} else {
				peers[m.ID] = node.HostPort(m.PeerURLs[0])
			}
		}
		if found {
			n.joining = nil
			j.initialise(nil, peers)
			j.start()
			return
		}
	}
	if n.w.now > n.changed+2*time.Second {
		n.joining = nil // it was not added; should it be yet, it counts as a member that never came
		j.removed = true
	}
}

// heal ends all trouble for good.
func (n *nemesis) heal() {
	w := n.w
	n.over = true
	w.trace.add(w.now, "healed")
	w.net.slow = 0
	for _, a := range w.hosts {
		a.syncClock()
		a.fsync = time.Millisecond
		a.repair() // a disk that went bad just before would take its node with it, and the last question put to it
		for _, b := range w.hosts {
			w.net.setCut(a, b, false)
		}
		if a.paused && a.n != nil {
			a.wake()
		}
		if a.dying && a.n != nil {
			a.crash(true)
		}
	}
	n.startJoined()
}

package sim

import (
	"time"

	"github.com/holdfastdb/holdfast/doors/kv/compact"
)

// Fault is a kind of trouble.
type Fault string

// The faults. A run allows a part of them, so that rare combinations also come up undisturbed by the rest.
const (
	Kill      Fault = "kill"      // the process ends; its written files are still there
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
	LoseDir   Fault = "losedir" // a machine comes back without its data directory
	Stall     Fault = "stall"   // the loop of a process is overtaken by the rest of it, now and then for long
	Moments   Fault = "moments" // power goes just after a vote was given, a snapshot installed, an election won
	Away      Fault = "away"    // a host is cut off until the others have truncated the log
)

// AllFaults are all kinds.
var AllFaults = []Fault{Kill, PowerLoss, TornWrite, BadDisk, Blackout, Partition, OneWay, Isolate, Pause, SlowDisk, SlowNet, Break, WallJump,
	ClockRate, Flush, Transfer, Members, SmallLog, Compact, LoseDir, Stall, Moments, Away}

// Clocks drift by at most this.
const minRate, MaxRate = 0.9, 1.1

// nemesis makes the faults happen.
type nemesis struct {
	w       *World
	allowed []Fault
	mean    time.Duration // between two faults
	over    bool

	logTail, segment int64
	truncate         time.Duration
	policy           compact.Policy // of the worker that forgets old revisions
	stalls           int            // the loop is overtaken once in so many turns that apply something; 0: never
	moments          int            // power goes once in so many moments; 0: never
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
	n.mean = Between(r, 200*time.Millisecond, 1200*time.Millisecond)
	n.logTail, n.segment = 64<<20, 16<<10
	if n.has(SmallLog) || n.has(Away) {
		n.logTail, n.segment, n.truncate = 2<<10, 4<<10, 500*time.Millisecond
	}
	if n.has(Stall) {
		n.stalls = []int{3, 20, 200}[r.IntN(3)]
	}
	if n.has(Moments) {
		n.moments = []int{2, 5, 20}[r.IntN(3)]
	}
	if n.has(Compact) && r.IntN(2) == 0 {
		n.policy.Period = Between(r, time.Second, 5*time.Second)
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

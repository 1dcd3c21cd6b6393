// Package sim runs a whole Holdfast cluster in one goroutine from one seed. Real nodes (package node and everything below it) run over a
// network, disks and clocks that fail as the seed says. Clients' histories are checked afterwards. The same seed gives the same run to the
// last message, so a failure is replayed by its number.
//
// These parts are real: raft, the log and its recovery, snapshots, forwarding, the machines, and the doors' calls Propose, Linearize and
// Call. So are the beginning of a cluster, and adding, joining, promoting and removing members. So are the workers that end leases and v2
// nodes, drop old revisions and ship the log to an object store, and restore and verify. Work beside the loop runs as tasks that take turns
// (tasks.go), and the loop itself can be overtaken in the middle. These parts are not real: TCP, the disk, time, the object store, and the
// doors, which have tests of their own with real processes. Clients' histories must have an order (history.go). Watches, leases, v2 nodes
// and users must keep their promises (check.go, lease.go, nodes.go, users.go). The log read back must give the same states again (ship.go).
// The archive must have at every moment exactly its claimed content (archive.go, restored.go). Of the members, no vote is taken back, a
// term has one leader, states are equal and time does not go back (promises.go).
//
// Other doors take part by Register. It is never part of a server.
package sim

import (
	"container/heap"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
)

// Options of one run. Fields that are zero are drawn from the seed.
type Options struct {
	Seed uint64
	// Nodes the cluster starts with.
	Nodes int
	// Chaos is when faults end, in simulated time.
	Chaos time.Duration
	// Calm is when they may begin: a cluster that raises its level needs some seconds without them.
	Calm time.Duration
	// Faults are the kinds that may happen; nil: a part of all kinds.
	Faults []Fault
	// Users: users and roles are changed, and writes need permissions while authentication is on.
	Users bool
	// Learners is how many are added at the beginning and never promoted; below zero: none.
	Learners int
	// Quiet: no client uses the kv machine, so that a defect has to show elsewhere.
	Quiet bool
	// Doors: doors that this package does not know (Register) take part, although faults are chosen.
	Doors bool
	// Ship: the log is read as it grows, and applied once more in the end.
	Ship bool
	// Archive: the log is shipped to an object store that fails, and read back.
	Archive bool
	// Break builds the nodes with a deliberate defect.
	Break node.Break
	// Defect builds another door with a deliberate defect. The door knows its name; "": it has none.
	Defect string
	// Outside checks only what clients are told, not what the members themselves show.
	Outside bool
	// TraceAll keeps every line of the trace instead of the last ones.
	TraceAll bool
}

// Report is the outcome of a run: the violation, and figures that show that the run did something. It is one list because nothing is done
// with them but printing.
type Report struct {
	Seed  uint64
	Nodes int
	// Failure is the violation, nil if there was none.
	Failure *Violation
	// Trace is the end of the trace, or all of it; TraceHash is of every line.
	Trace     []string
	TraceHash uint64
	// The events of a run, for people: answered operations, operations with an unknown outcome, and leader changes. Then log entries
	// applied by the furthest member, snapshots installed, the last kv revision.
	Answered, Unknown, Leaders, Snapshots int
	Applied                               uint64
	Revision                              int64
	Faults                                []Fault // the kinds allowed in this run
	// Accepted changes of users and roles, tokens left at the end, writes under authentication, and writes judged anew because the
	// catalogue had changed.
	Changes, Tokens, Passes, Outdated int
	Crashes, FaultCount               int
	// More are figures of other doors (World.Count).
	More map[string]int
	// Members that were added, promoted and removed through the API; data directories that were lost. Renewals of leases and
	// v2 nodes that ran out; states that were compared.
	Joined, Promoted, Removed, Lost int
	// Entries that were read from the log, states that a replay of them came to, and changed bytes that one has named.
	Entries, Replayed, Spoiled int
	// Answers held until the archive had them, and those whose client gave up first. Objects of entries and of snapshots that were put,
	// objects removed, halves left by the store, and puts that met another shipper's. Restores and states of the archive that were
	// compared, notes of verify, and archived entries that no member has shown.
	Held, Unheld, Spans, Kept, Pruned, Halves, Restored, Verified, Findings, Unjudged, Met int
	Renewed, Expired, Compared                                                             int
	Simulated                                                                              time.Duration
}

// Violation is a broken promise.
type Violation struct {
	// Kind is one of the constants below.
	Kind string
	Text string
}

func (v *Violation) Error() string { return v.Kind + ": " + v.Text }

// The promises a run checks.
const (
	Linearizability = "not linearizable" // the clients' history has no order that explains it
	Undecided       = "undecided"        // whether it is linearizable was not found out in time
	LostWrite       = "lost write"       // an acknowledged write is not in the final history
	Revisions       = "revisions"        // a revision went back, or two members give one revision different events
	LeaseLost       = "lease lost"       // a lease was revoked although an acknowledged renewal had not run out
	Diverged        = "diverged"         // two members have different states after the same entry
	Stopped         = "node stopped"     // a node refused to go on or to start, and no fault of the disk was the reason
	LetThrough      = "let through"      // a write under a permission that had been taken back before
	HalfCommand     = "half a command"   // a member shows a part of a command, and another part of it not
	Stuck           = "stuck"            // the cluster did not recover after the last fault was healed
	VoteTaken       = "vote taken back"  // a member forgot or changed a vote that others know of
	TwoLeaders      = "two leaders"      // of one term
	TimeBack        = "time goes back"   // the stamp of an entry is below one before it
	NodeLost        = "node lost"        // a v2 node went before its time
	Membership      = "membership"       // a member at rest has another idea of its own role than the others have
	WrongOutcome    = "wrong outcome"    // a client was told something that cannot be
	LogGone         = "log gone"         // a member truncated log that it was to keep
	NotArchived     = "not archived"     // something told to be archived cannot be had from the archive
	BadArchive      = "bad archive"      // it has uncommitted entries, or does not hold together
)

// World is one run.
type World struct {
	opt   Options
	now   time.Duration
	queue eventQueue
	seq   uint64
	trace trace

	// Separate streams, so that a change in one place does not shuffle everything else.
	rFault, rNet, rDisk, rClient, rGone *rand.Rand

	hosts   []*host // every host there ever was; index = host.at
	byID    map[uint64]*host
	net     network
	nemesis nemesis
	clients []*client
	history history
	feed    feedCheck
	states  states
	leaders map[uint64]*host // by term
	leases  leaseBook
	nodes   nodeBook
	members membership
	users   userBook
	ship    shipBook
	archive archiveBook
	applied uint64 // the highest index that any member has applied
	running *tasks // the running task; nil: none
	// parts are what other doors bring to this run; workloads are the books above, and theirs.
	parts     []*Part
	workloads []Workload
	rep       Report
}

// Run carries out one run. It replaces crypto/rand.Reader while it runs (raft draws its election timeouts there), so a
// process does one run at a time.
func Run(opt Options) *Report { return play(opt, (*World).run) }

// play runs a plan in a new world.
func play(opt Options, plan func(*World)) *Report {
	w := &World{opt: opt, byID: map[uint64]*host{}, leaders: map[uint64]*host{},
		states: states{at: map[uint64]stateSeen{}, by: map[uint64]*host{}}}
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(opt.Seed, n)) }
	w.rFault, w.rNet, w.rDisk, w.rClient, w.rGone = stream(1), stream(2), stream(3), stream(4), stream(21)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], opt.Seed)
	was := crand.Reader
	crand.Reader = &seededReader{rand.NewChaCha8(key)}
	defer func() { crand.Reader = was }()

	for _, p := range plugs {
		if part := p(&w.opt); part != nil {
			w.parts = append(w.parts, part)
		}
	}
	w.trace.all = opt.TraceAll
	w.rep.Seed = opt.Seed
	func() {
		defer func() {
			if r := recover(); r != nil {
				v, ok := r.(*Violation)
				if !ok {
					v = &Violation{Stopped, fmt.Sprintf("panic: %v\n%s", r, debug.Stack())}
				}
				w.rep.Failure = v
			}
		}()
		plan(w)
	}()
	w.rep.Trace, w.rep.TraceHash = w.trace.lines(), w.trace.sum.Sum64()
	w.rep.Simulated = w.now
	for _, h := range w.hosts {
		h.shut()
	}
	return &w.rep
}

type seededReader struct{ r io.Reader }

func (s *seededReader) Read(p []byte) (int, error) { return s.r.Read(p) }

// fail ends the run.
func (w *World) fail(kind, format string, a ...any) {
	panic(&Violation{kind, fmt.Sprintf(format, a...)})
}

// run is the plan of every run. A cluster comes up, works under faults, is healed, and must then come to rest in one state that explains
// every answer given before.
func (w *World) run() {
	w.begin()
	w.after(w.opt.Calm+Between(w.rFault, 0, 2*time.Second), w.nemesis.step)
	w.runUntil(w.opt.Chaos, func() bool { return false })
	w.finish()
}

// begin starts a cluster and its clients.
func (w *World) begin() {
	r := w.rFault
	if w.opt.Nodes == 0 {
		w.opt.Nodes = []int{1, 1, 2, 3, 3, 3, 3, 5}[r.IntN(8)]
	}
	if w.opt.Chaos == 0 {
		w.opt.Chaos = Between(r, 8*time.Second, 30*time.Second)
	}
	w.rep.Nodes = w.opt.Nodes
	w.nemesis.init(w)
	w.archive.init(w)
	w.rep.Faults = w.nemesis.allowed
	peers := map[string]string{}
	for range w.opt.Nodes {
		h := w.newHost()
		peers[h.name] = h.addr()
	}
	w.trace.add(w.now, "seed %d: %d nodes, faults %v", w.opt.Seed, w.opt.Nodes, w.nemesis.allowed)
	for _, h := range w.hosts {
		if len(peers) > 1 {
			h.role.peers = peers
		}
		w.after(Between(r, 0, 300*time.Millisecond), h.start)
	}
	w.members.start(w)
	w.startClients()
	w.workloads = []Workload{&w.leases, &w.nodes, &w.users, &w.ship, &w.archive}
	for _, p := range w.parts {
		w.workloads = append(w.workloads, p.Workload)
	}
	for _, wl := range w.workloads {
		wl.Begin(w)
	}
}

// finish heals all faults, waits until the cluster is at rest, and runs the checks.
func (w *World) finish() {
	w.nemesis.heal()
	w.stopClients()
	for _, wl := range w.workloads {
		wl.End()
	}
	w.settle()
	w.checkAll()
}

// event is something that happens at a moment; equal moments happen in the order in which they were planned.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return x
}

// after plans do for d from now.
func (w *World) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.seq, do})
}

// runUntil lets time pass up to the given moment, or until done is true after an event.
func (w *World) runUntil(end time.Duration, done func() bool) bool {
	for len(w.queue) > 0 && w.queue[0].at <= end {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
		if done() {
			return true
		}
	}
	w.now = max(w.now, end)
	return false
}

// Between draws a duration from [lo, hi).
func Between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)))
}

// Around draws a duration with the given mean, exponentially distributed: mostly short, sometimes long.
func Around(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(r.ExpFloat64() * float64(mean))
}

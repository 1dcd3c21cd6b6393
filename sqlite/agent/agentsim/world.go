// Package agentsim runs whole agents (package sqlite/agent) in one goroutine, from a seed. It has machines with a model of SQLite's files,
// and programs that write to them. It has a store whose requests are held, reordered, lost and answered late, kills, power cuts and copies
// of disks. A ledger has every commit, and judges each acknowledgement, upload and restore.
//
// The agents are the real ones, with everything down to package capture. The files below that are a model, and so is SQLite. It finds
// faults of order and of decision, not of system calls: those are package conformance's.
package agentsim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sort"
	"time"
)

// Options say what a run is. The zero value of a field is the run's own choice.
type Options struct {
	Seed uint64
	// All keeps every line of the trace and not the last few hundred.
	All bool
	// Busy is for how long programs write and faults come, in the world's time.
	Busy time.Duration
}

// Failure is a rule that did not hold.
type Failure struct {
	Rule string // a constant of check.go
	Text string
}

func (f *Failure) Error() string { return f.Rule + ": " + f.Text }

// Report is the events of a run.
type Report struct {
	Seed    uint64
	Failure *Failure
	Trace   []string
	Hash    uint64 // of the whole trace

	Simulated                                              time.Duration
	Commits, Acked, Groups, Fences, Levels, Removed        int
	Takeovers, Kills, PowerCuts, Stops, Copies, Restores   int
	Checkpoints, Restarts, Exclusive, Requests, Lost, Held int
	Judged                                                 int
}

// world is a run.
type world struct {
	rng     *rand.Rand
	opt     Options
	now     time.Duration
	queue   events
	order   uint64
	current *routine // that runs
	trace   trace
	rep     Report
	failure *Failure

	machines []*machine
	bucket   *bucket
	ledger   *ledger
	busy     bool // programs write and faults come
	numbers  uint64
	cfg      settings
	upsets   []time.Duration // when a request had a fate of its own, or a process was paused
}

// upset reports whether a request failed or was late between two moments.
func (w *world) upset(from, to time.Duration) bool {
	i := sort.Search(len(w.upsets), func(i int) bool { return w.upsets[i] >= from })
	return i < len(w.upsets) && w.upsets[i] <= to
}

// begin is the world's first moment. Nothing depends on the machine's own time.
var begin = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}

// after plans do.
func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.order, do})
}

// runUntil lets everything happen up to a moment, or until something has failed.
func (w *world) runUntil(end time.Duration) {
	for w.failure == nil {
		w.settle()
		if w.failure != nil || len(w.queue) == 0 || w.queue[0].at > end {
			break
		}
		e := heap.Pop(&w.queue).(event)
		w.now = max(w.now, e.at)
		e.do()
	}
	w.now = max(w.now, end)
}

// settle lets every routine run that can, one after the other in the order that the seed says, until none can.
func (w *world) settle() {
	var ready []*routine
	for w.failure == nil {
		ready = ready[:0]
		for _, m := range w.machines {
			if m.agent == nil || m.pausedUntil > w.now {
				continue
			}
			for _, r := range m.agent.routines {
				if r.ready() {
					ready = append(ready, r)
				}
			}
		}
		if len(ready) == 0 {
			return
		}
		ready[w.rng.IntN(len(ready))].run()
	}
}

func (w *world) fail(rule, format string, args ...any) {
	if w.failure == nil {
		w.failure = &Failure{rule, fmt.Sprintf(format, args...)}
		w.note("FAILURE %v", w.failure)
	}
}

func (w *world) note(format string, args ...any) { w.trace.add(w.now, format, args...) }

func (w *world) wall() time.Time { return begin.Add(w.now) }

// between is a duration in [a, b).
func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rng.Int64N(int64(max(b-a, 1))))
}

// chance is true in n of m cases.
func (w *world) chance(n, m int) bool { return w.rng.IntN(m) < n }

// number is one that was never given before.
func (w *world) number() uint64 {
	w.numbers++
	return w.numbers
}

// Run is one run. It calls nothing that depends on anything but the options.
func Run(opt Options) (rep *Report) {
	w := &world{rng: rand.New(rand.NewPCG(opt.Seed, 31)), opt: opt}
	w.trace.all = opt.All
	w.rep.Seed = opt.Seed
	w.bucket = newBucket(w)
	w.ledger = newLedger(w)
	defer func() {
		if r := recover(); r != nil {
			w.fail(Panic, "%v\n%s", r, debug.Stack())
		}
		for _, m := range w.machines {
			m.end()
		}
		w.rep.Failure, w.rep.Simulated = w.failure, w.now
		w.rep.Trace, w.rep.Hash = w.trace.lines(), w.trace.sum.Sum64()
		rep = &w.rep
	}()
	w.play()
	return nil
}

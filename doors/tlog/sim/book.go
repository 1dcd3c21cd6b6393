// Package sim has transparency logs in simulated runs. A program that imports it has the tlog door in every second run (sim.Register), or
// in runs that ask for it (sim.Options.Doors).
package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/sim"
)

// logsBook is everything about transparency logs in one run. It has the adding clients, the acknowledged entries, every checkpoint that any
// member showed, and the checks of both. The leader signs as doors/tlog/checkpoint does, driven by the loop's turns instead of by a
// goroutine; all members have the keys.
type logsBook struct {
	w    *sim.World
	r    *rand.Rand
	logs [2]*logBook
	// least is the time between two checkpoints of one log.
	least     time.Duration
	processes map[*sim.Member]*process
	done      bool
}

// process is the record of one process of a member.
type process struct {
	number int
	signer *signer // nil: it does not lead
	shown  [2]*tlogmachine.Checkpoint
}

// process returns what is known of a member's present process.
func (b *logsBook) process(h *sim.Member) *process {
	p := b.processes[h]
	if p == nil || p.number != h.Process() {
		p = &process{number: h.Process()}
		b.processes[h] = p
	}
	return p
}

// logBook is what clients know of one log.
type logBook struct {
	spec  tlogpart.LogSpec
	key   *tiles.Signer
	given map[uint64]string // the entry acknowledged at an index
	at    map[string]uint64 // where an acknowledged entry is
	asked map[string]bool   // every entry that an adder ever sent
	out   map[string]bool   // entries that were refused, so that they must not be in the log
	roots map[uint64]rootSeen
	// newest is the largest checkpoint seen anywhere.
	newest *tlogmachine.Checkpoint
}

// rootSeen is a signed root, and the member that showed it first.
type rootSeen struct {
	root tiles.Hash
	by   *sim.Member
}

const (
	adderCount = 3
	// fewTexts is how many different entries are added to the log that deduplicates: so few that most of them are there
	// already.
	fewTexts = 700
)

// begin draws whether a run has logs; nil: it has none. A run with chosen faults has none unless it asks for other doors, so that its seeds go
// on meaning the same.
func begin(opt *sim.Options) *logsBook {
	b := &logsBook{r: rand.New(rand.NewPCG(opt.Seed, 6)), processes: map[*sim.Member]*process{}}
	if !opt.Doors && (opt.Faults != nil || b.r.IntN(2) != 0) {
		return nil
	}
	return b
}

func init() {
	sim.Register(func(opt *sim.Options) *sim.Part {
		b := begin(opt)
		if b == nil {
			return nil
		}
		return &sim.Part{
			Machine:  func() machine.Machine { return tlogmachine.New() },
			Lanes:    []node.LaneSpec{{Number: lane, Name: "tlog"}},
			Workload: b,
		}
	})
}

// lane is where the door's commands wait before the log.
const lane node.Lane = 2

// machineOf is the tlog machine of a member's process.
func machineOf(m *sim.Member) *tlogmachine.Machine {
	return m.Machine(entry.MachineTlog).(*tlogmachine.Machine)
}

// The promises that a run with transparency logs checks.
const (
	LostAdd   = "lost add"   // an acknowledged index does not hold its entry, or was given twice
	SplitView = "split view" // a checkpoint that was seen does not belong to the log there is in the end
)

// The figures of a run (sim.World.Count).
const (
	Added       = "entries added to logs" // that were acknowledged
	Checkpoints = "checkpoints seen"      // different ones
)

// Begin implements sim.Workload.
func (b *logsBook) Begin(w *sim.World) {
	b.w = w
	b.least = sim.Between(b.r, 5*time.Millisecond, 200*time.Millisecond)
	b.logs = [2]*logBook{newLogBook("plain", false), newLogBook("dedup", true)}
	for i := range adderCount {
		a := &adder{b: b, id: i, pause: sim.Between(b.r, 20*time.Millisecond, 250*time.Millisecond)}
		w.After(sim.Between(b.r, 0, 200*time.Millisecond), a.next)
	}
}

// End implements sim.Workload.
func (b *logsBook) End() { b.done = true }

func newLogBook(name string, dedup bool) *logBook {
	key, err := tiles.NewSigner("log.example/"+name, append(make([]byte, 32-len(name)), name...))
	if err != nil {
		panic(err) // name and seed are good ones
	}
	return &logBook{spec: tlogpart.LogSpec{Name: name, Key: *key.Verifier(), Dedup: dedup}, key: key, given: map[uint64]string{}, at: map[string]uint64{},
		asked: map[string]bool{}, out: map[string]bool{}, roots: map[uint64]rootSeen{}}
}

// refuse notes that this command has not added these entries. In the log that deduplicates another command may have added the
// same ones, so nothing is noted.
func (lb *logBook) refuse(texts []string) {
	for _, text := range texts {
		if !lb.spec.Dedup {
			lb.out[text] = true
		}
	}
}

// acknowledge notes the indexes of a batch and checks that none is another entry's, and that no entry has a second one.
func (lb *logBook) acknowledge(w *sim.World, h *sim.Member, texts []string, res *tlogpart.Appended) {
	for i, text := range texts {
		index := res.At(i)
		if was, ok := lb.given[index]; ok && was != text {
			w.Fail(LostAdd, "%s gives index %d of %s to %q; it was given to %q", h.Name(), index, lb.spec.Name, text, was)
		}
		if was, ok := lb.at[text]; ok && was != index {
			w.Fail(LostAdd, "%s says that %q is entry %d of %s; it was entry %d", h.Name(), text, index, lb.spec.Name, was)
		}
		lb.given[index], lb.at[text] = text, index
	}
}

// Turn implements sim.Workload.
func (b *logsBook) Turn(h *sim.Member, changed bool) {
	if changed {
		b.look(h)
	}
	b.sign(h)
}

// look reads each member's newest checkpoints after a turn of its loop, like a client that polls.
func (b *logsBook) look(h *sim.Member) {
	p := b.process(h)
	for i, lb := range b.logs {
		l := machineOf(h).Find(lb.spec.Name)
		if l == nil {
			continue
		}
		c := l.Checkpoint()
		if c == nil || c == p.shown[i] {
			continue
		}
		if was := p.shown[i]; was != nil && c.Size < was.Size {
			b.w.Fail(SplitView, "%s shows a checkpoint of %s of size %d after one of %d", h.Name(), lb.spec.Name, c.Size, was.Size)
		}
		p.shown[i] = c
		b.show(h, lb, l, c)
	}
}

// show compares a checkpoint with those seen before. There must be only one root of its size. The smaller of it and the largest one seen
// must be a prefix of the other, shown by a proof as the door makes it. The end of the run checks that it belongs to the log.
func (b *logsBook) show(h *sim.Member, lb *logBook, l *tlogmachine.Log, c *tlogmachine.Checkpoint) {
	if seen, ok := lb.roots[c.Size]; ok {
		if seen.root != c.Root {
			b.w.Fail(SplitView, "%s shows root %s of %s at size %d, and %s showed %s", h.Name(), c.Root, lb.spec.Name, c.Size, seen.by.Name(), seen.root)
		}
		return
	}
	if opened, _, err := tiles.OpenCheckpoint(c.Note, lb.key.Verifier()); err != nil || opened.Size != c.Size || opened.Root != c.Root {
		b.w.Fail(SplitView, "%s shows a checkpoint of %s at size %d that does not verify: %v", h.Name(), lb.spec.Name, c.Size, err)
	}
	lb.roots[c.Size] = rootSeen{c.Root, h}
	b.w.Count(Checkpoints, 1)
	old := lb.newest
	if old != nil && c.Size < old.Size {
		return // a member that is behind
	}
	lb.newest = c
	if old == nil || old.Size == 0 {
		return
	}
	proof, err := l.Prover(l.View(), c.Size).Consistency(old.Size)
	if err != nil {
		b.w.Fail(sim.Stopped, "%s proves %s from %d to %d: %v", h.Name(), lb.spec.Name, old.Size, c.Size, err)
	}
	if err := tiles.VerifyConsistency(old.Size, c.Size, old.Root, c.Root, proof); err != nil {
		b.w.Fail(SplitView, "%s shows a checkpoint of %s at size %d that does not go on from the one of %d: %v", h.Name(), lb.spec.Name, c.Size,
			old.Size, err)
	}
}

// Settled names the reason why a member's logs are not at rest, "" if they are.
//
// Settled implements sim.Workload.
func (b *logsBook) Settled(h *sim.Member) string {
	for _, lb := range b.logs {
		l := machineOf(h).Find(lb.spec.Name)
		if l == nil {
			return fmt.Sprintf("%s has no log %s", h.Name(), lb.spec.Name)
		}
		if c := l.Checkpoint(); c == nil || c.Size != l.View().Size {
			return fmt.Sprintf("%s has no checkpoint of %s at its size %d", h.Name(), lb.spec.Name, l.View().Size)
		}
	}
	return ""
}

// Check judges the end of a run. Every acknowledged index holds its entry, and every checkpoint ever seen is of this log. Each member's
// tiles follow from its entries, as they would after a restart.
//
// Check implements sim.Workload.
func (b *logsBook) Check(members []*sim.Member) {
	for _, lb := range b.logs {
		first := machineOf(members[0]).Find(lb.spec.Name)
		b.checkEntries(lb, members[0], first)
		for _, h := range members {
			loaded := tlogmachine.New()
			if err := loaded.Load(h.Store(), new(machine.Gate)); err != nil {
				b.w.Fail(sim.Stopped, "%s load trees: %v", h.Name(), err)
			}
			for _, l := range []*tlogmachine.Log{machineOf(h).Find(lb.spec.Name), loaded.Find(lb.spec.Name)} {
				if is, want := l.View(), first.View(); is.Size != want.Size || is.Root != want.Root || string(l.Checkpoint().Note) != string(first.Checkpoint().Note) {
					b.w.Fail(sim.Diverged, "at rest %s has %d entries of %s with root %s and %s has %d with root %s", h.Name(), is.Size, lb.spec.Name, is.Root,
						members[0].Name(), want.Size, want.Root)
				}
				if err := l.Scrub(func(_, _ uint64) error { return nil }); err != nil {
					b.w.Fail(sim.Diverged, "%s: %v", h.Name(), err)
				}
			}
		}
	}
}

// checkEntries reads a whole log.
func (b *logsBook) checkEntries(lb *logBook, h *sim.Member, l *tlogmachine.Log) {
	w, size := b.w, l.View().Size
	var f tiles.Frontier
	roots := map[uint64]tiles.Hash{0: tiles.EmptyRoot()}
	at := map[string]uint64{}
	for f.Size() < size {
		rest, err := l.Bundle(f.Size()/tiles.Width, int(min(size-f.Size(), tiles.Width)))
		for err == nil && len(rest) > 0 {
			var e []byte
			if e, rest, err = tiles.NextEntry(rest); err != nil {
				break
			}
			text, index := string(e), f.Size()
			was, twice := at[text]
			switch want, given := lb.given[index]; {
			case given && want != text:
				w.Fail(LostAdd, "index %d of %s was given to %q and holds %q in the end", index, lb.spec.Name, want, text)
			case twice:
				w.Fail(LostAdd, "%q is entry %d and entry %d of %s", text, was, index, lb.spec.Name)
			case lb.out[text]:
				w.Fail(sim.WrongOutcome, "%q was refused, and is entry %d of %s", text, index, lb.spec.Name)
			case !lb.asked[text]:
				w.Fail(sim.WrongOutcome, "%q, which nobody added, is entry %d of %s", text, index, lb.spec.Name)
			}
			at[text] = index
			var done tiles.Completed
			f.Append(tiles.LeafHash(e), &done)
			roots[f.Size()] = f.Root()
		}
		if err != nil {
			w.Fail(sim.Stopped, "%s read %s after entry %d: %v", h.Name(), lb.spec.Name, f.Size(), err)
		}
	}
	for index, text := range lb.given { // any order: each is judged by itself
		if index >= size {
			w.Fail(LostAdd, "index %d of %s was given to %q; the log ends with %d entries", index, lb.spec.Name, text, size)
		}
	}
	for n, seen := range lb.roots { // any order: each is judged by itself
		if root, ok := roots[n]; !ok || root != seen.root {
			w.Fail(SplitView, "%s showed root %s of %s at size %d; the log of %d entries has %s there", seen.by.Name(), seen.root, lb.spec.Name, n, size, root)
		}
	}
}

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfastdb/holdfast/core/machine"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// treeBook is everything about transparency logs in one run: the clients that add, what was acknowledged, every checkpoint that
// any member ever showed, and the checks of both. The leader signs as doors/tlog/checkpoint does, driven by the loop's turns
// instead of by a goroutine; all members have the keys.
type treeBook struct {
	w    *World
	on   bool
	r    *rand.Rand
	logs [2]*logBook
	// least is the time between two checkpoints of one log.
	least time.Duration
	done  bool
}

// logBook is what clients know of one log.
type logBook struct {
	spec  tlogpart.LogSpec
	key   *tiles.Signer
	given map[uint64]string // what was acknowledged at an index
	at    map[string]uint64 // where an acknowledged entry is
	asked map[string]bool   // every entry that somebody ever wanted to add
	out   map[string]bool   // entries that were refused, so that they must not be in the log
	roots map[uint64]rootSeen
	// newest is the largest checkpoint anybody has seen.
	newest *tlogmachine.Checkpoint
}

// rootSeen is a signed root, and the member that showed it first.
type rootSeen struct {
	root tiles.Hash
	by   *host
}

const (
	adderCount = 3
	// fewTexts is how many different entries are added to the log that deduplicates: so few that most of them are there
	// already.
	fewTexts = 700
)

// Begin implements Workload.
func (b *treeBook) Begin(w *World) {
	*b = treeBook{w: w, r: rand.New(rand.NewPCG(w.opt.Seed, 6))}
	// A run with chosen faults has no logs unless it asks for them, so that its seeds go on meaning the same.
	if b.on = w.opt.Trees || w.opt.Faults == nil && b.r.IntN(2) == 0; !b.on {
		return
	}
	b.least = Between(b.r, 5*time.Millisecond, 200*time.Millisecond)
	b.logs = [2]*logBook{newLogBook("plain", false), newLogBook("dedup", true)}
	for i := range adderCount {
		a := &adder{b: b, id: i, pause: Between(b.r, 20*time.Millisecond, 250*time.Millisecond)}
		w.after(Between(b.r, 0, 200*time.Millisecond), a.next)
	}
}

// End implements Workload.
func (b *treeBook) End() { b.done = true }

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
func (lb *logBook) acknowledge(w *World, h *host, texts []string, res *tlogpart.Appended) {
	for i, text := range texts {
		index := res.At(i)
		if was, ok := lb.given[index]; ok && was != text {
			w.fail(LostAdd, "%s gives index %d of %s to %q; it was given to %q", h.name, index, lb.spec.Name, text, was)
		}
		if was, ok := lb.at[text]; ok && was != index {
			w.fail(LostAdd, "%s says that %q is entry %d of %s; it was entry %d", h.name, text, index, lb.spec.Name, was)
		}
		lb.given[index], lb.at[text] = text, index
	}
}

// Turn implements Workload.
func (b *treeBook) Turn(h *Member, changed bool) {
	if changed {
		b.look(h)
	}
	h.signTurn()
}

// look takes each member's newest checkpoints after a turn of its loop, as somebody who polls it.
func (b *treeBook) look(h *host) {
	if !b.on {
		return
	}
	for i, lb := range b.logs {
		l := h.tree.Find(lb.spec.Name)
		if l == nil {
			continue
		}
		c := l.Checkpoint()
		if c == nil || c == h.shown[i] {
			continue
		}
		if was := h.shown[i]; was != nil && c.Size < was.Size {
			b.w.fail(SplitView, "%s shows a checkpoint of %s of size %d after one of %d", h.name, lb.spec.Name, c.Size, was.Size)
		}
		h.shown[i] = c
		b.show(h, lb, l, c)
	}
}

// show compares a checkpoint with those seen before: there is only one root of its size, and the smaller of it and the largest
// one seen is a prefix of the other, shown by a proof as the door makes it. That it belongs to the log is checked at the end of
// the run.
func (b *treeBook) show(h *host, lb *logBook, l *tlogmachine.Log, c *tlogmachine.Checkpoint) {
	if seen, ok := lb.roots[c.Size]; ok {
		if seen.root != c.Root {
			b.w.fail(SplitView, "%s shows root %s of %s at size %d, and %s showed %s", h.name, c.Root, lb.spec.Name, c.Size, seen.by.name, seen.root)
		}
		return
	}
	if opened, _, err := tiles.OpenCheckpoint(c.Note, lb.key.Verifier()); err != nil || opened.Size != c.Size || opened.Root != c.Root {
		b.w.fail(SplitView, "%s shows a checkpoint of %s at size %d that does not verify: %v", h.name, lb.spec.Name, c.Size, err)
	}
	lb.roots[c.Size] = rootSeen{c.Root, h}
	b.w.rep.Checkpoints++
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
		b.w.fail(Stopped, "%s proves %s from %d to %d: %v", h.name, lb.spec.Name, old.Size, c.Size, err)
	}
	if err := tiles.VerifyConsistency(old.Size, c.Size, old.Root, c.Root, proof); err != nil {
		b.w.fail(SplitView, "%s shows a checkpoint of %s at size %d that does not go on from the one of %d: %v", h.name, lb.spec.Name, c.Size,
			old.Size, err)
	}
}

// unsigned says what keeps a member's logs from being at rest, "" if nothing does.
// Settled implements Workload.
func (b *treeBook) Settled(h *Member) string {
	if !b.on {
		return ""
	}
	for _, lb := range b.logs {
		l := h.tree.Find(lb.spec.Name)
		if l == nil {
			return fmt.Sprintf("%s has no log %s", h.name, lb.spec.Name)
		}
		if c := l.Checkpoint(); c == nil || c.Size != l.View().Size {
			return fmt.Sprintf("%s has no checkpoint of %s at its size %d", h.name, lb.spec.Name, l.View().Size)
		}
	}
	return ""
}

// check judges the end of a run: every acknowledged index holds its entry, every checkpoint ever seen is of this log, and each
// member's tiles follow from its entries, as they would after a restart.
// Check implements Workload.
func (b *treeBook) Check(members []*Member) {
	if !b.on {
		return
	}
	for _, lb := range b.logs {
		first := members[0].tree.Find(lb.spec.Name)
		b.checkEntries(lb, members[0], first)
		for _, h := range members {
			loaded := tlogmachine.New()
			if err := loaded.Load(h.mem, new(machine.Gate)); err != nil {
				b.w.fail(Stopped, "%s load trees: %v", h.name, err)
			}
			for _, l := range []*tlogmachine.Log{h.tree.Find(lb.spec.Name), loaded.Find(lb.spec.Name)} {
				if is, want := l.View(), first.View(); is.Size != want.Size || is.Root != want.Root || string(l.Checkpoint().Note) != string(first.Checkpoint().Note) {
					b.w.fail(Diverged, "at rest %s has %d entries of %s with root %s and %s has %d with root %s", h.name, is.Size, lb.spec.Name, is.Root,
						members[0].name, want.Size, want.Root)
				}
				if err := l.Scrub(func(_, _ uint64) error { return nil }); err != nil {
					b.w.fail(Diverged, "%s: %v", h.name, err)
				}
			}
		}
	}
}

// checkEntries reads a whole log.
func (b *treeBook) checkEntries(lb *logBook, h *host, l *tlogmachine.Log) {
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
				w.fail(LostAdd, "index %d of %s was given to %q and holds %q in the end", index, lb.spec.Name, want, text)
			case twice:
				w.fail(LostAdd, "%q is entry %d and entry %d of %s", text, was, index, lb.spec.Name)
			case lb.out[text]:
				w.fail(WrongOutcome, "%q was refused, and is entry %d of %s", text, index, lb.spec.Name)
			case !lb.asked[text]:
				w.fail(WrongOutcome, "%q, which nobody added, is entry %d of %s", text, index, lb.spec.Name)
			}
			at[text] = index
			var done tiles.Completed
			f.Append(tiles.LeafHash(e), &done)
			roots[f.Size()] = f.Root()
		}
		if err != nil {
			w.fail(Stopped, "%s read %s after entry %d: %v", h.name, lb.spec.Name, f.Size(), err)
		}
	}
	for index, text := range lb.given { // any order: each is judged by itself
		if index >= size {
			w.fail(LostAdd, "index %d of %s was given to %q; the log ends with %d entries", index, lb.spec.Name, text, size)
		}
	}
	for n, seen := range lb.roots { // any order: each is judged by itself
		if root, ok := roots[n]; !ok || root != seen.root {
			w.fail(SplitView, "%s showed root %s of %s at size %d; the log of %d entries has %s there", seen.by.name, seen.root, lb.spec.Name, n, size, root)
		}
	}
}

package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
)

// shipBook stands for a shipper of the log to an archive. It takes each member's committed entries (Node.Committed) and compares them with
// the others' entries. It has each member keep its unread entries (Node.Retain), also over crashes. In the end the log is made into objects
// of the archive (span.go). The entries read from them are applied again without raft (node.Replay), from the first state and from states
// met on the way. The outcome must be the members' state, and a changed byte must be named.
type shipBook struct {
	w  *World
	on bool
	r  *rand.Rand

	lag     time.Duration // how long a member is left alone at most
	first   *savedState
	states  []*savedState // of random members at random moments
	entries []node.Entry  // all that was committed, from index 2 on
	spans   []span        // the same as it lies in an archive
}

// savedState is all rows of a member at one applied index.
type savedState struct {
	content node.Content
	rows    [][2][]byte
}

const shipName = "ship"

// Begin implements Workload.
func (b *shipBook) Begin(w *World) {
	*b = shipBook{w: w, on: w.opt.Ship, r: rand.New(rand.NewPCG(w.opt.Seed, 11))}
	b.lag = []time.Duration{time.Microsecond, 100 * time.Millisecond, 8 * time.Second}[b.r.IntN(3)]
}

// retain names those for whom a member keeps its log from the start on.
func (b *shipBook) retain() []string {
	if b.on {
		return []string{shipName}
	}
	return nil
}

// next is the first index that no member has given yet.
func (b *shipBook) next() uint64 { return uint64(len(b.entries)) + 2 }

// Turn implements Workload.
func (b *shipBook) Turn(h *Member, changed bool) {
	if !b.on {
		return
	}
	if b.first == nil && h.mem.Applied() == 1 {
		b.first = b.save(h)
	}
	if b.w.now >= h.shipAt {
		h.shipAt = b.w.now + Between(b.r, 0, b.lag)
		b.take(h)
	}
	if changed && len(b.states) < 4 && h.mem.Applied() > 1 && b.r.IntN(300) == 0 {
		b.states = append(b.states, b.save(h))
	}
}

// take takes a member's new entries.
func (b *shipBook) take(h *host) {
	h.shipped = max(h.shipped, 2)
	for applied := h.n.Status().Applied; h.shipped <= applied; {
		es, err := h.n.Committed(context.Background(), h.shipped, 1+b.r.IntN(64<<10))
		if errors.Is(err, node.ErrTruncated) {
			if index := h.snapshotIndex(); index >= h.shipped {
				h.shipped = index + 1
				continue
			}
			b.w.fail(LogGone, "%s was to keep its log from entry %d on: %v", h.name, h.shipped, err)
		}
		if err != nil {
			return // the node stops, and is judged for it
		}
		for i := range es {
			if es[i].Index != h.shipped || es[i].Index > applied {
				b.w.fail(Diverged, "%s gives entry %d for entry %d, and has applied %d", h.name, es[i].Index, h.shipped, applied)
			}
			if es[i].Index > b.next() {
				return // it was given a snapshot of entries that others have yet to show
			}
			b.note(h, es[i])
			h.shipped++
		}
	}
	h.n.Retain(shipName, h.shipped)
}

// note stores an entry, or compares it with another member's entry at that index.
func (b *shipBook) note(h *host, e node.Entry) {
	if e.Index == b.next() {
		e.Data = bytes.Clone(e.Data) // it lies in a buffer with others
		b.entries = append(b.entries, e)
		return
	}
	if was := b.entries[e.Index-2]; was.Term != e.Term || was.Type != e.Type || !bytes.Equal(was.Data, e.Data) {
		b.w.fail(Diverged, "%s gives entry %d@%d of %d bytes, another member gave %d@%d of %d bytes", h.name, e.Index, e.Term, len(e.Data),
			was.Index, was.Term, len(was.Data))
	}
}

// snapshotIndex is the index of the snapshot that this machine's store began with, 0 if it began with a first state.
func (h *host) snapshotIndex() uint64 {
	mark, ok, err := h.mem.Get(nil, []byte("\x00install"))
	if err != nil || !ok || len(mark) != 16 {
		return 0
	}
	var index uint64
	for _, c := range mark[:8] {
		index = index<<8 | uint64(c)
	}
	return index
}

// save copies a member's rows.
func (b *shipBook) save(h *host) *savedState {
	v := h.mem.NewView()
	defer v.Close()
	s := &savedState{content: b.w.content(h, v)}
	it, err := v.NewIter(nil, nil)
	if err != nil {
		b.w.fail(Stopped, "%s: %v", h.name, err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.Value()
		if err != nil {
			b.w.fail(Stopped, "%s: %v", h.name, err)
		}
		s.rows = append(s.rows, [2][]byte{bytes.Clone(it.Key()), bytes.Clone(val)})
	}
	return s
}

// content is the content of a member's View.
func (w *World) content(h *host, v store.View) node.Content {
	c, err := node.ContentOf(context.Background(), node.Config{Machines: h.machines()}, v)
	if err != nil {
		w.fail(Stopped, "%s: %v", h.name, err)
	}
	return c
}

// End implements Workload.
func (b *shipBook) End() {}

// Settled implements Workload.
func (b *shipBook) Settled(*Member) string { return "" }

// Check implements Workload.
func (b *shipBook) Check(all []*Member) {
	w := b.w
	if w.opt.Outside {
		return
	}
	v := all[0].mem.NewView()
	defer v.Close()
	last := w.content(all[0], v)
	for _, h := range all[1:] {
		other := h.mem.NewView()
		if c := w.content(h, other); c != last {
			w.fail(Diverged, "at rest the content is %+v on %s and %+v on %s", last, all[0].name, c, h.name)
		}
		other.Close()
	}
	if !b.on {
		return
	}
	for range all { // one may have the entries that another waits for
		for _, h := range all {
			b.take(h)
		}
	}
	switch {
	case b.first == nil:
		w.fail(Stopped, "no member showed its first state")
	case b.next() != last.Index+1 && b.outlived(all):
		return
	case b.next() != last.Index+1:
		w.fail(LogGone, "entries up to %d were given, %d are applied", b.next()-1, last.Index)
	}
	w.rep.Entries = len(b.entries)
	b.shipped()
	hash := w.states.at[last.Index].hash
	b.through(b.first, b.states, last, hash)
	for _, s := range b.states {
		b.through(s, nil, last, hash)
	}
	for range 4 {
		b.spoil(last, hash)
	}
	for range 20 {
		b.spoilSpan()
	}
}

// outlived reports whether all members were given snapshots of the next entries: the members that had applied them have left, with their
// logs.
func (b *shipBook) outlived(all []*Member) bool {
	for _, h := range all {
		if h.snapshotIndex() < b.next() {
			return false
		}
	}
	return true
}

// replay begins one from a state.
func (b *shipBook) replay(from *savedState) (*node.Replay, error) {
	st := store.NewMem()
	in, err := st.Incoming()
	if err != nil {
		return nil, err
	}
	for _, row := range from.rows {
		if string(row[0]) != string(store.AppliedKey) {
			if err := in.Set(row[0], row[1]); err != nil {
				return nil, err
			}
		}
	}
	if err := in.Finish(from.content.Index); err != nil {
		return nil, err
	}
	if err := st.Install(in); err != nil {
		return nil, err
	}
	h := b.w.newHouse()
	return node.NewReplay(node.Config{Machines: h.machines(), Lanes: b.w.lanes()}, st)
}

// through replays to the end, and looks at the state at each of some indexes.
func (b *shipBook) through(from *savedState, at []*savedState, last node.Content, hash uint64) {
	r, err := b.replay(from)
	for _, s := range at {
		if err == nil && s.content.Index > r.Index() {
			if err = r.Apply(b.entries[r.Index()-1 : s.content.Index-1]); err == nil {
				b.same(r, from, s.content)
			}
		}
	}
	if err == nil {
		err = r.Apply(b.entries[r.Index()-1:])
	}
	if err == nil {
		err = r.Compare(hash)
	}
	if err != nil {
		b.w.fail(Diverged, "replay from index %d: %v", from.content.Index, err)
	}
	b.same(r, from, last)
}

func (b *shipBook) same(r *node.Replay, from *savedState, want node.Content) {
	got, err := r.Content(context.Background())
	if err != nil || got != want {
		b.w.fail(Diverged, "replay from index %d gives %+v (%v), the members had %+v", from.content.Index, got, err, want)
	}
	b.w.rep.Replayed++
}

// spoil changes one byte of one entry, and fails the run if that is not named. A changed byte that leaves the state unchanged is harmless,
// and the times of an entry count only once a row has them. Only a checksum names those (spoilSpan).
func (b *shipBook) spoil(last node.Content, hash uint64) {
	w, i := b.w, b.r.IntN(len(b.entries))
	es := append([]node.Entry(nil), b.entries...)
	e := &es[i]
	if len(e.Data) == 0 {
		return
	}
	e.Data = bytes.Clone(e.Data)
	off := b.r.IntN(len(e.Data))
	e.Data[off] ^= byte(1 + b.r.IntN(255))
	what := fmt.Sprintf("byte %d of %d of entry %d was changed", off, len(e.Data), e.Index)

	r, err := b.replay(b.first)
	if err == nil {
		err = r.Apply(es)
	}
	if err == nil {
		err = r.Compare(hash)
	}
	var at *node.EntryError
	early := off < 20 || e.Type != 0 && off < 48 // there are the times, within raft's own form in a membership change
	switch {
	case err == nil:
		if got, err := r.Content(context.Background()); err != nil || got != last && !early {
			w.fail(Diverged, "%s, nobody noticed, and the state is %+v, not %+v (%v)", what, got, last, err)
		}
	case !errors.As(err, &at) || !at.Has(e.Index) && !(early && at.First > e.Index):
		w.fail(Diverged, "%s, and it says %v", what, err)
	default:
		w.rep.Spoiled++
	}
}

package watch

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
)

var (
	runs = flag.Int("watch.runs", 60, "runs of the model test of watches")
	seed = flag.Uint64("watch.seed", 1, "first seed of the model test of watches")
)

// TestAgainstANaiveWatcher lets one goroutine take the steps of a hub, its scan, and the writers and readers of streams. The order is
// random, each while the others stand anywhere. Watchers are of keys, narrow and wide ranges that begin in the past and in the future, some
// with filters. There are cancels, compactions, a ring that holds little, queues and a budget that are soon full. Each gets the events that
// a naive watcher finds in the list of all events, in whole revisions. Progress is told of no unsent event, and nothing is left behind.
func TestAgainstANaiveWatcher(t *testing.T) {
	t.Parallel()
	ways := map[string]int{}
	for n := range uint64(*runs) {
		x := &naive{T: t, seed: *seed + n, r: rand.New(rand.NewPCG(*seed+n, 7)), ways: ways}
		if x.run(); t.Failed() {
			t.Fatalf("seed %d", x.seed)
		}
	}
	for _, way := range []string{"scanned", "compacted", "canceled", "given back", "late", "progress", "tick"} {
		if ways[way] < *runs/5 {
			t.Errorf("%s: %d in %d runs: the test does not come there", way, ways[way], *runs)
		}
	}
}

// naive is a hub and its streams, driven by hand.
type naive struct {
	*testing.T
	seed    uint64
	r       *rand.Rand
	f       *fakeEvents
	h       *Hub
	streams []*naiveStream
	open    []*naiveWatch // neither cancelled nor compacted
	deep    bool          // inside of another step, which reads
	scans   bool          // that step is the scan's
	ways    map[string]int
}

type naiveStream struct {
	*Stream
	x       *naive
	watches map[int64]*naiveWatch
	slow    int  // of how many steps it takes one
	writes  bool // it is at one
}

type naiveWatch struct {
	*Watcher
	st   *naiveStream
	from int64
	sent []kvmachine.Event
	upTo int64
	over bool
}

func (x *naive) run() {
	x.f = newFakeEvents(1 + x.r.IntN(60))
	x.f.rnd, x.f.during = x.r.IntN, x.during
	x.h = NewHub(x.f, int64(1+x.r.IntN(200)))
	x.h.limits = limits{farBehind: 1 + x.r.Int64N(8), tryChanges: 1 + x.r.IntN(8), sparse: 1 + x.r.IntN(8), scanChanges: 1 + x.r.IntN(12)}
	for range 1 + x.r.IntN(3) {
		st := &naiveStream{x: x, watches: map[int64]*naiveWatch{}, slow: 1 + x.r.IntN(6)}
		st.Stream = NewStream(x.h, st)
		x.streams = append(x.streams, st)
	}
	for range 200 + x.r.IntN(400) {
		x.step()
	}
	x.settle()
}

// during is what happens while a step has asked for something and does nothing with it yet.
func (x *naive) during() {
	if x.deep || x.r.IntN(2) > 0 {
		return
	}
	x.deep = true
	for range 1 + x.r.IntN(8) {
		switch st := x.streams[x.r.IntN(len(x.streams))]; x.r.IntN(4) {
		case 0:
			x.put()
		case 1:
			x.h.follow()
		case 2:
			x.write(st)
		default:
			x.step()
		}
	}
	x.deep = false
}

func (x *naive) step() {
	st := x.streams[x.r.IntN(len(x.streams))]
	switch k := x.r.IntN(100); {
	case k < 20:
		for range 1 + x.r.IntN(12) {
			x.put()
		}
	case k < 24:
		if rev, _ := x.f.Revision(); x.r.IntN(3) == 0 {
			x.f.compacted = max(x.f.compacted, x.r.Int64N(rev+1))
		}
	case k < 36:
		x.begin(st)
	case k < 40:
		if len(x.open) > 0 {
			w := x.open[x.r.IntN(len(x.open))]
			x.end(w)
			if !w.st.Cancel(w.id) {
				x.Errorf("watch %d was not there to be cancelled", w.id)
			}
			x.ways["canceled"]++
		}
	case k < 55:
		x.h.follow()
	case k < 70:
		for range 1 + x.r.IntN(12) {
			x.scan()
		}
	case k < 74:
		st.Ask()
	case k < 80:
		_ = st.sendTicks()
	default:
		if x.r.IntN(st.slow) == 0 {
			x.write(st)
		}
	}
}

func (x *naive) put() {
	var keys []string
	for range 1 + x.r.IntN(3) {
		key := fmt.Sprintf("%c%d", 'a'+x.r.IntN(3), x.r.IntN(4))
		if x.r.IntN(5) > 0 {
			key = "z" + key // what few watch
		}
		if x.r.IntN(4) == 0 {
			key = "-" + key
		}
		keys = append(keys, key)
	}
	x.f.put(keys...)
}

func (x *naive) begin(st *naiveStream) {
	current, _ := x.f.Revision()
	ranges := [][2]string{{"a1", ""}, {"b2", ""}, {"za0", ""}, {"a", "b"}, {"a", "b"}, {"b1", "b3"}, {"c3", "c4"}, {"a", "d"}, {"\x00", "\x00"}, {"q", "r"}}
	r := ranges[x.r.IntN(len(ranges))]
	w := &naiveWatch{st: st, from: 1 + x.r.Int64N(current+6)}
	w.Watcher = &Watcher{Key: []byte(r[0]), End: []byte(r[1]), Start: w.from, Progress: x.r.IntN(2) == 0,
		NoPuts: x.r.IntN(8) == 0, NoDeletes: x.r.IntN(8) == 0}
	if err := st.Register(w.Watcher, 0); err != nil {
		x.Fatal(err)
	}
	w.upTo = w.from - 1
	st.watches[w.id], x.open = w, append(x.open, w)
	st.Start(w.Watcher, w.from)
}

func (x *naive) end(w *naiveWatch) {
	w.over = true
	for i := range x.open {
		if x.open[i] == w {
			x.open = append(x.open[:i], x.open[i+1:]...)
			return
		}
	}
}

// scan carries the scan on by a piece and reports whether any watcher takes part.
func (x *naive) scan() bool {
	if x.scans || !x.h.admit() { // there is one
		return false
	}
	x.scans = true
	defer func() { x.scans = false }()
	x.f.asked = x.during
	before := x.h.scan.members
	x.h.scanPiece()
	x.ways["scanned"]++
	if len(x.h.scan.late) > 0 {
		x.ways["late"]++
	}
	if after := x.h.scan.members; after > 0 && after < before {
		x.ways["given back"]++
	}
	return true
}

// write does what a stream's writer does once, and reports whether there was anything to do.
func (x *naive) write(st *naiveStream) bool {
	if st.writes { // it has one goroutine
		return false
	}
	st.writes = true
	defer func() { st.writes = false }()
	w := st.pop()
	if w == nil {
		if err := st.sendProgress(); err != nil {
			x.Error(err)
		}
		return false
	}
	if w.lagging && !w.scanned && len(w.queue) == 0 && !w.gone {
		x.f.asked = x.during // it is going to catch up
	}
	if err := st.serve(context.Background(), w); err != nil {
		x.Errorf("serve: %v", err)
	}
	return true
}

// settle lets everything come to rest and looks at what is left.
func (x *naive) settle() {
	x.deep = true // nothing else happens any more
	for busy, n := true, 0; busy; n++ {
		if n > 100_000 {
			x.Fatal("it does not come to rest")
		}
		moved, _ := x.h.follow()
		busy = moved || x.scan()
		for _, st := range x.streams {
			busy = x.write(st) || busy
		}
	}
	current, _ := x.f.Revision()
	for _, w := range x.open {
		x.compare(w, current)
	}
	joined, pending := 0, x.h.Counts.Pending.Load()
	for _, st := range x.streams {
		ticking := 0
		for _, w := range st.watchers {
			if joined++; w.Progress {
				ticking++
			}
			if w.in != &x.h.live {
				x.Errorf("watch %d of %q is not in the hub at rest", w.id, w.Key)
			}
		}
		if st.ticking != ticking || st.wantsTicks() != (ticking > 0) || st.lagging != 0 {
			x.Errorf("%d watches want progress, counted %d; %d lag", ticking, st.ticking, st.lagging)
		}
	}
	if joined != len(x.open) || x.h.live.members != joined || x.h.Slow() != 0 || len(x.h.scan.come)+len(x.h.scan.late) != 0 {
		x.Errorf("%d watches, %d on streams, %d in the hub", len(x.open), joined, x.h.live.members)
	}
	if x.h.pinned.Load() != 0 || pending != 0 {
		x.Errorf("%d bytes pinned and %d events pending at rest", x.h.pinned.Load(), pending)
	}
	for _, st := range x.streams {
		st.Close()
	}
	if x.h.live.members != 0 || x.h.Counts.Watchers.Load() != 0 {
		x.Errorf("%d watches in the hub after all streams", x.h.live.members)
	}
}

// compare holds what w was sent against all that a naive watcher finds up to a revision.
func (x *naive) compare(w *naiveWatch, upTo int64) {
	var want []kvmachine.Event
	for i := range x.f.events {
		if e := &x.f.events[i]; e.KV.ModRevision >= w.from && e.KV.ModRevision <= upTo && w.matches(e.KV.Key) && w.Wants(e) {
			want = append(want, *e)
		}
	}
	same := len(want) == len(w.sent)
	for i := 0; same && i < len(want); i++ {
		a, b := &want[i], &w.sent[i]
		same = a.Type == b.Type && a.KV.ModRevision == b.KV.ModRevision && bytes.Equal(a.KV.Key, b.KV.Key) && bytes.Equal(a.KV.Value, b.KV.Value)
	}
	if !same {
		x.Errorf("watch %d of [%q, %q) from %d was sent %d events up to %d, want %d", w.id, w.Key, w.End, w.from, len(w.sent), upTo, len(want))
	}
}

// Events implements Sink.
func (st *naiveStream) Events(w *Watcher, batches []*Batch, upTo int64) error {
	x, nw := st.x, st.watches[w.id]
	for _, b := range batches {
		if b.Revision <= nw.upTo {
			x.Errorf("watch %d: revision %d after %d", w.id, b.Revision, nw.upTo)
		}
		for _, e := range b.Events {
			if e.KV.ModRevision <= nw.upTo || e.KV.ModRevision > b.Revision {
				x.Errorf("watch %d from %d: an event of revision %d in %d", w.id, nw.from, e.KV.ModRevision, b.Revision)
			}
			if w.Wants(&e) {
				nw.sent = append(nw.sent, e)
			}
		}
		nw.upTo = b.Revision
	}
	if upTo < nw.upTo {
		x.Errorf("watch %d: up to %d after %d", w.id, upTo, nw.upTo)
	}
	nw.upTo = upTo
	if !nw.over {
		x.compare(nw, upTo)
	}
	return nil
}

// Answer implements Sink.
func (*naiveStream) Ready(context.Context, int64) error { return nil }

func (st *naiveStream) Answer(a *Answer) error {
	x := st.x
	switch {
	case a.Canceled:
		w := st.watches[a.ID]
		if w.over || a.Compact == 0 || a.Compact > x.f.compacted || w.next >= a.Compact {
			x.Errorf("watch %d, which is to go on at %d: %+v, compacted %d", a.ID, w.next, a, x.f.compacted)
		}
		x.compare(w, w.next-1)
		x.end(w)
		x.ways["compacted"]++
	case a.ID == Broadcast:
		for _, w := range x.open {
			if w.st == st {
				x.progress(w, a.Revision)
			}
		}
		x.ways["progress"]++
	default:
		x.progress(st.watches[a.ID], a.Revision)
		x.ways["tick"]++
	}
	return nil
}

// progress is told up to a revision: everything before it must have been sent, and the watch must have begun.
func (x *naive) progress(w *naiveWatch, revision int64) {
	if revision < w.Start {
		x.Errorf("watch %d from %d is told of progress up to %d", w.id, w.Start, revision)
	}
	x.compare(w, revision)
}

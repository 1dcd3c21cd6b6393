package watch

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// pinnedInTests is what slow watchers may keep in memory.
const pinnedInTests = 16 << 20

// TestWatchersMissAndRepeatNothing runs watchers of every sort, some slow, some cancelled, against a writer. The ring is so small that all
// of them fall back to history now and then. It compares with the expected events.
func TestWatchersMissAndRepeatNothing(t *testing.T) {
	t.Parallel()
	const revisions = 3000
	f := newFakeEvents(50)
	h := startHub(t, f)
	for range 20 {
		f.put("a1", "b1")
	}
	type watching struct {
		w    *Watcher
		rec  *recorder
		from int64
	}
	var all []watching
	ranges := [][2]string{{"a1", ""}, {"b2", ""}, {"a", "b"}, {"a1", "b2"}, {"b", "\x00"}, {"\x00", "\x00"}, {"c", "d"}}
	add := func(i int) {
		rec := newRecorder(t)
		if i%3 == 0 {
			rec.pause = func() { time.Sleep(time.Millisecond) }
		}
		st := startStream(t, h, rec)
		r := ranges[i%len(ranges)]
		from := rand.Int64N(f.revision+10) + 1
		w := &Watcher{Key: []byte(r[0]), End: []byte(r[1]), NoPuts: i%5 == 1, NoDeletes: i%5 == 2}
		watch(t, st, w, from)
		all = append(all, watching{w, rec, from})
	}
	for i := range 30 {
		add(i)
	}
	for i := range revisions {
		var keys []string
		for _, k := range []string{"a1", "a2", "b1", "b2", "c1"} {
			switch rand.IntN(4) {
			case 0:
				keys = append(keys, k)
			case 1:
				keys = append(keys, "-"+k)
			}
		}
		if len(keys) == 0 {
			keys = []string{"z"}
		}
		f.put(keys...)
		if i%200 == 0 {
			add(i / 7)
		}
		if i%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for i, x := range all {
		var want []kvmachine.Event
		for _, e := range f.events {
			if e.KV.ModRevision >= x.from && x.w.matches(e.KV.Key) && x.w.Wants(&e) {
				want = append(want, e)
			}
		}
		wait.Until(t, fmt.Sprintf("watcher %d has %d events", i, len(want)), func() bool { return len(x.rec.seen(x.w.id)) >= len(want) })
		got := x.rec.seen(x.w.id)
		if len(got) != len(want) {
			t.Fatalf("watcher %d: %d events, want %d", i, len(got), len(want))
		}
		for j := range got {
			if !bytes.Equal(got[j].KV.Key, want[j].KV.Key) || got[j].KV.ModRevision != want[j].KV.ModRevision || got[j].Type != want[j].Type {
				t.Fatalf("watcher %d event %d: %v, want %v", i, j, got[j], want[j])
			}
		}
	}
	wait.Until(t, "nothing is pinned", func() bool { return h.pinned.Load() == 0 })
}

// TestProgressWaitsForTheHub: a watcher that has caught up may be ahead of the hub. A request for progress waits until the hub is there.
func TestProgressWaitsForTheHub(t *testing.T) {
	t.Parallel()
	f := newFakeEvents(1000)
	h := NewHub(f, pinnedInTests) // it does not run: the test is the hub
	rec := newRecorder(t)
	st := NewStream(h, rec)
	defer st.Close()
	w := &Watcher{Key: []byte("a")}
	if err := st.Register(w, 0); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		f.put("a")
	}
	h.mu.Lock()
	h.seen, w.Start, w.min = 3, 1, 6 // the scan has read up to 5
	h.enter(w)
	h.mu.Unlock()
	for round := range 2 {
		st.mu.Lock()
		st.asked = 3
		st.mu.Unlock()
		if err := st.sendProgress(); err != nil || len(rec.answers) != round {
			t.Fatalf("round %d: before the hub is there: %v, %v", round, rec.answers, err)
		}
		h.advance(h.seen, nil, int64(5+2*round), true)
		select {
		case <-st.wake:
		default:
			t.Fatalf("round %d: the stream is not woken when the hub is there", round)
		}
		if err := st.sendProgress(); err != nil || len(rec.answers) != round+1 || rec.answers[round].Revision != int64(5+2*round) {
			t.Fatalf("round %d: answered %v, %v", round, rec.answers, err)
		}
		w.min = 8 // and again
	}
}

func TestProgressFollowsEvents(t *testing.T) {
	t.Parallel()
	f := newFakeEvents(1000)
	h := startHub(t, f)
	rec := newRecorder(t)
	st := startStream(t, h, rec)
	watch(t, st, &Watcher{Key: []byte("a")}, 1)
	last := func() (Answer, int) {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		if len(rec.answers) == 0 {
			return Answer{}, 0
		}
		return rec.answers[len(rec.answers)-1], len(rec.answers)
	}
	for i := range 100 {
		at := f.put("a")
		st.Ask()
		wait.Until(t, "an answer", func() bool { _, n := last(); return n == i+1 })
		a, _ := last()
		if a.ID != Broadcast || a.Revision < at {
			t.Fatalf("asked at %d, answered %+v", at, a)
		}
		if seen := rec.seen(0); seen[len(seen)-1].KV.ModRevision != at {
			t.Fatalf("progress %d came before the event of %d", a.Revision, at)
		}
	}
	// A watch from the future has no progress to tell.
	watch(t, st, &Watcher{Key: []byte("b")}, 1_000_000)
	wait.Until(t, "the watch to join", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.live.members == 2 })
	st.Ask()
	time.Sleep(20 * time.Millisecond)
	if _, n := last(); n != 100 {
		t.Errorf("%d answers, want 100", n)
	}
}

func TestCompactedWatchIsCancelled(t *testing.T) {
	f := newFakeEvents(5)
	for range 20 {
		f.put("a")
	}
	f.compacted = 10
	h := startHub(t, f)
	rec := newRecorder(t)
	st := startStream(t, h, rec)
	watch(t, st, &Watcher{Key: []byte("a")}, 3)
	watch(t, st, &Watcher{Key: []byte("a")}, 12)
	wait.Until(t, "one cancelled, one caught up", func() bool {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		return len(rec.answers) == 1 && len(rec.got[1]) == 10
	})
	if a := rec.answers[0]; a.ID != 0 || !a.Canceled || a.Compact != 10 {
		t.Errorf("answer %+v", a)
	}
}

func TestWatchIDs(t *testing.T) {
	st := NewStream(NewHub(newFakeEvents(1), pinnedInTests), newRecorder(t))
	for _, c := range []struct {
		ask, want int64
		err       error
	}{{0, 0, nil}, {0, 1, nil}, {2, 2, nil}, {2, 0, errDuplicateWatch}, {0, 3, nil}, {-7, -7, nil}} {
		w := &Watcher{Key: []byte("a")}
		if err := st.Register(w, c.ask); err != c.err || err == nil && w.id != c.want {
			t.Errorf("asked for %d: id %d, error %v; want %d, %v", c.ask, w.id, err, c.want, c.err)
		}
	}
	if err := st.Register(&Watcher{Key: []byte("b"), End: []byte("a")}, 0); err != errEmptyWatch {
		t.Errorf("inverted range: %v", err)
	}
	if !st.Cancel(2) || st.Cancel(2) {
		t.Error("cancelling twice")
	}
}

// TestSlowWatchersPinLittle: streams that never read must not make the hub hold what it is sent.
func TestSlowWatchersPinLittle(t *testing.T) {
	t.Parallel()
	f := newFakeEvents(100)
	h := startHub(t, f)
	stop := make(chan struct{})
	for i := range 50 {
		rec := newRecorder(t)
		rec.pause = func() { <-stop }
		st := startStream(t, h, rec)
		watch(t, st, &Watcher{Key: fmt.Appendf(nil, "k%d", i)}, 0)
	}
	wait.Until(t, "all to join", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.live.members == 50 })
	t.Cleanup(func() { close(stop) }) // before the streams end
	value := make([]byte, 1<<20)
	for i := range 200 {
		f.mu.Lock()
		f.revision++
		f.events = append(f.events, kvmachine.Event{KV: kvpart.KeyValue{Key: fmt.Appendf(nil, "k%d", i%50), Value: value, ModRevision: f.revision}})
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
		time.Sleep(100 * time.Microsecond)
	}
	time.Sleep(50 * time.Millisecond)
	if n := h.pinned.Load(); n > pinnedInTests+2<<20 {
		t.Errorf("%d bytes pinned", n)
	}
}

func TestRangeTreeAgainstScan(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var tree rangeTree
	set := map[[2]string]*group{}
	key := func() string { return fmt.Sprintf("%02d", rnd.IntN(20)) }
	for step := range 5000 {
		r := [2]string{key(), key()}
		if rnd.IntN(8) == 0 {
			r[1] = "\x00"
		}
		if set[r] != nil {
			tree.remove([]byte(r[0]), []byte(r[1]))
			delete(set, r)
		} else {
			g := tree.at([]byte(r[0]), []byte(r[1]))
			if tree.at([]byte(r[0]), []byte(r[1])) != g {
				t.Fatalf("step %d: two groups for one range", step)
			}
			set[r] = g
		}
		k := key()
		found := map[*group]int{}
		tree.stab([]byte(k), func(g *group) { found[g]++ })
		n := 0
		for r, g := range set {
			if w := (Watcher{Key: []byte(r[0]), End: []byte(r[1])}); w.matches([]byte(k)) {
				n++
				if found[g] != 1 {
					t.Fatalf("step %d: range %q found %d times for %q", step, r, found[g], k)
				}
			}
		}
		if len(found) != n {
			t.Fatalf("step %d: %d ranges found, want %d", step, len(found), n)
		}
	}
	if got := len(tree.groups()); got != len(set) {
		t.Errorf("%d groups, want %d", got, len(set))
	}
}

// TestLonelyWatcherIsNotForgotten: the hub sleeps, its last watcher leaves, and one comes that still lacks something.
func TestLonelyWatcherIsNotForgotten(t *testing.T) {
	t.Parallel()
	f := newFakeEvents(1000)
	h := startHub(t, f)
	f.put("a")
	f.put("a")
	come := func(from int64) (*recorder, *Watcher, func()) {
		rec := newRecorder(t)
		st := NewStream(h, rec)
		w := &Watcher{Key: []byte("a")}
		if err := st.Register(w, 0); err != nil {
			t.Fatal(err)
		}
		st.Start(w, from)
		if !h.join(w, from) {
			t.Fatal("did not join an empty hub")
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = st.Write(ctx, time.Hour) }()
		return rec, w, func() { cancel(); <-done; st.Close() }
	}
	_, _, leave := come(f.revision + 1)
	time.Sleep(20 * time.Millisecond) // the hub has nothing to do
	leave()
	rec, w, leave := come(f.revision) // as after a piece that ended before the newest revision
	defer leave()
	wait.Until(t, "the event", func() bool { return len(rec.seen(w.id)) == 1 })
}

// BenchmarkNotify is one revision for a thousand watchers of the same key.
func BenchmarkNotify(b *testing.B) {
	f := newFakeEvents(10)
	h := NewHub(f, pinnedInTests)
	for range 1000 {
		st := NewStream(h, nil)
		w := &Watcher{Key: []byte("a")}
		_ = st.Register(w, 0)
		st.Start(w, 2)
		h.join(w, 2)
	}
	e := []kvmachine.Event{{KV: kvpart.KeyValue{Key: []byte("a"), ModRevision: 2}}}
	for b.Loop() {
		h.mu.Lock()
		h.match(e)
		h.mu.Unlock()
	}
}

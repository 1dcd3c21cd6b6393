package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// counted is the machine as the hub reads it, with what it walks in history on behalf of ranges.
type counted struct {
	*kvmachine.Machine
	walked chan int // capacity 1: changes
}

func (c *counted) HistoryOf(from, to int64, maxBytes, maxChanges int, wanted func(key []byte) bool) ([]kvmachine.Event, int64, error) {
	n := 0
	evs, next, err := c.Machine.HistoryOf(from, to, maxBytes, maxChanges, func(key []byte) bool {
		n++
		return wanted(key)
	})
	c.walked <- n + <-c.walked
	return evs, next, err
}

// TestQuietWatchersResumeOverTheRealStore: hundreds of watchers of quiet keys and prefixes, and some of busy ones, resume over thousands of
// changes of others. More come meanwhile and old ones are compacted. Each gets its events, progress is answered behind that, and history is
// walked a few times for all of them, not once for each.
func TestQuietWatchersResumeOverTheRealStore(t *testing.T) {
	t.Parallel()
	const quiet, changes, after = 200, 12_000, 2_000
	st, err := store.Open(t.TempDir(), store.Options{CacheBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	m := kvmachine.New(kvmachine.Options{RecentBytes: 64 << 10})
	rig := machinetest.Open(t, st, m)
	t.Cleanup(func() { _ = st.Close() }) // after the hub: cleanups go backwards
	rnd := rand.New(rand.NewPCG(5, 6))
	apply := func(parts ...*kvpart.Part) {
		var commands [][]entry.Part
		for _, p := range parts {
			commands = append(commands, machinetest.Command(entry.MachineKV, kvpart.Append(nil, p)))
		}
		rig.ApplyData(machinetest.Entry(0, commands...), false)
	}
	write := func(n, quietOne int) {
		var parts []*kvpart.Part
		for range n {
			key := fmt.Appendf(nil, "busy/%03d", rnd.IntN(500))
			if rnd.IntN(quietOne) == 0 {
				key = fmt.Appendf(nil, "quiet/%03d/k", rnd.IntN(quiet))
			}
			p := &kvpart.Part{Put: &kvpart.Put{Key: key, Value: make([]byte, rnd.IntN(200))}}
			if rnd.IntN(5) == 0 {
				p = &kvpart.Part{Delete: &kvpart.DeleteRange{Key: key}}
			}
			parts = append(parts, p)
		}
		apply(parts...)
	}
	for range changes / 100 {
		write(100, 300)
	}
	kv := &counted{Machine: m, walked: make(chan int, 1)}
	kv.walked <- 0
	h := startHub(t, kv)
	type watching struct {
		w    *Watcher
		rec  *recorder
		from int64
	}
	var all []watching
	begin := time.Now()
	for i := range 4 {
		rec := newRecorder(t)
		if i == 3 {
			rec.pause = func() { time.Sleep(100 * time.Microsecond) }
		}
		stream := startStream(t, h, rec)
		for n := i; n < quiet; n += 4 {
			from := 2 + rnd.Int64N(1000)
			prefix := fmt.Sprintf("quiet/%03d", n)
			all = append(all, watching{watch(t, stream, &Watcher{Key: []byte(prefix + "/k")}, from), rec, from},
				watching{watch(t, stream, &Watcher{Key: []byte(prefix + "/"), End: []byte(prefix + "0")}, from), rec, from})
		}
		from := 2 + rnd.Int64N(changes)
		all = append(all, watching{watch(t, stream, &Watcher{Key: []byte("busy/"), End: []byte("busy0")}, from), rec, from})
		stream.Ask()
		for range after / 4 / 20 {
			write(20, 20)
		}
	}
	wait.Until(t, "all to be in the hub", func() bool { return h.Slow() == 0 })
	apply(&kvpart.Part{Compact: &kvpart.Compact{Revision: 1200}}) // revisions that no watcher lacks any more
	write(100, 5)
	last, _ := m.Revision()
	for _, x := range all {
		var want []kvmachine.Event
		for from := max(x.from, 1200); from <= last; {
			evs, next, err := m.HistoryOf(from, last, 1<<20, 1<<30, x.w.matches)
			if err != nil {
				t.Fatal(err)
			}
			want, from = append(want, evs...), next
		}
		var got []kvmachine.Event
		wait.Until(t, fmt.Sprintf("%d events of %q from %d", len(want), x.w.Key, x.from), func() bool {
			for got = x.rec.seen(x.w.id); len(got) > 0 && got[0].KV.ModRevision < 1200; got = got[1:] {
			}
			return len(got) >= len(want)
		})
		for i := range want {
			if a, b := got[i], want[i]; len(got) != len(want) || a.Type != b.Type || a.KV.ModRevision != b.KV.ModRevision || string(a.KV.Key) != string(b.KV.Key) ||
				string(a.KV.Value) != string(b.KV.Value) || a.KV.Version != b.KV.Version {
				t.Fatalf("%q from %d, event %d of %d: %+v, want %+v", x.w.Key, x.from, i, len(want), a, b)
			}
		}
	}
	for i, rec := range []*recorder{all[0].rec, all[len(all)-1].rec} {
		wait.Until(t, "progress is answered", func() bool {
			rec.mu.Lock()
			defer rec.mu.Unlock()
			for _, a := range rec.answers {
				if a.ID != Broadcast {
					t.Fatalf("stream %d: %+v", i, a)
				}
			}
			return len(rec.answers) > 0
		})
	}
	n := <-kv.walked
	kv.walked <- n
	// Each watcher of a range tries a little itself, and the busy ones walk what they are sent.
	if most := quiet*(defaultLimits.tryChanges+20) + 40*(changes+after); n > most {
		t.Errorf("%d changes were walked for %d ranges over %d, more than %d", n, quiet, changes+after, most)
	}
	t.Logf("%d changes walked for %d ranges over %d, in %v", n, quiet, changes+after, time.Since(begin))
}

// TestCancelledWatchersLeaveTheHub, also those that are catching up in that moment.
func TestCancelledWatchersLeaveTheHub(t *testing.T) {
	t.Parallel()
	f := newFakeEvents(100)
	for range 1000 {
		f.put("a", "b")
	}
	h := startHub(t, f)
	for range 4 {
		st := startStream(t, h, newRecorder(t))
		for i := range 1500 {
			w := &Watcher{Key: []byte("q")}
			if i%2 == 0 {
				w.End = []byte("r") // quiet, so that it is scanned for
			}
			watch(t, st, w, 1+int64(i%3)*900)
			if i >= 3 && !st.Cancel(w.id-int64(i%4)) && i%4 == 0 {
				t.Fatalf("watch %d was not there", w.id)
			}
		}
		for id := range int64(1500) {
			st.Cancel(id)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.live.members + h.scan.members; n != 0 || h.Counts.Watchers.Load() != 0 {
		t.Errorf("%d of the cancelled watchers are in the hub, %d are counted", n, h.Counts.Watchers.Load())
	}
}

// TestScannedEventsKeepNothingElseInMemory: what is queued is counted by its bytes, so it must not hold the piece that it was read with.
func TestScannedEventsKeepNothingElseInMemory(t *testing.T) {
	f := newFakeEvents(1)
	for range 300 {
		f.put("b", "b", "b")
	}
	f.put("a")
	for range 300 {
		f.put("b")
	}
	h := NewHub(f, pinnedInTests)
	st := NewStream(h, newRecorder(t))
	w := watch(t, st, &Watcher{Key: []byte("a"), End: []byte("b")}, 1)
	if err := st.serve(context.Background(), st.pop()); err != nil || !w.scanned || !h.admit() {
		t.Fatalf("the scan does not have it: %v", err)
	}
	for len(w.queue) == 0 {
		h.scanPiece()
	}
	got, read := &w.queue[0].Events[0], &f.events[900]
	if string(read.KV.Key) != "a" || got == read || &got.KV.Key[0] == &read.KV.Key[0] || &got.KV.Value[0] == &read.KV.Value[0] {
		t.Errorf("%+v shares memory with what was read", got)
	}
}

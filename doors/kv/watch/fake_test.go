package watch

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// fakeEvents is a Reader that only has events: all of them as history, the newest in a ring.
type fakeEvents struct {
	mu        sync.Mutex
	events    []kvmachine.Event // all, in order
	revision  int64
	compacted int64
	ring      int // how many of the newest events the ring holds
	changed   chan struct{}
	rnd       func(n int) int
	// during is called, if it is set, while history is read, which holds no lock: anything can happen meanwhile.
	during func()
	// asked is called, if it is set, once: after the next question for the revision.
	asked func()
}

func newFakeEvents(ring int) *fakeEvents {
	return &fakeEvents{revision: 1, ring: ring, changed: make(chan struct{}), rnd: rand.IntN}
}

// put makes one revision of puts (or deletes, for keys with a leading '-').
func (f *fakeEvents) put(keys ...string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	for _, k := range keys {
		e := kvmachine.Event{KV: kvpart.KeyValue{Key: []byte(k), Value: []byte("v"), CreateRevision: f.revision, ModRevision: f.revision, Version: 1}}
		if k[0] == '-' {
			e = kvmachine.Event{Type: kvmachine.EventDelete, KV: kvpart.KeyValue{Key: []byte(k[1:]), ModRevision: f.revision}}
		}
		f.events = append(f.events, e)
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return f.revision
}

func (f *fakeEvents) Revision() (int64, int64) {
	f.mu.Lock()
	revision, compacted, asked := f.revision, f.compacted, f.asked
	f.asked = nil
	f.mu.Unlock()
	if asked != nil {
		asked()
	}
	return revision, compacted
}

func (f *fakeEvents) Recent(after int64) ([]kvmachine.Event, int64, bool, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := max(0, len(f.events)-f.ring)
	for first > 0 && first < len(f.events) && f.events[first].KV.ModRevision == f.events[first-1].KV.ModRevision {
		first++ // whole revisions
	}
	if first > 0 && (first == len(f.events) || f.events[first].KV.ModRevision > after+1) && after < f.revision {
		return nil, f.revision, false, f.changed
	}
	i, _ := slices.BinarySearchFunc(f.events, after+1, func(e kvmachine.Event, rev int64) int { return int(e.KV.ModRevision - rev) })
	// Now and then only a part, as the ring may: then there is more at once.
	for n := i + 7; n < len(f.events) && f.rnd(3) == 0; n++ {
		if f.events[n].KV.ModRevision != f.events[n-1].KV.ModRevision {
			closed := make(chan struct{})
			close(closed)
			return f.events[i:n:n], f.events[n-1].KV.ModRevision, true, closed
		}
	}
	return f.events[i:len(f.events):len(f.events)], f.revision, true, f.changed
}

func (f *fakeEvents) History(key, end []byte, from, to int64, maxBytes int) ([]kvmachine.Event, int64, error) {
	w := Watcher{Key: key, End: end}
	return f.HistoryOf(from, to, maxBytes, 1<<30, w.matches)
}

func (f *fakeEvents) HistoryOf(from, to int64, maxBytes, maxChanges int, wanted func(key []byte) bool) ([]kvmachine.Event, int64, error) {
	f.mu.Lock()
	if from < f.compacted {
		f.mu.Unlock()
		return nil, 0, kvmachine.ErrCompacted
	}
	events := f.events
	to = min(to, f.revision)
	f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(events, from, func(e kvmachine.Event, rev int64) int { return int(e.KV.ModRevision - rev) })
	if f.during != nil {
		defer f.during()
	}
	var out []kvmachine.Event
	for size, n := 0, 0; i < len(events) && events[i].KV.ModRevision <= to; i, n = i+1, n+1 {
		e := events[i]
		if (size >= maxBytes || n >= maxChanges) && e.KV.ModRevision != events[i-1].KV.ModRevision {
			return out, e.KV.ModRevision, nil
		}
		if wanted(e.KV.Key) {
			out = append(out, e)
			size += len(e.KV.Key) + len(e.KV.Value)
		}
	}
	return out, to + 1, nil
}

// recorder is a sink that keeps what each watcher is sent and checks the order as it comes.
type recorder struct {
	t       *testing.T
	mu      sync.Mutex
	got     map[int64][]kvmachine.Event
	upTo    map[int64]int64
	answers []Answer
	pause   func()
}

func newRecorder(t *testing.T) *recorder {
	return &recorder{t: t, got: map[int64][]kvmachine.Event{}, upTo: map[int64]int64{}}
}

func (*recorder) Ready(context.Context, int64) error { return nil }

func (r *recorder) Answer(a *Answer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, *a)
	return nil
}

func (r *recorder) Events(w *Watcher, batches []*Batch, upTo int64) error {
	if r.pause != nil {
		r.pause()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range batches {
		if b.Revision <= r.upTo[w.id] {
			r.t.Errorf("watch %d: revision %d after %d", w.id, b.Revision, r.upTo[w.id])
		}
		for i := range b.Events {
			if rev := b.Events[i].KV.ModRevision; rev > b.Revision || rev <= r.upTo[w.id] || i > 0 && rev < b.Events[i-1].KV.ModRevision {
				r.t.Errorf("watch %d: an event of revision %d in the batch up to %d", w.id, b.Events[i].KV.ModRevision, b.Revision)
			}
			if w.Wants(&b.Events[i]) {
				r.got[w.id] = append(r.got[w.id], b.Events[i])
			}
		}
		r.upTo[w.id] = b.Revision
	}
	if upTo < r.upTo[w.id] {
		r.t.Errorf("watch %d: up to %d but sent %d", w.id, upTo, r.upTo[w.id])
	}
	r.upTo[w.id] = upTo
	return nil
}

func (r *recorder) seen(id int64) []kvmachine.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[id])
}

// startHub runs a hub until the test ends.
func startHub(t *testing.T, kv Reader) *Hub {
	h := NewHub(kv, pinnedInTests)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); h.Run(stop) }()
	t.Cleanup(func() { close(stop); <-done })
	return h
}

// startStream runs a stream's writer until the test ends.
func startStream(t *testing.T, h *Hub, s Sink) *Stream {
	st := NewStream(h, s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = st.Write(ctx, time.Hour) }()
	t.Cleanup(func() { cancel(); <-done; st.Close() })
	return st
}

func watch(t *testing.T, st *Stream, w *Watcher, from int64) *Watcher {
	t.Helper()
	if err := st.Register(w, 0); err != nil {
		t.Fatal(err)
	}
	st.Start(w, from)
	return w
}

// Package watch brings events to those who watch keys: a Hub matches what is applied against all watchers, a Stream brings one client
// its events in order, from the hub, the ring of recent events or the store's history, however slowly it reads.
//
// It knows neither gRPC's messages nor users: who may watch what, and how an event looks on the wire, is the door's.
package watch

import (
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/internal/meter"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
)

// Bounds on the memory that slow watchers hold. Past any of them the watcher leaves the hub and reads what it missed from the
// store's history.
const (
	maxQueuedBatches = 256      // per watcher
	catchUpBytes     = 64 << 10 // read from history at a time
	maxAnswerBytes   = 128 << 10
)

// Hub hands the events of applied commands to watchers. One goroutine (Run) reads the machine's ring of recent events,
// matches each revision against the watchers in the hub and puts one shared batch on the queue of each that it concerns.
// It never waits for a watcher and Apply never waits for it.
//
// A watcher is either in the hub (it has, or has queued, everything up to seen) or it lags: then the stream's writer
// reads the ring or the history from where the watcher stands and puts it back once it has caught up. Queues hold
// references to events the ring made; pinned bounds what they keep alive after the ring has moved on.
type Hub struct {
	kv        Reader
	maxPinned int64         // bytes of events on all queues together, each counted once
	wake      chan struct{} // capacity 1: the hub has a watcher again
	pinned    atomic.Int64
	Counts    Counts
	// Advanced is called after events were matched, if it is not nil; set before Run.
	Advanced func()

	mu      sync.Mutex // guards the rest; taken before a stream's mu
	seen    int64      // every event up to here is on the queues of the watchers it concerns
	members int        // watchers in the hub
	keys    map[string]*group
	ranges  rangeTree
	waiting map[*Stream]struct{} // streams to be woken when seen has moved
	touched []*group             // scratch of match
}

// Counts are for metrics; nothing decides by them.
type Counts struct {
	Streams, Watchers meter.Gauge   // there are
	Pending           meter.Gauge   // events on queues, once per queue
	Events            meter.Counter // sent, as whoever sends them has counted
}

// Slow is how many watchers are not in the hub: they catch up, or have only just come.
func (h *Hub) Slow() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.Counts.Watchers.Load()-int64(h.members), 0)
}

// Reader is what the hub reads of the kv machine, by the contract in machine/kv.
type Reader interface {
	Revision() (current, compacted int64)
	Recent(after int64) (evs []mkv.Event, upTo int64, ok bool, changed <-chan struct{})
	History(key, end []byte, from, to int64, maxBytes int) (evs []mkv.Event, next int64, err error)
}

// NewHub makes a hub without watchers; Run feeds it. The events that slow watchers keep in memory come to maxPinned bytes.
func NewHub(kv Reader, maxPinned int64) *Hub {
	return &Hub{kv: kv, maxPinned: maxPinned, wake: make(chan struct{}, 1), keys: make(map[string]*group), waiting: make(map[*Stream]struct{})}
}

// group is the watchers of the same key or range. Guarded by hub.mu.
type group struct {
	key, end []byte // as in a watch request; end empty = the one key, "\0" = to the last key
	watchers []*Watcher

	// The events of the revision being matched: evs[from:to] of that revision, or picked once they are not adjacent.
	from, to int
	picked   []mkv.Event
}

// release takes the batch off one queue.
func (h *Hub) release(b *Batch) {
	if b.refs.Add(-1) == 0 {
		h.pinned.Add(-b.bytes)
	}
}

// Run feeds the hub until stop is closed.
func (h *Hub) Run(stop <-chan struct{}) {
	for {
		h.mu.Lock()
		seen, members := h.seen, h.members
		h.mu.Unlock()
		if members == 0 {
			select {
			case <-h.wake:
			case <-stop:
				return
			}
			continue
		}
		events, upTo, ok, changed := h.kv.Recent(seen)
		if ok && upTo <= seen {
			select {
			case <-changed:
			case <-h.wake: // all watchers left and another came, perhaps with seen set back
			case <-stop:
				return
			}
			continue
		}
		h.advance(seen, events, upTo, ok)
		if h.Advanced != nil {
			h.Advanced()
		}
	}
}

// advance matches events, which follow from and go up to upTo. complete is false if the ring no longer reached back to
// from; then every watcher lags.
func (h *Hub) advance(from int64, events []mkv.Event, upTo int64, complete bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen != from {
		return // the last watcher left meanwhile and a new one set the hub elsewhere
	}
	if !complete {
		h.lagAll(from + 1)
		return
	}
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].KV.ModRevision == events[0].KV.ModRevision {
			n++
		}
		h.match(events[:n:n])
		events = events[n:]
	}
	h.seen = upTo
	for st := range h.waiting {
		st.signal()
	}
	clear(h.waiting)
}

// match puts the events of one revision on the queues of the watchers they concern.
func (h *Hub) match(events []mkv.Event) {
	for i := range events {
		key := events[i].KV.Key
		if g := h.keys[string(key)]; g != nil {
			h.touch(g, events, i)
		}
		h.ranges.stab(key, func(g *group) { h.touch(g, events, i) })
	}
	for _, g := range h.touched {
		hits := g.picked
		if hits == nil {
			hits = events[g.from:g.to:g.to]
		}
		g.from, g.to, g.picked = 0, 0, nil
		h.push(g, newBatch(hits))
	}
	clear(h.touched)
	h.touched = h.touched[:0]
}

func (h *Hub) touch(g *group, events []mkv.Event, i int) {
	switch {
	case g.picked != nil:
		g.picked = append(g.picked, events[i])
	case g.to == 0:
		g.from, g.to = i, i+1
		h.touched = append(h.touched, g)
	case g.to == i:
		g.to++
	default:
		g.picked = append(append([]mkv.Event(nil), events[g.from:g.to]...), events[i])
	}
}

// push queues b for the watchers of g; those with no room lag from b on. Watchers that lag leave g, so it is walked from
// the end.
func (h *Hub) push(g *group, b *Batch) {
	b.refs.Store(1) // ours, so that b is not given back while it is being handed out
	h.pinned.Add(b.bytes)
	for i := len(g.watchers) - 1; i >= 0; i-- {
		w := g.watchers[i]
		if b.Revision < w.min || w.filters(b) {
			continue
		}
		// What is queued anywhere counts against pinned, so with a full budget nothing more is queued at all: each
		// stream then reads from history at the pace of its client.
		if !w.stream.enqueue(w, b, h.pinned.Load() <= h.maxPinned) {
			h.leave(w)
			w.stream.lag(w, b.Revision)
		}
	}
	h.release(b)
}

func (h *Hub) lagAll(from int64) {
	all := h.ranges.groups()
	for _, g := range h.keys {
		all = append(all, g)
	}
	for _, g := range all {
		for i := len(g.watchers) - 1; i >= 0; i-- {
			w := g.watchers[i]
			h.leave(w)
			w.stream.lag(w, max(from, w.min))
		}
	}
}

// join takes w into the hub if it has everything before revision next delivered or on its way; false means that it must
// catch up first. w.lagging ends with it.
func (h *Hub) join(w *Watcher, next int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.members == 0 {
		current, _ := h.kv.Revision()
		h.seen = min(next-1, current)
	}
	if next <= h.seen {
		return false
	}
	if !w.stream.synced(w) {
		return true // cancelled meanwhile
	}
	w.min = next
	h.enter(w)
	return true
}

// enter and leave keep the index of groups; hub.mu is held.
func (h *Hub) enter(w *Watcher) {
	var g *group
	if len(w.End) == 0 {
		if g = h.keys[string(w.Key)]; g == nil {
			g = &group{key: w.Key}
			h.keys[string(w.Key)] = g
		}
	} else {
		g = h.ranges.at(w.Key, w.End)
	}
	w.group, w.slot = g, len(g.watchers)
	g.watchers = append(g.watchers, w)
	h.members++
	if h.members == 1 {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

func (h *Hub) leave(w *Watcher) {
	g := w.group
	if g == nil {
		return
	}
	last := len(g.watchers) - 1
	moved := g.watchers[last]
	g.watchers[w.slot], moved.slot = moved, w.slot
	g.watchers[last] = nil
	g.watchers = g.watchers[:last]
	w.group = nil
	h.members--
	if last == 0 {
		if len(g.end) == 0 {
			delete(h.keys, string(g.key))
		} else {
			h.ranges.remove(g.key, g.end)
		}
	}
}

// drop takes a cancelled watcher out of the hub.
func (h *Hub) drop(w *Watcher) {
	h.mu.Lock()
	h.leave(w)
	h.mu.Unlock()
}

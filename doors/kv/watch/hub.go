// Package watch brings events to watchers of keys. A Hub matches the applied changes against all watchers. A Stream brings one client its
// events in order, from the hub, the ring of recent events or the store's history, however slowly it reads. It knows neither gRPC's
// messages nor users: the door judges permissions and encodes events.
package watch

import (
	"sync"
	"sync/atomic"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// Bounds on the memory that slow watchers hold. Past any of them the watcher leaves the hub and reads what it missed from the
// store's history.
const (
	maxQueuedBatches = 256      // per watcher
	catchUpBytes     = 64 << 10 // read from history at a time
	maxAnswerBytes   = 128 << 10
)

// limits say how a watcher catches up. Tests have smaller ones.
type limits struct {
	// farBehind is how many revisions a watcher must lack for anything better than looking at each of them to be worth its while.
	farBehind int64
	// tryChanges is the number of changes a writer walks in history for a range before it decides whether to go on. It stops if fewer than
	// one in sparse concerned the watcher.
	tryChanges, sparse int
	// scanChanges bounds one piece of a scan, and with it how long a View is kept.
	scanChanges int
}

var defaultLimits = limits{farBehind: 256, tryChanges: 256, sparse: 16, scanChanges: 4096}

// Hub hands the events of applied commands to watchers. One goroutine (Run) reads the machine's ring of recent events and matches each
// revision against the watchers in the hub. It puts one shared batch on the queue of each that it concerns. It never waits for a watcher
// and Apply never waits for it.
//
// A watcher is either in the hub (it has, or has queued, everything up to seen) or it lags. Then the stream's writer reads the ring or the
// history from the watcher's position and puts it back once it has caught up. If few changes concern it, a scan walks them for all such
// watchers together (scan.go). Queues hold references to events the ring made; pinned bounds what they keep alive after the ring has moved
// on.
type Hub struct {
	kv        Reader
	maxPinned int64 // bytes of events on all queues together, each counted once
	limits    limits
	wake      chan struct{} // capacity 1: the hub has a watcher again
	pinned    atomic.Int64
	Counts    Counts
	// Advanced is called after events were matched, if it is not nil; set before Run.
	Advanced func()

	mu      sync.Mutex           // guards the rest; taken before a stream's mu
	seen    int64                // every event up to here is on the queues of the watchers it concerns
	live    index                // the watchers in the hub
	scan    scan                 // those that it catches up
	waiting map[*Stream]struct{} // streams to be woken when seen has moved
}

// Counts are for metrics; nothing decides by them.
type Counts struct {
	Streams, Watchers meter.Gauge   // there are
	Pending           meter.Gauge   // events on queues, once per queue
	Events            meter.Counter // sent, as counted by the senders
}

// Slow is how many watchers are not in the hub: they catch up, or have only just come.
func (h *Hub) Slow() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.Counts.Watchers.Load()-int64(h.live.members), 0)
}

// Reader is the hub's view of the kv machine, by the contract in doors/kv/machine.
type Reader interface {
	Revision() (current, compacted int64)
	Recent(after int64) (evs []kvmachine.Event, upTo int64, ok bool, changed <-chan struct{})
	History(key, end []byte, from, to int64, maxBytes int) (evs []kvmachine.Event, next int64, err error)
	HistoryOf(from, to int64, maxBytes, maxChanges int, wanted func(key []byte) bool) (evs []kvmachine.Event, next int64, err error)
}

// NewHub makes a hub without watchers; Run feeds it. The events that slow watchers keep in memory come to maxPinned bytes.
func NewHub(kv Reader, maxPinned int64) *Hub {
	return &Hub{kv: kv, maxPinned: maxPinned, limits: defaultLimits, wake: make(chan struct{}, 1), live: newIndex(),
		scan: scan{index: newIndex(), wake: make(chan struct{}, 1)}, waiting: make(map[*Stream]struct{})}
}

// release takes the batch off one queue.
func (h *Hub) release(b *Batch) {
	if b.refs.Add(-1) == 0 {
		h.pinned.Add(-b.bytes)
	}
}

// Run feeds the hub until stop is closed.
func (h *Hub) Run(stop <-chan struct{}) {
	scanned := make(chan struct{})
	go func() {
		defer close(scanned)
		h.runScan(stop)
	}()
	defer func() { <-scanned }()
	for {
		moved, changed := h.follow()
		if moved {
			continue
		}
		select {
		case <-changed:
		case <-h.wake: // the first watcher came, perhaps after all others had left and with seen set back
		case <-stop:
			return
		}
	}
}

// follow matches what the ring has of revisions that the hub has not seen. Where there is nothing to do it returns what is closed when
// there is more, nil if there is no watcher to do it for.
func (h *Hub) follow() (moved bool, changed <-chan struct{}) {
	h.mu.Lock()
	seen, members := h.seen, h.live.members
	h.mu.Unlock()
	if members == 0 {
		return false, nil
	}
	events, upTo, ok, changed := h.kv.Recent(seen)
	if ok && upTo <= seen {
		return false, changed
	}
	h.advance(seen, events, upTo, ok)
	if h.Advanced != nil {
		h.Advanced()
	}
	return true, nil
}

// advance matches events, which follow from and go up to upTo. complete is false if the ring no longer reached back to
// from; then every watcher lags.
func (h *Hub) advance(from int64, events []kvmachine.Event, upTo int64, complete bool) {
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
		var one []kvmachine.Event
		one, events = ofOneRevision(events)
		h.match(one)
	}
	h.seen = upTo
	for st := range h.waiting {
		st.signal()
	}
	clear(h.waiting)
}

// match puts the events of one revision on the queues of the watchers they concern.
func (h *Hub) match(events []kvmachine.Event) {
	h.live.match(events, func(g *group, hits []kvmachine.Event) { h.push(g, newBatch(hits), h.lag) })
}

// push queues b for the watchers of g. It calls full with those without room and b's revision; they leave g, so it is walked from the end.
func (h *Hub) push(g *group, b *Batch, full func(w *Watcher, next int64)) {
	b.refs.Store(1) // ours, so that b is not given back while it is being handed out
	h.pinned.Add(b.bytes)
	for i := len(g.watchers) - 1; i >= 0; i-- {
		w := g.watchers[i]
		if b.Revision < w.min || w.filters(b) {
			continue
		}
		// Everything queued counts against pinned, so with a full budget no more is queued at all. Each stream then reads from history at
		// the pace of its client.
		if !w.stream.enqueue(w, b, h.pinned.Load() <= h.maxPinned) {
			full(w, b.Revision)
		}
	}
	h.release(b)
}

// lag takes w out of the hub, which has everything before revision next. hub.mu is held.
func (h *Hub) lag(w *Watcher, next int64) {
	h.leave(w)
	w.stream.lag(w, next)
}

func (h *Hub) lagAll(from int64) {
	for _, w := range h.live.all() {
		h.lag(w, max(from, w.min))
	}
}

// join puts w into the hub if it has everything before revision next delivered or in flight; false means that it must catch up first.
// w.lagging ends with it.
func (h *Hub) join(w *Watcher, next int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.mayJoin(next) {
		return false
	}
	if !w.stream.synced(w) {
		return true // cancelled meanwhile
	}
	w.min = next
	h.enter(w)
	return true
}

// mayJoin reports whether a watcher that has everything before revision next misses nothing in the hub. hub.mu is held.
func (h *Hub) mayJoin(next int64) bool {
	if h.live.members == 0 {
		current, _ := h.kv.Revision()
		h.seen = min(next-1, current)
	}
	return next > h.seen
}

// enter makes w one of the hub's. hub.mu is held.
func (h *Hub) enter(w *Watcher) {
	h.live.enter(w)
	if h.live.members == 1 {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// leave takes w out of the hub or the scan, wherever it is. hub.mu is held.
func (h *Hub) leave(w *Watcher) {
	w.waits = false
	if w.in != nil {
		w.in.leave(w)
	}
}

// drop takes a cancelled watcher out of the hub and the scan.
func (h *Hub) drop(w *Watcher) {
	h.mu.Lock()
	h.leave(w)
	h.mu.Unlock()
}

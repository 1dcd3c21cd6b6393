package kv

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mkv "github.com/holdfastdb/holdfast/machine/kv"
)

// watchStream is the watchers of one client stream and their way out. The receiving goroutine adds and cancels watchers,
// the hub queues batches, and one writer goroutine (write) sends: it alone talks to the client, so what it takes from a
// queue is what the client hears next.
type watchStream struct {
	hub     *hub
	sink    sink
	control chan *watchAnswer // created and canceled answers, in the order of the requests
	wake    chan struct{}     // capacity 1

	mu       sync.Mutex // guards the rest and its watchers' fields; taken after hub.mu
	watchers map[int64]*watcher
	nextID   int64
	ready    []*watcher // have something queued or lag; first come, first served
	lagging  int
	asked    int64 // revision of an unanswered progress request, 0 = none
	closed   bool
}

// sink is where a stream's answers go: a client, or a lock that waits for a key to be deleted.
type sink interface {
	answer(a *watchAnswer) error
	// events delivers whole revisions up to and including upTo, in order.
	events(w *watcher, batches []*batch, upTo int64) error
}

func newWatchStream(h *hub, s sink) *watchStream {
	h.counts.streams.Add(1)
	return &watchStream{
		hub: h, sink: s,
		control:  make(chan *watchAnswer, 16),
		wake:     make(chan struct{}, 1),
		watchers: make(map[int64]*watcher),
	}
}

func (st *watchStream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// etcd's texts for watches that it refuses.
var (
	errDuplicateWatch = errors.New("mvcc: duplicate watch ID provided on the WatchStream")
	errEmptyWatch     = errors.New("mvcc: watcher range is empty")
)

// register gives w its id and makes it known to the stream. Nothing is delivered to it before start.
func (st *watchStream) register(w *watcher, id int64) error {
	if len(w.end) != 0 && !isToLast(w.end) && string(w.key) >= string(w.end) {
		return errEmptyWatch
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if id == 0 {
		for st.watchers[st.nextID] != nil {
			st.nextID++
		}
		id = st.nextID
		st.nextID++
	} else if st.watchers[id] != nil {
		return errDuplicateWatch
	}
	w.stream, w.id, w.quiet = st, id, true
	st.watchers[id] = w
	st.hub.counts.watchers.Add(1)
	return nil
}

// start lets w have the events from revision from on. It starts lagging and joins the hub by itself.
func (st *watchStream) start(w *watcher, from int64) {
	w.lagging = false
	st.lag(w, from)
}

// cancel ends a watch and reports whether there was one.
func (st *watchStream) cancel(id int64) bool {
	st.mu.Lock()
	w := st.watchers[id]
	st.mu.Unlock()
	if w == nil {
		return false
	}
	st.hub.drop(w)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.forget(w)
	return true
}

// forget removes w, which is not in the hub, from the stream. st.mu is held.
func (st *watchStream) forget(w *watcher) {
	if w.gone {
		return
	}
	w.gone = true
	giveBack(w.from, w.cost())
	st.hub.counts.watchers.Add(-1)
	if w.lagging {
		w.lagging = false
		st.lagging--
	}
	st.sent(w.queue)
	w.queue = nil
	delete(st.watchers, w.id)
}

// close ends all watches. Call it once.
func (st *watchStream) close() {
	st.hub.counts.streams.Add(-1)
	st.mu.Lock()
	st.closed = true
	all := make([]*watcher, 0, len(st.watchers))
	for _, w := range st.watchers {
		all = append(all, w)
	}
	st.mu.Unlock()
	h := st.hub
	h.mu.Lock()
	delete(h.waiting, st)
	for _, w := range all {
		h.leave(w)
	}
	h.mu.Unlock()
	st.mu.Lock()
	for _, w := range all {
		st.forget(w)
	}
	st.mu.Unlock()
}

// enqueue puts b on w's queue and reports whether there was room. The hub calls it.
func (st *watchStream) enqueue(w *watcher, b *batch, room bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.gone || st.closed {
		return true
	}
	if !room || len(w.queue) >= maxQueuedBatches {
		return false
	}
	b.refs.Add(1)
	st.hub.counts.pending.Add(int64(len(b.events)))
	w.queue = append(w.queue, b)
	st.makeReady(w)
	return true
}

// sent takes batches off a queue.
func (st *watchStream) sent(batches []*batch) {
	events := 0
	for _, b := range batches {
		events += len(b.events)
		st.hub.release(b)
	}
	st.hub.counts.pending.Add(-int64(events))
}

// lag has w, which is not in the hub, catch up from revision next on once its queue is sent.
func (st *watchStream) lag(w *watcher, next int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.gone || st.closed || w.lagging {
		return
	}
	w.lagging, w.next = true, next
	st.lagging++
	st.makeReady(w)
}

// synced ends w's lagging and reports whether the watch still stands. The hub calls it as w joins.
func (st *watchStream) synced(w *watcher) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.gone || st.closed {
		return false
	}
	w.lagging = false
	st.lagging--
	return true
}

func (st *watchStream) makeReady(w *watcher) {
	if !w.ready {
		w.ready = true
		st.ready = append(st.ready, w)
	}
	st.signal()
}

// ask notes a request for progress: it is answered once every watcher is synced to at least what is current now.
func (st *watchStream) ask() {
	current, _ := st.hub.kv.Revision()
	st.mu.Lock()
	st.asked = current
	st.mu.Unlock()
	st.signal()
}

// write sends until ctx ends or the sink fails. interval is the time between progress answers.
func (st *watchStream) write(ctx context.Context, interval time.Duration) error {
	var ticker *time.Ticker
	var tick <-chan time.Time
	defer func() {
		if ticker != nil {
			ticker.Stop()
		}
	}()
	for {
		w := st.pop()
		// A watcher was announced before it could become ready, so its announcement leaves first.
		if err := st.sendControl(); err != nil {
			return err
		}
		if w != nil {
			if err := st.serve(w); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		if err := st.sendProgress(); err != nil {
			return err
		}
		if ticker == nil && st.wantsTicks() {
			// Spread, so that streams opened together do not report together.
			ticker = time.NewTicker(interval + rand.N(interval/10))
			tick = ticker.C
		}
		select {
		case a := <-st.control:
			if err := st.sink.answer(a); err != nil {
				return err
			}
		case <-st.wake:
		case <-tick:
			if err := st.sendTicks(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (st *watchStream) sendControl() error {
	for {
		select {
		case a := <-st.control:
			if err := st.sink.answer(a); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (st *watchStream) pop() *watcher {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.ready) == 0 {
		return nil
	}
	w := st.ready[0]
	st.ready[0] = nil
	if st.ready = st.ready[1:]; len(st.ready) == 0 {
		st.ready = nil
	}
	w.ready = false
	return w
}

// serve sends some of what w has queued, or a piece of what it lags behind.
func (st *watchStream) serve(w *watcher) error {
	st.mu.Lock()
	if w.gone {
		st.mu.Unlock()
		return nil
	}
	if len(w.queue) == 0 {
		lagging := w.lagging
		st.mu.Unlock()
		if lagging {
			return st.catchUp(w)
		}
		return nil
	}
	n, size := 0, int64(0)
	for n < len(w.queue) && (n == 0 || size+w.queue[n].bytes <= maxAnswerBytes) {
		size += w.queue[n].bytes
		n++
	}
	batches := w.queue[:n:n]
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	w.quiet = false
	if len(w.queue) > 0 || w.lagging {
		st.makeReady(w)
	}
	st.mu.Unlock()
	err := st.sink.events(w, batches, batches[n-1].revision)
	st.sent(batches)
	clear(batches) // the queue's memory must not keep them
	return err
}

// catchUp reads the next piece of what w missed, from the ring while that reaches back far enough, else from history,
// and lets w join the hub if that was all of it. The piece is sent either way.
func (st *watchStream) catchUp(w *watcher) error {
	h := st.hub
	next := w.next // only the writer moves it while w lags
	current, compacted := h.kv.Revision()
	if next > current { // a watch from a revision that is not there yet
		h.join(w, next)
		st.again(w, next)
		return nil
	}
	if next < compacted { // the ring may still have it, but what a client sees must not depend on that
		return st.compacted(w, compacted)
	}
	events, upTo, ok, _ := h.kv.Recent(next - 1)
	if ok {
		events, upTo = st.pick(w, events, upTo)
	} else {
		var after int64
		var err error
		events, after, err = h.kv.History(w.key, w.end, next, current, catchUpBytes)
		if errors.Is(err, mkv.ErrCompacted) {
			_, compacted = h.kv.Revision()
			return st.compacted(w, compacted)
		}
		if err != nil {
			return status.Error(codes.Unavailable, "etcdserver: read watch history: "+err.Error())
		}
		upTo = after - 1
		events, upTo = st.pick(w, events, upTo)
	}
	st.mu.Lock()
	w.next = upTo + 1
	if len(events) > 0 {
		w.quiet = false
	}
	st.mu.Unlock()
	// Join before sending: the queue is not touched until this goroutine is done with the piece.
	if !h.join(w, upTo+1) {
		st.again(w, upTo+1)
	}
	if len(events) == 0 {
		return nil
	}
	var batches []*batch
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].KV.ModRevision == events[0].KV.ModRevision {
			n++
		}
		b := newBatch(events[:n:n])
		batches = append(batches, b)
		events = events[n:]
	}
	return st.sink.events(w, batches, upTo)
}

// pick copies the events w wants, whole revisions up to about catchUpBytes, and returns the last revision looked at.
func (st *watchStream) pick(w *watcher, events []mkv.Event, upTo int64) ([]mkv.Event, int64) {
	var picked []mkv.Event
	size := 0
	for i := range events {
		e := &events[i]
		if size >= catchUpBytes && i > 0 && e.KV.ModRevision != events[i-1].KV.ModRevision {
			return picked, events[i-1].KV.ModRevision
		}
		if e.KV.ModRevision < w.next || !w.matches(e.KV.Key) || !w.wants(e) {
			continue
		}
		picked = append(picked, *e)
		size += len(e.KV.Key) + len(e.KV.Value)
	}
	return picked, upTo
}

// again puts w back on the ready list if it still lags.
func (st *watchStream) again(w *watcher, next int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.lagging && !w.gone {
		w.next = next
		st.makeReady(w)
	}
}

// compacted ends a watch whose next revision is gone.
func (st *watchStream) compacted(w *watcher, at int64) error {
	st.mu.Lock()
	gone := w.gone
	st.forget(w)
	st.mu.Unlock()
	if gone {
		return nil
	}
	return st.sink.answer(&watchAnswer{id: w.id, canceled: true, compact: at})
}

// broadcastID is the watch id of a progress answer that concerns all watches of a stream.
const broadcastID = -1

// sendProgress answers a request for progress when its time has come. A watch that waits for a future revision has no
// progress to report: the request is dropped, as in etcd.
func (st *watchStream) sendProgress() error {
	h := st.hub
	h.mu.Lock()
	st.mu.Lock()
	revision, due := h.seen, false
	switch {
	case st.asked == 0:
	case len(st.watchers) == 0:
		st.asked = 0
	case st.lagging > 0 || len(st.ready) > 0: // the writer comes back here after them
	case h.seen < st.asked:
		h.waiting[st] = struct{}{}
	default:
		due = true
		for _, w := range st.watchers {
			if w.group == nil { // announced, but not started
				due = false
			} else if !w.reached(h.seen) {
				st.asked, due = 0, false
				break
			}
		}
		if due {
			st.asked = 0
		}
	}
	st.mu.Unlock()
	h.mu.Unlock()
	if !due {
		return nil
	}
	return st.sink.answer(&watchAnswer{id: broadcastID, header: header{revision: revision}})
}

// reached reports whether revision is progress for w, which is in the hub. Before the revision a watch was asked to begin at there
// is none, not even right before it, as in etcd: a client that resumed from such a report would begin earlier than it asked to.
// hub.mu is held.
func (w *watcher) reached(revision int64) bool { return w.start <= revision && w.min <= revision+1 }

func (st *watchStream) wantsTicks() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, w := range st.watchers {
		if w.progress {
			return true
		}
	}
	return false
}

// sendTicks reports progress to every watch that wants it, is synced, and was not sent anything since the last tick.
func (st *watchStream) sendTicks() error {
	h := st.hub
	h.mu.Lock()
	st.mu.Lock()
	revision := h.seen
	var due []int64
	for id, w := range st.watchers {
		if !w.progress {
			continue
		}
		if w.quiet && w.group != nil && len(w.queue) == 0 && w.reached(revision) {
			due = append(due, id)
		}
		w.quiet = true
	}
	st.mu.Unlock()
	h.mu.Unlock()
	for _, id := range due {
		if err := st.sink.answer(&watchAnswer{id: id, header: header{revision: revision}}); err != nil {
			return err
		}
	}
	return nil
}

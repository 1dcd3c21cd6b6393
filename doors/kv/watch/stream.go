package watch

import (
	"context"
	"errors"
	"sync"
)

// Stream is the watchers of one client stream and their way out. The receiving goroutine adds and cancels watchers, the hub queues batches,
// and one writer goroutine (Write) sends. Only the writer talks to the client, so it alone fixes the order of events.
type Stream struct {
	hub     *Hub
	sink    Sink
	control chan *Answer  // created and canceled answers, in the order of the requests
	wake    chan struct{} // capacity 1

	mu       sync.Mutex // guards the rest and its watchers' fields; taken after hub.mu
	watchers map[int64]*Watcher
	nextID   int64
	ready    []*Watcher // have something queued or lag; first come, first served
	lagging  int
	ticking  int   // watchers that want to be told of progress
	asked    int64 // revision of an unanswered progress request, 0 = none
	closed   bool
}

// Sink is where a stream's answers go: a client, or a lock that waits for a key to be deleted.
type Sink interface {
	// Ready waits until a message with n bytes of events may be made, and has room for it and no more. Events waits for nothing then. Until
	// it returns, the events stay on the watcher's queue, which is bounded, or in the store.
	Ready(ctx context.Context, n int64) error
	Answer(a *Answer) error
	// Events delivers whole revisions up to and including upTo, in order.
	Events(w *Watcher, batches []*Batch, upTo int64) error
}

// Answer is a message about a watch to its client, other than events.
type Answer struct {
	ID                int64 // Broadcast: of all watches of the stream
	Created, Canceled bool
	Compact           int64  // the watch ended because everything before this revision is gone
	Reason            string // why it was refused or has ended
	Revision          int64  // up to which the client has been told everything; 0: the current one
}

// NewStream makes a stream without watchers. Write sends, and Close must be called.
func NewStream(h *Hub, s Sink) *Stream {
	h.Counts.Streams.Add(1)
	return &Stream{
		hub: h, sink: s,
		control:  make(chan *Answer, 16),
		wake:     make(chan struct{}, 1),
		watchers: make(map[int64]*Watcher),
	}
}

// Tell hands an answer to the writer, in the order of the calls; false means that ctx, and with it the stream, has ended.
func (st *Stream) Tell(ctx context.Context, a *Answer) bool {
	select {
	case st.control <- a:
		return true
	case <-ctx.Done():
		return false
	}
}

func (st *Stream) signal() {
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

// Register gives w its id and makes it known to the stream. Nothing is delivered to it before Start.
func (st *Stream) Register(w *Watcher, id int64) error {
	if len(w.End) != 0 && !isToLast(w.End) && string(w.Key) >= string(w.End) {
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
	if w.Progress {
		st.ticking++
	}
	st.hub.Counts.Watchers.Add(1)
	return nil
}

// Start lets w have the events from revision from on. It starts lagging and joins the hub by itself.
func (st *Stream) Start(w *Watcher, from int64) {
	w.lagging = false
	st.lag(w, from)
}

// Cancel ends a watch and reports whether there was one.
func (st *Stream) Cancel(id int64) bool {
	st.mu.Lock()
	w := st.watchers[id]
	if w != nil {
		st.forget(w)
	}
	st.mu.Unlock()
	if w == nil {
		return false
	}
	st.hub.drop(w) // afterwards: a removed watcher does not join any more
	return true
}

// forget removes w from the stream. st.mu is held.
func (st *Stream) forget(w *Watcher) {
	if w.gone {
		return
	}
	w.gone = true
	if w.Ended != nil {
		w.Ended()
	}
	st.hub.Counts.Watchers.Add(-1)
	if w.Progress {
		st.ticking--
	}
	if w.lagging {
		w.lagging, w.scanned = false, false
		st.lagging--
	}
	st.sent(w.queue)
	w.queue = nil
	delete(st.watchers, w.id)
}

// Close ends all watches. Call it once.
func (st *Stream) Close() {
	st.hub.Counts.Streams.Add(-1)
	st.mu.Lock()
	st.closed = true
	all := make([]*Watcher, 0, len(st.watchers))
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
func (st *Stream) enqueue(w *Watcher, b *Batch, room bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.gone || st.closed {
		return true
	}
	if !room || len(w.queue) >= maxQueuedBatches {
		return false
	}
	b.refs.Add(1)
	st.hub.Counts.Pending.Add(int64(len(b.Events)))
	w.queue = append(w.queue, b)
	st.makeReady(w)
	return true
}

// sent takes batches off a queue.
func (st *Stream) sent(batches []*Batch) {
	events := 0
	for _, b := range batches {
		events += len(b.Events)
		st.hub.release(b)
	}
	st.hub.Counts.Pending.Add(-int64(events))
}

// lag has w, which is not in the hub, catch up from revision next on once its queue is sent.
func (st *Stream) lag(w *Watcher, next int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.gone || st.closed || w.lagging {
		return
	}
	w.lagging, w.next = true, next
	st.lagging++
	st.makeReady(w)
}

// handOver leaves w, which lags, to the scan and reports whether the watch still stands.
func (st *Stream) handOver(w *Watcher) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.gone || st.closed {
		return false
	}
	w.scanned = true
	return true
}

// takeBack makes w, which the scan has released, catch up from revision next on once its queue is sent.
func (st *Stream) takeBack(w *Watcher, next int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.gone || st.closed {
		return
	}
	w.scanned, w.next = false, next
	st.makeReady(w)
}

// synced ends w's lagging and reports whether the watch still stands. The hub calls it as w joins.
func (st *Stream) synced(w *Watcher) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.gone || st.closed {
		return false
	}
	w.lagging, w.scanned = false, false
	st.lagging--
	return true
}

func (st *Stream) makeReady(w *Watcher) {
	if !w.ready {
		w.ready = true
		st.ready = append(st.ready, w)
	}
	st.signal()
}

// Ask notes a request for progress: it is answered once every watcher is synced to at least what is current now.
func (st *Stream) Ask() {
	current, _ := st.hub.kv.Revision()
	st.mu.Lock()
	st.asked = current
	st.mu.Unlock()
	st.signal()
}

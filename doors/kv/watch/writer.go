package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
)

// Write sends until ctx ends or the sink fails. interval is the time between progress answers.
func (st *Stream) Write(ctx context.Context, interval time.Duration) error {
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
			if err := st.serve(ctx, w); err != nil {
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
			if err := st.sink.Answer(a); err != nil {
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

func (st *Stream) sendControl() error {
	for {
		select {
		case a := <-st.control:
			if err := st.sink.Answer(a); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (st *Stream) pop() *Watcher {
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

// serve sends some of w's queue, or a piece of its backlog.
func (st *Stream) serve(ctx context.Context, w *Watcher) error {
	st.mu.Lock()
	lagging := !w.gone && w.lagging && !w.scanned
	n, size := w.front()
	st.mu.Unlock()
	if n == 0 {
		if lagging {
			return st.catchUp(ctx, w)
		}
		return nil
	}
	if err := st.sink.Ready(ctx, size); err != nil {
		return err
	}
	st.mu.Lock()
	if n = min(n, len(w.queue)); n == 0 { // cancelled meanwhile
		st.mu.Unlock()
		return nil
	}
	batches := w.queue[:n:n]
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	w.quiet = false
	if len(w.queue) > 0 || w.lagging && !w.scanned {
		st.makeReady(w)
	}
	st.mu.Unlock()
	err := st.sink.Events(w, batches, batches[n-1].Revision)
	st.sent(batches)
	clear(batches) // the queue's memory must not keep them
	return err
}

// front is how many of the batches on w's queue go out together, and their size. stream.mu is held.
func (w *Watcher) front() (n int, size int64) {
	for n < len(w.queue) && (n == 0 || size+w.queue[n].bytes <= maxAnswerBytes) {
		size += w.queue[n].bytes
		n++
	}
	return n, size
}

// catchUp reads the next piece of what w missed, and lets w join the hub if that was all of it. If little of the piece concerns w and
// much is left, the scan goes on instead. The piece is sent either way.
func (st *Stream) catchUp(ctx context.Context, w *Watcher) error {
	h := st.hub
	next := w.next // only the writer moves it while w lags, unless the scan has w
	current, _ := h.kv.Revision()
	if next > current { // a watch from a revision that is not there yet
		h.join(w, next)
		st.again(w, next)
		return nil
	}
	room := max(w.revisionBytes, catchUpBytes)
	if err := st.sink.Ready(ctx, room); err != nil {
		return err
	}
	current, compacted := h.kv.Revision() // it may have waited for long
	if next < compacted {                 // the ring may still have it, but a client's view must not depend on that
		return st.compacted(w, compacted)
	}
	events, looked, upTo, err := st.piece(w, next, current)
	if errors.Is(err, kvmachine.ErrCompacted) {
		_, compacted = h.kv.Revision()
		return st.compacted(w, compacted)
	}
	if err != nil {
		return status.Error(codes.Unavailable, "etcdserver: read watch history: "+err.Error())
	}
	var b *Batch
	if w.revisionBytes = 0; len(events) > 0 {
		if b = newBatch(events); b.bytes > 2*room { // it is read again when there is room for it
			w.revisionBytes = b.bytes
			st.again(w, next)
			return nil
		}
	}
	st.mu.Lock()
	w.next = upTo + 1
	if len(events) > 0 {
		w.quiet = false
	}
	st.mu.Unlock()
	// Join before sending: the queue is not touched until this goroutine is done with the piece.
	switch {
	case len(w.End) > 0 && current-upTo >= h.limits.farBehind && len(events)*h.limits.sparse < looked:
		h.scanFor(w, upTo+1)
	case !h.join(w, upTo+1):
		st.again(w, upTo+1)
	}
	if b == nil {
		return st.sink.Ready(ctx, 0)
	}
	return st.sink.Events(w, []*Batch{b}, upTo)
}

// piece reads from the ring while that reaches back far enough, else from history, and returns how many changes it has looked at for it. A
// single key that lacks much reads its own history, even if the ring reaches back.
func (st *Stream) piece(w *Watcher, next, current int64) (events []kvmachine.Event, looked int, upTo int64, err error) {
	kv, limits, single := st.hub.kv, &st.hub.limits, len(w.End) == 0
	if !single || current-next < limits.farBehind {
		if recent, last, ok, _ := kv.Recent(next - 1); ok {
			events, upTo = st.pick(w, recent, last)
			return events, len(recent), upTo, nil
		}
	}
	after := next
	if single {
		events, after, err = kv.History(w.Key, nil, next, current, catchUpBytes)
	} else {
		events, after, err = kv.HistoryOf(next, current, catchUpBytes, limits.tryChanges, func(key []byte) bool {
			looked++
			return w.matches(key)
		})
	}
	if err != nil {
		return nil, 0, next, err
	}
	events, upTo = st.pick(w, events, after-1)
	return events, looked, upTo, nil
}

// pick copies the events w wants, whole revisions up to about catchUpBytes, and returns the last revision looked at.
func (st *Stream) pick(w *Watcher, events []kvmachine.Event, upTo int64) ([]kvmachine.Event, int64) {
	var picked []kvmachine.Event
	size := 0
	for i := range events {
		e := &events[i]
		if size >= catchUpBytes && i > 0 && e.KV.ModRevision != events[i-1].KV.ModRevision {
			return picked, events[i-1].KV.ModRevision
		}
		if e.KV.ModRevision < w.next || !w.matches(e.KV.Key) || !w.Wants(e) {
			continue
		}
		picked = append(picked, *e)
		size += len(e.KV.Key) + len(e.KV.Value)
	}
	return picked, upTo
}

// again puts w back on the ready list if it still lags.
func (st *Stream) again(w *Watcher, next int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.lagging && !w.gone {
		w.next = next
		st.makeReady(w)
	}
}

// compacted ends a watch whose next revision is gone.
func (st *Stream) compacted(w *Watcher, at int64) error {
	st.mu.Lock()
	gone := w.gone
	st.forget(w)
	st.mu.Unlock()
	if gone {
		return nil
	}
	return st.sink.Answer(&Answer{ID: w.id, Canceled: true, Compact: at})
}

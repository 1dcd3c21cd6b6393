package watch

import (
	"errors"
	"math"
	"slices"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
)

// To catch up on a range that has long been quiet, all changes elsewhere must be walked. One scan does that for all watchers of such
// ranges. It walks the changes once, from the watcher furthest behind to the present. It queues for each watcher its events, as the hub
// does with new ones. A watcher takes part when its stream's writer has seen that few of many changes concern it (Stream.catchUp). One with
// many events is better served by its writer, at the pace of its client. It leaves to the hub at the end of a round, or before, when its
// queue is full or an error occurs. Then its writer goes on from there, and may come back for the next round. Rejected: a scan for each
// watcher, since a thousand of them walk the same history a thousand times. Also rejected: a scan that waits for a client, since it would
// hold up all others.
type scan struct {
	index               // those that take part in the round
	at    int64         // the next revision the round looks at
	come  []*Watcher    // since the last piece
	late  []*Watcher    // for the next round, since this one has passed what they lack
	wake  chan struct{} // capacity 1: some have come
}

// scanFor has w take part from revision next on. It lags until the scan hands it to the hub, or back to its writer.
func (h *Hub) scanFor(w *Watcher, next int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.stream.handOver(w) {
		return
	}
	w.min, w.waits = next, true
	h.scan.come = append(h.scan.come, w)
	select {
	case h.scan.wake <- struct{}{}:
	default:
	}
}

// runScan scans while watchers take part, until stop is closed.
func (h *Hub) runScan(stop <-chan struct{}) {
	for {
		select {
		case <-h.scan.wake:
		case <-stop:
			return
		}
		for h.admit() {
			select {
			case <-stop:
				return
			default:
				h.scanPiece()
			}
		}
	}
}

// admit adds new watchers before the next piece is read, if the round has not passed the changes they lack. It begins a new round when one
// has ended, and reports whether any watcher takes part. It is not called while a piece is read: the watchers of a piece are fixed when it
// begins.
func (h *Hub) admit() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.scan
	come := slices.DeleteFunc(s.come, func(w *Watcher) bool { return !w.waits }) // cancelled meanwhile
	s.come = nil
	if s.members == 0 {
		come = append(come, slices.DeleteFunc(s.late, func(w *Watcher) bool { return !w.waits })...)
		s.late, s.at = nil, math.MaxInt64
		for _, w := range come {
			s.at = min(s.at, w.min)
		}
	}
	for _, w := range come {
		if w.min < s.at {
			s.late = append(s.late, w)
			continue
		}
		w.waits = false
		s.enter(w)
	}
	return s.members > 0
}

// scanPiece carries the round on by a piece.
func (h *Hub) scanPiece() {
	s, at := &h.scan, h.scan.at // only this goroutine moves it
	current, compacted := h.kv.Revision()
	switch {
	case at < compacted:
		h.overtaken(compacted)
		return
	case at > current:
		h.joinScanned(at)
		return
	}
	events, upTo, ok, _ := h.kv.Recent(at - 1)
	if !ok {
		next, err := int64(0), error(nil)
		events, next, err = h.kv.HistoryOf(at, current, catchUpBytes, h.limits.scanChanges, func(key []byte) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return s.watches(key)
		})
		if errors.Is(err, kvmachine.ErrCompacted) {
			return // Revision tells next time
		}
		if err != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, w := range s.all() { // each writer meets the failure itself, and tells its client
				h.giveBack(w, max(at, w.min))
			}
			return
		}
		upTo = next - 1
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(events) > 0 {
		var one []kvmachine.Event
		one, events = ofOneRevision(events)
		s.match(one, func(g *group, hits []kvmachine.Event) {
			// A copy: queued events must not keep the whole read in memory.
			h.push(g, newBatch(copied(hits)), h.giveBack)
		})
	}
	s.at = upTo + 1
}

// giveBack has w's writer go on from revision next. hub.mu is held.
func (h *Hub) giveBack(w *Watcher, next int64) {
	h.leave(w)
	w.stream.takeBack(w, next)
}

// overtaken gives back those that lack something that is gone: their writers end them.
func (h *Hub) overtaken(compacted int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.scan.all() {
		if next := max(h.scan.at, w.min); next < compacted {
			h.giveBack(w, next)
		}
	}
	h.scan.at = compacted
}

// joinScanned ends a round that has come to revision at: only changes that the hub has yet to see are left, unless it was quicker.
func (h *Hub) joinScanned(at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.mayJoin(at) {
		return
	}
	for _, w := range h.scan.all() {
		h.leave(w)
		if w.stream.synced(w) {
			w.min = max(w.min, at)
			h.enter(w)
			w.stream.signal() // its writer may wait with a progress answer
		}
	}
}

// copied is a copy of events in memory of their own.
func copied(events []kvmachine.Event) []kvmachine.Event {
	n := 0
	for i := range events {
		n += len(events[i].KV.Key) + len(events[i].KV.Value)
	}
	data := make([]byte, 0, n)
	own := make([]kvmachine.Event, len(events))
	for i, e := range events {
		from := len(data)
		data = append(data, e.KV.Key...)
		e.KV.Key = data[from:len(data):len(data)]
		from = len(data)
		data = append(data, e.KV.Value...)
		e.KV.Value = data[from:len(data):len(data)]
		own[i] = e
	}
	return own
}

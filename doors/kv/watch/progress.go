package watch

// Broadcast is the watch id of a progress answer that concerns all watches of a stream.
const Broadcast = -1

// sendProgress answers a request for progress when its time has come. A watch that waits for a future revision has no
// progress to report: the request is dropped, as in etcd.
func (st *Stream) sendProgress() error {
	h := st.hub
	h.mu.Lock()
	st.mu.Lock()
	revision, due := h.seen, false
	switch {
	case st.asked == 0:
	case len(st.watchers) == 0:
		st.asked = 0
	case st.lagging > 0 || len(st.ready) > 0: // the writer comes back here after them, and the scan wakes it
	case h.seen < st.asked:
		h.waiting[st] = struct{}{}
	default:
		due = true
		for _, w := range st.watchers {
			switch {
			case w.in != &h.live: // announced, but not started
				due = false
			case w.Start > h.seen:
				st.asked = 0
			case !w.reached(h.seen): // the scan has brought it further than the hub is
				due, h.waiting[st] = false, struct{}{}
			}
		}
		due = due && st.asked != 0
		if due {
			st.asked = 0
		}
	}
	st.mu.Unlock()
	h.mu.Unlock()
	if !due {
		return nil
	}
	return st.sink.Answer(&Answer{ID: Broadcast, Revision: revision})
}

// reached reports whether revision is progress for w, which is in the hub. There is none before the revision at which a watch was asked to
// begin, not even right before it, as in etcd. A client that resumed from such a report would begin earlier than it asked to. hub.mu is
// held.
func (w *Watcher) reached(revision int64) bool { return w.Start <= revision && w.min <= revision+1 }

// wantsTicks is asked each time the stream becomes idle, that is after each event of a quiet stream. Looking at all watchers there was most
// of an event's cost beside ten thousand of them.
func (st *Stream) wantsTicks() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ticking > 0
}

// sendTicks reports progress to every watch that wants it, is synced, and was not sent anything since the last tick.
func (st *Stream) sendTicks() error {
	h := st.hub
	h.mu.Lock()
	st.mu.Lock()
	revision := h.seen
	var due []int64
	for id, w := range st.watchers {
		if !w.Progress {
			continue
		}
		if w.quiet && w.in == &h.live && len(w.queue) == 0 && w.reached(revision) {
			due = append(due, id)
		}
		w.quiet = true
	}
	st.mu.Unlock()
	h.mu.Unlock()
	for _, id := range due {
		if err := st.sink.Answer(&Answer{ID: id, Revision: revision}); err != nil {
			return err
		}
	}
	return nil
}

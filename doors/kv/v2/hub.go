package v2

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"

	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
)

// A bound on the memory of watchers that do not read. Past it, or past hub.maxPinned, the connection is closed: the client sees that, and can go on
// from the last index it has.
const maxQueued = 100 // events per watch, as in etcd

// reader is the hub's view of the machine.
type reader interface {
	Index() uint64
	Recent(after uint64) (evs []*v2machine.Event, index uint64, ok bool, changed <-chan struct{})
	Scan(since uint64, match func(*v2machine.Event) bool) (found *v2machine.Event, index uint64, err error)
}

// hub hands events to the watches that wait. One goroutine (run) follows the machine's ring of recent events; it never waits
// for a watcher and Apply never waits for it.
type hub struct {
	machine reader
	limit   int
	// maxPinned bounds the bytes of events on all queues together, each counted once.
	maxPinned int64
	wake      chan struct{} // capacity 1: there is a watch again
	quit      chan struct{}
	pinned    atomic.Int64

	mu      sync.Mutex // guards the rest; taken before a watch's mu
	started bool
	closed  bool
	seen    uint64 // events up to here have been handed out
	count   int
	paths   map[string]map[*watch]struct{}
	below   map[string]int // for each directory, how many watches wait strictly below it
}

func newHub(m reader, stopped <-chan struct{}, limit int, maxPinned int64) *hub {
	h := &hub{machine: m, limit: limit, maxPinned: maxPinned, wake: make(chan struct{}, 1), quit: make(chan struct{}),
		paths: map[string]map[*watch]struct{}{}, below: map[string]int{}}
	if stopped != nil {
		go func() {
			select {
			case <-stopped:
				h.close()
			case <-h.quit:
			}
		}()
	}
	return h
}

// close ends all watches and refuses others.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	close(h.quit)
	h.cutAll()
}

// cutAll ends all watches; the caller holds mu.
func (h *hub) cutAll() {
	for _, ws := range h.paths {
		for w := range ws {
			h.forget(w)
			w.end()
		}
	}
}

// waiting is the number of watches.
func (h *hub) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// add begins w, which waits for the first event (a stream: all events) from since on, 0 = from the next one on. An event already in the
// history is returned at once as first, and w is registered only if it is a stream. index is the machine's when the watch began.
func (h *hub) add(w *watch, since uint64) (first *v2machine.Event, index uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, 0, errClosed
	case h.count >= h.limit:
		return nil, 0, errTooManyWatchers
	}
	if since == 0 {
		index = h.machine.Index()
	} else if first, index, err = h.machine.Scan(since, w.inHistory); err != nil {
		return nil, index, err
	}
	// The hub's next event is at or before index + 1, so nothing falls between the history and the hub. Its events up to index were looked
	// at above.
	w.from = max(index+1, since)
	if first != nil {
		if !w.stream {
			return first, index, nil
		}
		if w.from, err = h.queueHistory(w, first, index); err != nil {
			w.drop(h) // the notices on its queue count as pinned
			return nil, index, err
		}
	}
	if h.count == 0 {
		h.seen = index
	}
	h.count++
	ws := h.paths[w.path]
	if ws == nil {
		ws = map[*watch]struct{}{}
		h.paths[w.path] = ws
	}
	ws[w] = struct{}{}
	eachParent(w.path, func(dir string) { h.below[dir]++ })
	w.registered = true
	if !h.started {
		h.started = true
		go h.run()
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return first, index, nil
}

// queueHistory fills a stream's queue from the history as far as it has room, and returns the index from which the hub continues. The
// original sends the first event only and then nothing; a client that streams from an index wants all of them.
func (h *hub) queueHistory(w *watch, first *v2machine.Event, index uint64) (from uint64, err error) {
	for e := first; e != nil && e.Index() <= index; {
		if !w.push(newNotice(e), h) {
			return 0, errTooManyEvents
		}
		if e, _, err = h.machine.Scan(e.Index()+1, w.inHistory); err != nil {
			return 0, err
		}
	}
	return index + 1, nil
}

// eachParent calls fn for every directory above path.
func eachParent(path string, fn func(dir string)) {
	if path == "/" {
		return
	}
	fn("/")
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			fn(path[:i])
		}
	}
}

// remove ends a watch whose client has gone or whose time is over.
func (h *hub) remove(w *watch) {
	h.mu.Lock()
	h.forget(w)
	h.mu.Unlock()
	w.drop(h)
}

// forget takes w out of the hub; the caller holds mu.
func (h *hub) forget(w *watch) {
	if !w.registered {
		return
	}
	w.registered = false
	h.count--
	ws := h.paths[w.path]
	delete(ws, w)
	if len(ws) == 0 {
		delete(h.paths, w.path)
	}
	eachParent(w.path, func(dir string) {
		if h.below[dir]--; h.below[dir] == 0 {
			delete(h.below, dir)
		}
	})
}

// run follows the machine until the hub is closed.
func (h *hub) run() {
	for {
		h.mu.Lock()
		seen, count := h.seen, h.count
		h.mu.Unlock()
		if count == 0 {
			select {
			case <-h.wake:
			case <-h.quit:
				return
			}
			continue
		}
		evs, index, ok, changed := h.machine.Recent(seen)
		if ok && len(evs) == 0 {
			select {
			case <-changed:
			case <-h.wake: // all watches left and another came, perhaps with seen set back
			case <-h.quit:
				return
			}
			continue
		}
		h.hand(seen, evs, index, ok)
	}
}

// hand gives events, which follow from, to the watches they concern. If the ring no longer reached back to from, every watch is
// ended: events are missing, and a watch must not go on without them.
func (h *hub) hand(from uint64, evs []*v2machine.Event, index uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen != from {
		return // the last watch left meanwhile and another came
	}
	if !ok {
		h.cutAll()
		h.seen = index
		return
	}
	for _, e := range evs {
		if !e.Refresh {
			h.match(e)
		}
		h.seen = e.Index()
	}
}

// match gives one event to the watches it concerns: those at its path, and recursive ones above it, unless a hidden name lies between. If a
// directory is removed, it also concerns the watches below it. The caller holds mu.
func (h *hub) match(e *v2machine.Event) {
	path := e.Node.Path
	var n *notice
	give := func(ws map[*watch]struct{}, all bool) {
		for w := range ws {
			if (all || w.recursive) && e.Index() >= w.from {
				if n == nil {
					n = newNotice(e)
				}
				if !w.push(n, h) {
					h.forget(w)
					w.end()
				} else if !w.stream {
					h.forget(w)
				}
			}
		}
	}
	give(h.paths[string(path)], true)
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] != '/' {
			continue
		}
		if path[i+1] == '_' { // it and all below are hidden from here up
			break
		}
		give(h.paths[string(path[:max(i, 1)])], false)
	}
	if removesDir(e) && h.below[string(path)] > 0 {
		for p, ws := range h.paths {
			if len(p) > len(path) && p[len(path)] == '/' && p[:len(path)] == string(path) && e.Removed(p) {
				give(ws, true)
			}
		}
	}
}

func removesDir(e *v2machine.Event) bool {
	return (e.Action == v2machine.Delete || e.Action == v2machine.Expire) && e.HasPrev && e.Prev.Dir
}

// inHistory reports whether an event of the history is one w waits for. It is etcd's rule, which differs from that for watches already
// waiting. A recursive watch sees hidden nodes here. A removed directory concerns every watch whose path begins with its name, "/ab/c" for
// "/a" (etcd 3.4 compares without a slash; EventHistory.scan).
func (w *watch) inHistory(e *v2machine.Event) bool {
	if e.Refresh {
		return false
	}
	path := e.Node.Path
	return string(path) == w.path || w.recursive && isBelow(path, []byte(w.path)) || removesDir(e) && strings.HasPrefix(w.path, string(path))
}

// isBelow reports whether path lies below dir.
func isBelow(path, dir []byte) bool {
	if len(dir) == 1 {
		return len(path) > 1
	}
	return len(path) > len(dir) && path[len(dir)] == '/' && bytes.HasPrefix(path, dir)
}

// notice is an event on its way to watches, encoded once for all of them.
type notice struct {
	event *v2machine.Event
	bytes int64
	refs  atomic.Int32 // queues it stands on
	once  sync.Once
	json  []byte
}

func newNotice(e *v2machine.Event) *notice {
	return &notice{event: e, bytes: int64(256 + len(e.Node.Path) + 2*len(e.Node.Value) + 2*len(e.Prev.Value))}
}

func (n *notice) encoded() []byte {
	n.once.Do(func() { n.json = appendEvent(nil, n.event, false) })
	return n.json
}

// pin counts the notice on one more queue; false if too much is pinned already.
func (h *hub) pin(n *notice) bool {
	if n.refs.Add(1) == 1 {
		if h.pinned.Add(n.bytes) > h.maxPinned && n.bytes < h.pinned.Load() {
			h.unpin(n)
			return false
		}
	}
	return true
}

// unpin takes it off one queue.
func (h *hub) unpin(n *notice) {
	if n.refs.Add(-1) == 0 {
		h.pinned.Add(-n.bytes)
	}
}

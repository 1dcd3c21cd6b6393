package machine

import (
	"slices"
	"sync"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// note is the news of a command for the watchers of a gid.
type note struct {
	gid    string
	state  sagapart.State
	passes uint32
	ended  bool
}

// watches are the watchers of each gid. Any goroutine.
type watches struct {
	mu   sync.Mutex // guards the rest; nothing waits under it
	of   map[string][]*watch
	some []*watch // scratch of tell; apply goroutine only
}

type watch struct {
	f func(s sagapart.State, passes uint32, ended bool)
}

// Watch calls f with each change of status of a gid's transaction from now on, and each end of a pass over it. f gets the status, the
// number of ended passes, and whether one ended now. It is called by the goroutine that applies entries, while readers wait: it must not
// block and not call the machine. cancel ends it; it may be called from f, and f may still be called once while it runs. To wait for an
// outcome, watch first and propose then. Any goroutine.
func (m *Machine) Watch(gid string, f func(s sagapart.State, passes uint32, ended bool)) (cancel func()) {
	w, ws := &watch{f}, &m.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.of == nil {
		ws.of = map[string][]*watch{}
	}
	ws.of[gid] = append(ws.of[gid], w)
	return func() { ws.drop(gid, w) }
}

// drop ends a watch; one that has ended stays so.
func (ws *watches) drop(gid string, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	all := ws.of[gid]
	if i := slices.Index(all, w); i >= 0 {
		if all = slices.Delete(all, i, i+1); len(all) == 0 {
			delete(ws.of, gid)
		} else {
			ws.of[gid] = all
		}
	}
}

// tell calls the watchers, note after note. Most members have none.
func (ws *watches) tell(notes []note) {
	ws.mu.Lock()
	nobody := len(ws.of) == 0
	ws.mu.Unlock()
	if nobody {
		return
	}
	for i := range notes {
		n := &notes[i]
		ws.mu.Lock()
		ws.some = append(ws.some[:0], ws.of[n.gid]...)
		ws.mu.Unlock()
		for _, w := range ws.some { // without the lock: f may cancel
			w.f(n.state, n.passes, n.ended)
		}
		clear(ws.some)
	}
}

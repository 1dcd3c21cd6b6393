package node

import (
	"errors"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/store"
)

// A View pins every version of a row that is replaced after it, on disk and in the store's tables, so it ends by itself: after a while,
// and after so much has been written since (DECISIONS B3).
const (
	viewAge   = 10 * time.Minute
	viewBytes = 1 << 30
	maxViews  = 1024
)

var (
	// ErrViewEnded: the View is older than it may be, by time or by what was written since; read again from a new one.
	ErrViewEnded = errors.New("the view has ended: it was too old")
	// ErrTooManyViews: so many are open that another one has to wait.
	ErrTooManyViews = errors.New("too many views are open")
)

// View is the rows of all machines as of one applied index: a command is in it whole or not at all, whichever machines its
// parts were for. It holds rows only: what machines keep in memory is not part of it (doors/kv/machine.At and the like read from
// one). Safe for concurrent use, but Close waits for no reader; iterators are closed first.
type View struct {
	// Index is the applied index. It does not change.
	Index uint64

	of     *views
	born   time.Duration
	before uint64 // what had been written by then, in bytes

	mu    sync.RWMutex
	rows  store.View // guarded by mu; nil once it has ended
	ended error      // guarded by mu
}

// View returns the rows of all machines as of one applied index, which is at least that of every result this member has given before.
// Read it after Linearize, or accept any age. The caller closes it. Errors: ErrTooManyViews, ErrStopped.
func (n *Node) View() (*View, error) {
	if n.stopping.Load() {
		return nil, ErrStopped
	}
	return n.views.open(n)
}

// Get implements store.Reader.
func (v *View) Get(dst, key []byte) (val []byte, ok bool, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.rows == nil {
		return nil, false, v.ended
	}
	return v.rows.Get(dst, key)
}

// NewIter implements store.Reader. An iterator goes on if the View ends meanwhile.
func (v *View) NewIter(lower, upper []byte) (store.Iter, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.rows == nil {
		return nil, v.ended
	}
	return v.rows.NewIter(lower, upper)
}

// Close lets go of the rows. Idempotent.
func (v *View) Close() error {
	v.of.forget(v)
	return v.end(store.ErrClosed)
}

func (v *View) end(why error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rows == nil {
		return nil
	}
	rows := v.rows
	v.rows, v.ended = nil, why
	return rows.Close()
}

// views are those that are open.
type views struct {
	mu   sync.Mutex
	all  map[*View]struct{} // guarded by mu
	dead bool               // guarded by mu: the node has stopped
}

func (s *views) open(n *Node) (*View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dead:
		return nil, ErrStopped
	case len(s.all) >= maxViews:
		return nil, ErrTooManyViews
	}
	v := &View{of: s, born: n.clock.Mono(), before: n.applier.Written()}
	v.rows, v.Index = n.applier.View()
	if s.all == nil {
		s.all = map[*View]struct{}{}
	}
	s.all[v] = struct{}{}
	return v, nil
}

func (s *views) forget(v *View) {
	s.mu.Lock()
	delete(s.all, v)
	s.mu.Unlock()
}

// expire ends those that are too old.
func (s *views) expire(now time.Duration, written uint64) {
	s.endThose(func(v *View) bool { return now-v.born > viewAge || written-v.before > viewBytes }, ErrViewEnded)
}

// close ends all, for good: the store is about to be closed.
func (s *views) close() {
	s.mu.Lock()
	s.dead = true
	s.mu.Unlock()
	s.endThose(func(*View) bool { return true }, ErrStopped)
}

func (s *views) endThose(which func(*View) bool, why error) {
	s.mu.Lock()
	var old []*View
	for v := range s.all { // any order: each ends by itself
		if which(v) {
			old = append(old, v)
			delete(s.all, v)
		}
	}
	s.mu.Unlock()
	for _, v := range old {
		v.end(why) // nothing was written through it, so nothing can be lost
	}
}

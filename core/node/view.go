package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/store"
)

// A View keeps the store from dropping row versions that were replaced after it. So it ends by itself: after a while, and once it pins too
// many bytes (DECISIONS B3). Its reader may say otherwise.
const (
	ViewAge   = 10 * time.Minute
	ViewBytes = 1 << 30
	// mostShared bounds the states of the store that are kept for Views. Views of one applied index have one between them.
	mostShared = 4096
)

var (
	// ErrViewEnded: the View is older than it may be, by time or by the bytes that it pins; read again from a new one.
	ErrViewEnded = errors.New("the view has ended: it was too old")
	// ErrTooManyViews: so many states of the store are kept for Views that another one has to wait.
	ErrTooManyViews = errors.New("too many views are open")
)

// View is the rows of all machines at one applied index. It has the whole effect of a command or none, in every machine. It holds rows
// only: the machines' memory is not part of it (doors/kv/machine.At and the like read from one). Safe for concurrent use, but Close waits
// for no reader; iterators are closed first.
type View struct {
	// Index is the applied index. It does not change.
	Index uint64

	of     *views
	on     *shared
	born   time.Duration
	before uint64       // bytes superseded in the store by then
	age    atomic.Int64 // nanoseconds after which it ends; 0: it does not
	bytes  atomic.Int64 // so many pinned ones end it

	mu    sync.RWMutex
	rows  store.View // guarded by mu; nil once it has ended
	ended error      // guarded by mu
}

// shared is the state of the store that all Views of one applied index read.
type shared struct {
	index uint64
	rows  store.View
	views int   // that are open; guarded by views.mu
	size  int64 // of the store when it was young, in bytes; 0: not measured yet; guarded by views.mu
}

// View returns the rows of all machines as of one applied index, which is at least that of every result this member has given before.
// Read it after Linearize, or accept any age. The caller closes it. It ends after ViewAge and ViewBytes. Errors: ErrTooManyViews, ErrStopped.
func (n *Node) View() (*View, error) {
	if n.stopping.Load() {
		return nil, ErrStopped
	}
	return n.views.open(n)
}

// Get reads a row as the store has it now, without a View: for callers who know that no command changes the row meanwhile. The row of every result that this
// member has given before is there. It costs neither a state of the store nor a lock that Views share. Errors: ErrStopped, those of the store.
func (n *Node) Get(dst, key []byte) (val []byte, ok bool, err error) {
	if n.stopping.Load() {
		return dst, false, ErrStopped
	}
	if val, ok, err = n.store.Get(dst, key); errors.Is(err, store.ErrClosed) {
		err = ErrStopped
	}
	return val, ok, err
}

// Limit sets after what time the View ends, and how many bytes it may pin. An age of 0: bytes alone decide. It may be called again.
func (v *View) Limit(age time.Duration, bytes int64) {
	v.age.Store(int64(age))
	v.bytes.Store(bytes)
}

// Age is how long ago the View was opened.
func (v *View) Age() time.Duration { return v.of.clock() - v.born }

// Pinned estimates the bytes that the store keeps only for the View: rows replaced or deleted since, at most the store's size then.
func (v *View) Pinned() int64 {
	superseded := v.of.superseded()
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	return v.pinned(superseded)
}

// pinned is Pinned for a given total of superseded bytes. Guarded by views.mu.
func (v *View) pinned(superseded uint64) int64 {
	n := int64(superseded - v.before)
	if v.on.size > 0 {
		n = min(n, v.on.size)
	}
	return n
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

// Close releases the rows. Idempotent.
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
	v.rows, v.ended = nil, why
	return v.of.release(v.on)
}

// ViewCounts say what Views there are.
type ViewCounts struct {
	Open, States int           // Views, and the states of the store that they read
	Oldest       time.Duration // age of the oldest one; 0: none is open
	Pinned       int64         // bytes that the costliest View pins
	// TooOld and TooLarge are how many have ended by time and by their bytes, since the start.
	TooOld, TooLarge uint64
}

// ViewCounts returns what Views there are. Any goroutine.
func (n *Node) ViewCounts() (c ViewCounts) {
	s := &n.views
	now, superseded := n.clock.Mono(), n.store.Superseded()
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Open, c.States, c.TooOld, c.TooLarge = len(s.all), s.states, s.tooOld, s.tooLarge
	for v := range s.all { // any order: the largest
		c.Oldest, c.Pinned = max(c.Oldest, now-v.born), max(c.Pinned, v.pinned(superseded))
	}
	return c
}

// views are those that are open.
type views struct {
	clock      func() time.Duration
	superseded func() uint64

	mu     sync.Mutex
	all    map[*View]struct{} // guarded by mu, as all below
	newest *shared            // kept for the next View, even without a reader; nil: none is
	states int                // that are kept
	dead   bool               // the node has stopped

	tooOld, tooLarge uint64
}

func (s *views) open(n *Node) (*View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nil, ErrStopped
	}
	if s.all == nil {
		s.all, s.clock, s.superseded = map[*View]struct{}{}, n.clock.Mono, n.store.Superseded
	}
	// Applied moves before an entry becomes visible: a state of that index covers every result shown before this call.
	if s.newest == nil || s.newest.index != n.applier.Applied() {
		if s.states >= mostShared {
			return nil, ErrTooManyViews
		}
		s.letGo()
		s.newest = &shared{}
		s.newest.rows, s.newest.index = n.applier.View()
		s.states++
	}
	on := s.newest
	on.views++
	// The bytes are counted before the clock is asked: a View must not look younger than it is.
	v := &View{Index: on.index, of: s, on: on, rows: on.rows, before: n.store.Superseded(), born: n.clock.Mono()}
	v.Limit(ViewAge, ViewBytes)
	s.all[v] = struct{}{}
	return v, nil
}

// letGo closes the newest state, or leaves the closing to its last reader. Guarded by mu.
func (s *views) letGo() {
	on := s.newest
	if s.newest = nil; on != nil && on.views == 0 {
		s.states--
		_ = on.rows.Close() // nothing was written through it, so nothing can be lost
	}
}

// release closes a state when its last View is closed. The newest one stays for the next View.
func (s *views) release(on *shared) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on.views--; on.views > 0 || on == s.newest {
		return nil
	}
	s.states--
	return on.rows.Close()
}

func (s *views) forget(v *View) {
	s.mu.Lock()
	delete(s.all, v)
	s.mu.Unlock()
}

// expire ends the states that are too old. A state without readers is kept only until its successor replaces it. size asks how large the
// store is; it is called if a state is new.
func (s *views) expire(now time.Duration, superseded, applied uint64, size func() int64) {
	s.mu.Lock()
	if s.newest != nil && s.newest.index != applied {
		s.letGo()
	}
	stored := int64(0)
	for v := range s.all { // any order: each gets the same
		if v.on.size == 0 {
			if stored == 0 {
				stored = size()
			}
			v.on.size = stored
		}
	}
	s.mu.Unlock()
	s.endThose(func(v *View) bool {
		if age := v.age.Load(); age > 0 && now-v.born > time.Duration(age) {
			s.tooOld++
			return true
		}
		if v.pinned(superseded) > v.bytes.Load() {
			s.tooLarge++
			return true
		}
		return false
	}, ErrViewEnded)
}

// close ends all, for good: the store is about to be closed.
func (s *views) close() {
	s.mu.Lock()
	s.dead = true
	s.letGo()
	s.mu.Unlock()
	s.endThose(func(*View) bool { return true }, ErrStopped)
}

// endThose ends the Views of which that is so. which is called under mu.
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

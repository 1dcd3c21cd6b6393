package txn

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/turn"
)

// Hold has what a session keeps locked beyond its transactions: names (GET_LOCK), tables (LOCK TABLES), and all writes of others (FLUSH TABLES WITH READ
// LOCK). It belongs to one term, and ends with it: then Over reports true, and the session has to learn that its locks are gone. A transaction
// that begins beside it does not wait for its locks. A Hold belongs to the goroutine of its session.
type Hold struct {
	t      *term
	owner  *lock.Owner
	turn   *turn.Turn
	names  map[string]int  // how often each was taken
	tables map[uint64]bool // by id
	froze  bool
	waits  since
}

// names says which connection has each name. A name is here once its lock is granted, and until it is given back.
type names struct {
	mu sync.Mutex
	of map[string]uint32 // guarded by mu
}

// freeze keeps writes out while a session has FLUSH TABLES WITH READ LOCK. Each write costs two additions; only while there is such a session, or one
// that wants to be, it asks the table of locks.
type freeze struct {
	writers atomic.Int64
	wanted  atomic.Int64
}

var freezeKey = []byte("freeze")

func nameKey(name string) []byte { return append([]byte("name"), name...) }

// Hold begins what a session keeps locked, beside the transaction that it has open; nil: none. Errors: ErrNotLeader; ErrTermOver if the transaction is of
// a term that is over.
func (w *Worker) Hold(x *Tx, turn *turn.Turn) (*Hold, error) {
	t, err := w.term()
	if err != nil {
		return nil, err
	}
	h := &Hold{t: t, turn: turn, names: map[string]int{}, tables: map[uint64]bool{}}
	switch {
	case x == nil:
		h.owner = t.locks.Owner()
	case x.t != t:
		return nil, ErrTermOver
	default:
		h.owner = x.owner.Kin()
	}
	return h, nil
}

// Begin begins a transaction of the session. Error: ErrTermOver, and the locks are gone.
func (h *Hold) Begin() (*Tx, error) {
	if h.Over() {
		return nil, ErrTermOver
	}
	return h.t.begin(h.owner.Kin()), nil
}

// Over reports whether the term is over.
func (h *Hold) Over() bool {
	t, err := h.t.w.term()
	return err != nil || t != h.t
}

// confirm returns nil if the term was not over after the call: no other member has given the same lock.
func (h *Hold) confirm() error {
	h.turn.Leave()
	err := worker.Confirm(h.t.w.m, h.t.number)
	if errors.Is(err, node.ErrSuperseded) {
		return ErrTermOver
	}
	return err
}

func (h *Hold) lock(key []byte, mode lock.Mode, wait Wait) error {
	r, err := h.owner.Lock(key, mode, wait.Time != 0)
	return h.t.await(h.owner, r, err, h.turn, wait, &h.waits)
}

// LockName takes a name once more; id is of the connection. Errors: ErrBusy, ErrLockTimeout, ErrInterrupted, ErrDeadlock, ErrTooManyLocks, and the session
// goes on; ErrTermOver.
func (h *Hold) LockName(name string, id uint32, wait Wait) error {
	if h.names[name] == 0 {
		if err := h.lock(nameKey(name), lock.Exclusive, wait); err != nil {
			return err
		}
		if err := h.confirm(); err != nil {
			return err
		}
		h.t.names.mu.Lock()
		h.t.names.of[name] = id
		h.t.names.mu.Unlock()
	}
	h.names[name]++
	return nil
}

// UnlockName gives a name back once. It reports false if the session does not have it.
func (h *Hold) UnlockName(name string) bool {
	switch h.names[name] {
	case 0:
		return false
	case 1:
		delete(h.names, name)
		h.forget(name)
		h.owner.Unlock(nameKey(name))
	default:
		h.names[name]--
	}
	return true
}

// forget forgets whose a name is, before another session can have it.
func (h *Hold) forget(name string) {
	h.t.names.mu.Lock()
	delete(h.t.names.of, name)
	h.t.names.mu.Unlock()
}

// Names is how many names the session has, each as often as it was taken.
func (h *Hold) Names() (n int) {
	for _, times := range h.names { // any order: a sum
		n += times
	}
	return n
}

// UnlockNames gives all names back.
func (h *Hold) UnlockNames() {
	for name := range h.names { // any order: each is given back by itself
		h.forget(name)
		h.owner.Unlock(nameKey(name))
	}
	clear(h.names)
}

// NameOf returns which connection has a name; 0: none has. Errors: ErrNotLeader, ErrTermOver.
func (w *Worker) NameOf(name string) (uint32, error) {
	t, err := w.term()
	if err != nil {
		return 0, err
	}
	if err := worker.Confirm(w.m, t.number); err != nil {
		if errors.Is(err, node.ErrSuperseded) {
			err = ErrTermOver
		}
		return 0, err
	}
	t.names.mu.Lock()
	defer t.names.mu.Unlock()
	return t.names.of[name], nil
}

// LockTable locks a table: Shared keeps its rows as they are, Exclusive keeps others off. The caller looks its definition up once it has the lock.
// Errors: as LockName.
func (h *Hold) LockTable(table uint64, mode lock.Mode, wait Wait) error {
	if err := h.lock(tableKey(table), mode, wait); err != nil {
		return err
	}
	h.tables[table] = true
	return nil
}

// Confirm returns nil if the locks that were taken held after the call. Error: ErrTermOver.
func (h *Hold) Confirm() error { return h.confirm() }

// UnlockTables gives all tables back.
func (h *Hold) UnlockTables() {
	for id := range h.tables { // any order: each is given back by itself
		h.owner.Unlock(tableKey(id))
	}
	clear(h.tables)
}

// Thaw lets the writes of others go on.
func (h *Hold) Thaw() {
	if h.froze {
		h.t.freeze.wanted.Add(-1) // first: who gets the lock next must not find it wanted
		h.owner.Unlock(freezeKey)
		h.froze = false
	}
}

// Empty reports whether nothing is locked any more.
func (h *Hold) Empty() bool { return len(h.names) == 0 && len(h.tables) == 0 && !h.froze }

// Release gives everything back.
func (h *Hold) Release() {
	h.UnlockNames()
	h.UnlockTables()
	h.Thaw()
	h.owner.Release()
}

// drainEvery is how long a freeze waits between two looks at the writes that run.
const drainEvery = 2 * time.Millisecond

// Freeze waits for the writes that run, and keeps others out until Thaw. Errors: as LockName.
func (h *Hold) Freeze(wait Wait) error {
	if h.froze {
		return nil
	}
	f := &h.t.freeze
	f.wanted.Add(1)
	err := h.lock(freezeKey, lock.Shared, wait)
	m, waited := h.t.w.m, time.Duration(0)
	for err == nil && f.writers.Load() > 0 {
		h.turn.Leave()
		switch m.Tasks().Wait(drainEvery, wait.Interrupt, m.StoppedC()) {
		case 0:
			err = ErrInterrupted
		case 1:
			err = ErrTermOver
		}
		if waited += drainEvery; err == nil && wait.Time >= 0 && waited >= wait.Time {
			err = ErrLockTimeout
		}
	}
	if err == nil {
		err = h.confirm()
	}
	if err != nil {
		f.wanted.Add(-1)
		h.owner.Unlock(freezeKey)
		return err
	}
	h.froze = true
	return nil
}

// Frozen reports whether the session has frozen the writes of others. Its own are then refused by the caller: Write would wait for ever.
func (h *Hold) Frozen() bool { return h.froze }

// Write begins a write, a statement's or a commit's, which ends with WriteDone. It waits while another session has frozen them. Errors: as UseTable.
func (x *Tx) Write(wait Wait) error {
	f := &x.t.freeze
	for {
		if f.writers.Add(1); f.wanted.Load() == 0 {
			return nil
		}
		f.writers.Add(-1)
		if err := x.lock(freezeKey, lock.IntentExclusive, wait); err != nil {
			return err
		}
		x.owner.Unlock(freezeKey)
	}
}

// WriteDone ends a write.
func (x *Tx) WriteDone() { x.t.freeze.writers.Add(-1) }

package txn

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// What others may see of transactions and locks is told by their own goroutines in a few words of memory each: nobody waits for somebody who looks.

// since is when something began; 0: it does not go on.
type since struct{ at atomic.Int64 }

func (s *since) begin() { s.at.Store(time.Now().UnixNano()) }
func (s *since) end()   { s.at.Store(0) }

// age is for how long it goes on; 0: it does not.
func (s *since) age() time.Duration {
	at := s.at.Load()
	if at == 0 {
		return 0
	}
	return max(time.Duration(time.Now().UnixNano()-at), 1)
}

// shown is what others may see of a transaction.
type shown struct {
	began time.Time // it does not change
	waits since
	bytes atomic.Int64
	moves atomic.Bool
	view  atomic.Pointer[node.View]
}

// wrote notes how much the transaction has written.
func (s *shown) wrote(x *Tx) {
	n := int64(x.own.Bytes())
	if x.staged != nil {
		n += int64(x.staged.bytes)
	}
	s.bytes.Store(n)
}

// State says what a transaction does.
type State string

// The states.
const (
	Active   State = "active"
	Waiting  State = "waiting"  // for a lock
	Moving   State = "moving"   // committed, and its staged rows are moved to their places
	Dropping State = "dropping" // rolled back by the change of the leader, and its staged rows are dropped
	Prepared State = "prepared" // it waits for XA COMMIT or XA ROLLBACK
)

// Shown is a transaction as others see it.
type Shown struct {
	// ID is of the transaction's locks in this term; 0: it is not known here, or of a term before.
	ID    uint64
	State State
	Age   time.Duration // 0: it began in a term before
	Waits time.Duration // for a lock; 0: it does not
	Rows  int           // and entries of indexes that it has locked
	Bytes int64         // written
	Name  []byte        // of one that is prepared
	// View is that of its consistent reads; nil: it has none.
	View *node.View
}

// Show returns what others may see of the transaction. Any goroutine.
func (x *Tx) Show() Shown {
	s := Shown{ID: x.owner.ID(), State: Active, Age: time.Since(x.shown.began), Waits: x.shown.waits.age(), Rows: lockedRows(x.owner), Bytes: x.shown.bytes.Load(),
		View: x.shown.view.Load()}
	switch {
	case x.shown.moves.Load():
		s.State = Moving
	case s.Waits > 0:
		s.State = Waiting
	}
	return s
}

// ID is the number of the transaction's locks in its term. Waits is for how long it waits for one; 0: it does not. Any goroutine.
func (x *Tx) ID() uint64           { return x.owner.ID() }
func (x *Tx) Waits() time.Duration { return x.shown.waits.age() }

// Owner is the number of the locks of the Hold, and for how long it waits for one. Any goroutine.
func (h *Hold) Owner() (id uint64, waits time.Duration) { return h.owner.ID(), h.waits.age() }

// Term is that of the locks.
func (h *Hold) Term() uint64 { return h.t.number }

// lockedRows is how many rows and entries an owner has locked.
func lockedRows(o *lock.Owner) (n int) {
	o.Each(func(key string, _ bool) {
		if isRow(key) {
			n++
		}
	})
	return n
}

// isRow reports whether a lock is of a row or of an entry of an index.
func isRow(key string) bool {
	return len(key) > sqlmachine.PrefixBytes && strings.HasPrefix(key, rowPrefix)
}

// rowPrefix is what all keys of rows begin with.
var rowPrefix = string(sqlmachine.AppendPrefix(nil, 0, 0)[:2])

// Left returns the transactions that belong to no session: those that are prepared, and those that a leader before has left. On a member that does not
// lead these are all that are staged. Any goroutine.
func (w *Worker) Left() (all []Shown) {
	w.mu.Lock()
	t := w.now
	w.mu.Unlock()
	for _, s := range w.opt.Staged().All {
		switch {
		case s.Prepared:
			one := Shown{State: Prepared, Name: s.Name}
			if t != nil {
				t.mu.Lock()
				if p := t.prepared[string(s.Name)]; p != nil {
					one.ID, one.Rows = p.owner.ID(), lockedRows(p.owner)
				}
				t.mu.Unlock()
			}
			all = append(all, one)
		case t != nil && s.ID > t.before: // its session shows it
		case s.Committed:
			all = append(all, Shown{State: Moving})
		default:
			all = append(all, Shown{State: Dropping})
		}
	}
	return all
}

// What a lock is on.
type Lockable string

// The kinds of what is locked.
const (
	Row    Lockable = "row" // or an entry of an index
	Range  Lockable = "range"
	Table  Lockable = "table"
	Name   Lockable = "name"        // GET_LOCK
	Writes Lockable = "writes"      // FLUSH TABLES WITH READ LOCK
	Number Lockable = "transaction" // what a large transaction has staged
)

// Locked is a lock as others see it.
type Locked struct {
	On           Lockable
	Table, Index uint64
	Key          []byte // of a row or an entry, in its index; of a range: its first
	To           []byte // of a range: the first behind it; empty: to the end of the index
	Name         string // of GET_LOCK
	Mode         lock.Mode
	// Holder and Waiter are the numbers of transactions, as in Shown. Waiter is 0 for a lock that is had.
	Holder, Waiter uint64
}

// Locks returns what is waited for, and so many of the locks that are held at most. more: there are others. Any goroutine.
func (w *Worker) Locks(most int) (all []Locked, more bool) {
	t, err := w.term()
	if err != nil {
		return nil, false
	}
	shown, more := t.locks.Show(most)
	all = make([]Locked, len(shown))
	for i := range shown {
		all[i] = lockedOf(&shown[i])
	}
	return all, more
}

// lockedOf reads the key of a lock.
func lockedOf(s *lock.Shown) Locked {
	l := Locked{Mode: s.Mode, Holder: s.Holder, Waiter: s.Waiter}
	key := []byte(s.Key)
	switch {
	case s.Range:
		from, to := []byte(s.From), []byte(s.To)
		l.On = Range
		l.Table, l.Index = sqlmachine.PlaceOf(from)
		l.Key = from[sqlmachine.PrefixBytes:]
		if string(to[:min(len(to), sqlmachine.PrefixBytes)]) == string(from[:sqlmachine.PrefixBytes]) {
			l.To = to[sqlmachine.PrefixBytes:]
		}
	case isRow(s.Key):
		l.On = Row
		l.Table, l.Index = sqlmachine.PlaceOf(key)
		l.Key = key[sqlmachine.PrefixBytes:]
	case strings.HasPrefix(s.Key, "table"):
		l.On = Table
		l.Table, _ = sqlmachine.PlaceOf(key[len("table"):])
	case strings.HasPrefix(s.Key, "name"):
		l.On, l.Name = Name, s.Key[len("name"):]
	case s.Key == string(freezeKey):
		l.On = Writes
	default:
		l.On = Number
	}
	return l
}

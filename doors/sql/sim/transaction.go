package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/sim"
)

// outcome is what a client knows of a transaction.
type outcome byte

const (
	without outcome = iota // nothing was proposed yet, or it had no effect
	open                   // it was proposed, and no answer has come
	committed
)

// transaction is one of a client, with what it has read and written.
type transaction struct {
	b     *book
	c     *client
	h     *sim.Member
	x     *txn.Tx
	n     int // its number, from 1
	began time.Duration
	gone  chan struct{}
	point *point

	outcome  outcome
	writes   bool           // it has a row in marks
	snapshot *snapshot      // that it reads from now; nil: none is open
	money    bool           // it has written accounts
	own      map[int]*shown // lists that it has appended to
	inserted []*user
	removed  []*user
	given    []uint64 // values of AUTO_INCREMENT
	rows     []uint64 // of numbered that it has inserted
	emptied  []uint64 // and that it has removed
	turned   turned   // the wheel
	posted   []int    // jobs
	taken    []int    // jobs
	// claims are what it has read with locks. They hold if it has taken effect, and only then.
	claims []func()
}

// claim has a check made once the transaction has taken effect.
func (t *transaction) claim(check func()) { t.claims = append(t.claims, check) }

func (t *transaction) String() string { return fmt.Sprintf("transaction %d", t.n) }

func (t *transaction) trace(format string, args ...any) {
	t.b.w.Trace("sql %s of client %d at %s: %s", t, t.c.id, t.h.Name(), fmt.Sprintf(format, args...))
}

// wait draws for how long a lock is waited for.
func (t *transaction) wait() txn.Wait {
	switch t.b.r.IntN(8) {
	case 0:
		return txn.Wait{}
	case 1:
		return txn.Wait{Time: -1, Interrupt: t.gone}
	}
	return txn.Wait{Time: sim.Between(t.b.r, 20*time.Millisecond, 3*time.Second), Interrupt: t.gone}
}

// use locks a table, and returns its definition as it is from then on.
func (t *transaction) use(name string, mode lock.Mode) (*sqlmachine.Table, error) {
	was := table(t.h, name)
	if err := t.x.UseTable(was.ID, was.Version, mode, t.wait()); err != nil {
		return nil, err
	}
	is := table(t.h, name)
	if is.Version == was.Version {
		return is, nil
	}
	return is, t.x.UseTable(is.ID, is.Version, mode, t.wait())
}

// cell is a locked row, or a locked entry of an index.
type cell struct {
	t      *transaction
	table  *sqlmachine.Table
	index  uint64
	key    []byte
	value  []byte
	exists bool
	stored int
}

// lock locks a row, or an entry of an index.
func (t *transaction) lock(name string, index uint64, key []byte, mode lock.Mode) (*cell, error) {
	of := lock.IntentExclusive
	if mode == lock.Shared {
		of = lock.IntentShared
	}
	tab, err := t.use(name, of)
	if err != nil {
		return nil, err
	}
	c := &cell{t: t, table: tab, index: index, key: key}
	c.value, c.exists, c.stored, err = t.x.LockRow(tab.ID, index, key, mode, t.wait())
	return c, err
}

func (c *cell) put(value []byte) error { return c.t.x.Put(c.table.ID, c.index, c.key, value, c.stored) }
func (c *cell) delete() error          { return c.t.x.Delete(c.table.ID, c.index, c.key, c.stored) }

// number is a key that sorts as its number does.
func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// run runs some statements and ends the transaction. One that writes begins with its row in marks, so that in the end everybody knows whether it took
// effect.
func (t *transaction) run() {
	r := t.b.r
	kinds := readers
	switch {
	case t.b.lockOnly && r.IntN(2) == 0:
		kinds = lockers
	case r.IntN(3) > 0:
		if err := t.mark(); err != nil {
			t.failed(err)
			return
		}
		kinds = writers
	}
	for range 1 + r.IntN(4) {
		if r.IntN(3) == 0 {
			t.think()
		}
		mark, inserted, removed, money, own := t.x.Mark(), slices.Clone(t.inserted), slices.Clone(t.removed), t.money, maps.Clone(t.own)
		rows, emptied, turned := len(t.rows), len(t.emptied), t.turned
		posted, taken := len(t.posted), len(t.taken)
		err := kinds[r.IntN(len(kinds))](t)
		if err == nil && r.IntN(10) == 0 {
			err = errTakenBack
		}
		switch {
		case err == nil:
		case goesOn(err), errors.Is(err, errTakenBack):
			t.trace("takes a statement back: %v", err)
			t.b.w.Count(TakenBack, 1)
			restored := t.x.Restored()
			if err := t.x.RollbackTo(mark); err != nil {
				t.failed(err)
				return
			}
			if t.x.Restored() > restored {
				t.b.w.Count(Pieces, 1)
			}
			t.inserted, t.removed, t.money, t.own, t.turned = inserted, removed, money, own, turned
			t.rows, t.emptied = t.rows[:rows], t.emptied[:emptied]
			t.posted, t.taken = t.posted[:posted], t.taken[:taken]
		default:
			t.failed(err)
			return
		}
		if t.n%2 == 0 { // others stay, as savepoints do
			t.x.Passed(mark)
		}
	}
	if r.IntN(3) == 0 {
		t.think()
	}
	if r.IntN(12) == 0 || t.left() {
		t.trace("is rolled back")
		t.b.w.Count(RolledBack, 1)
		return
	}
	t.commit()
}

// The statements of transactions that write, of those that read, and of those that only lock.
var (
	writers = []func(*transaction) error{(*transaction).transfer, (*transaction).transfer, (*transaction).total, (*transaction).totalLocked,
		(*transaction).append, (*transaction).append, (*transaction).readLocked, (*transaction).readLists, (*transaction).insert,
		(*transaction).insert, (*transaction).find, (*transaction).remove, (*transaction).insert, (*transaction).turnWheel, (*transaction).readWheel, (*transaction).readSpokes, (*transaction).insertNumbered, (*transaction).insertNumbered,
		(*transaction).removeNumbered, (*transaction).sit, (*transaction).sit,
		(*transaction).paint, (*transaction).paint, (*transaction).paint, (*transaction).readPainted,
		(*transaction).post, (*transaction).post, (*transaction).take, (*transaction).take, (*transaction).take,
		(*transaction).settleDown, (*transaction).bear, (*transaction).bear, (*transaction).leave, (*transaction).visit}
	readers = []func(*transaction) error{(*transaction).total, (*transaction).totalLocked, (*transaction).readLocked, (*transaction).readLocked,
		(*transaction).readLists, (*transaction).find, (*transaction).find, (*transaction).readWheel, (*transaction).readSpokes, (*transaction).readSpokes,
		(*transaction).readPainted, (*transaction).readPainted, (*transaction).visit}
	lockers = []func(*transaction) error{(*transaction).totalLocked, (*transaction).readLocked}
)

// mark inserts the transaction's row into marks.
func (t *transaction) mark() error {
	c, err := t.lock(marks, 0, number(t.n), lock.Exclusive)
	if err != nil {
		return err
	}
	t.writes = true
	return c.put(nil)
}

// left reports whether the client has given up: its session ends.
func (t *transaction) left() bool {
	select {
	case <-t.gone:
		return true
	default:
		return false
	}
}

// errTakenBack ends a statement as any error of its own would.
var errTakenBack = errors.New("the client does not want it any more")

// think lets time pass between two statements, as a client does that computes.
func (t *transaction) think() {
	d := sim.Around(t.b.r, 20*time.Millisecond)
	if t.b.r.IntN(t.b.slow) == 0 {
		d = sim.Between(t.b.r, 100*time.Millisecond, 3*time.Second)
	}
	n := t.h.Node()
	n.Tasks().Wait(d, t.gone, n.StoppedC())
}

// failed takes the error of a statement that ends the transaction.
func (t *transaction) failed(err error) {
	t.trace("ends: %v", err)
	w := t.b.w
	w.Count(RolledBack, 1)
	switch {
	case errors.Is(err, txn.ErrDeadlock):
		w.Count(Deadlocks, 1)
	case errors.Is(err, txn.ErrTermOver):
		w.Count(TermsOver, 1)
		t.c.home = nil
	case goesOn(err), noEffect(err):
	case errors.Is(err, txn.ErrUnknown): // a piece of it was to be staged when the member stopped
	default:
		w.Fail(sim.WrongOutcome, "%s: %s ended with %v", t.h.Name(), t, err)
	}
}

// commit commits.
func (t *transaction) commit() {
	if t.writes {
		t.outcome = open
		t.attempted()
	}
	if t.writes && t.b.r.IntN(6) == 0 {
		t.prepare()
		return
	}
	err := t.x.Commit()
	t.trace("commits: %v", err)
	switch {
	case err == nil:
		t.outcome = committed
		t.acknowledged()
	case errors.Is(err, txn.ErrUnknown):
	case noEffect(err):
		t.outcome = without
		t.failed(err)
	default:
		t.b.w.Fail(sim.WrongOutcome, "%s: the commit of %s ended with %v", t.h.Name(), t, err)
	}
}

// attempted notes what may take effect from now on, whatever the client hears.
func (t *transaction) attempted() {
	for _, u := range t.inserted {
		t.b.users.all[u.userKey] = u
	}
	for _, u := range t.removed {
		u.leaving = true
	}
}

// acknowledged takes in that the transaction has taken effect.
func (t *transaction) acknowledged() {
	if t.writes {
		t.b.w.Count(Commits, 1)
	} else {
		t.b.w.Count(Locked, 1)
	}
	if t.money {
		t.b.known.opened = true
	}
	t.b.known.turns = max(t.b.known.turns, t.turned.at)
	t.holds()
	t.b.users.acknowledge(t)
}

// holds checks what the transaction has read with locks and appended, once it is known to have taken effect.
func (t *transaction) holds() {
	for _, check := range t.claims {
		check()
	}
	for i := range listCount { // in order, so that a run can be repeated
		if s := t.own[i]; s != nil {
			t.b.show(s)
		}
	}
}

// rejected reports whether an error is a rejection of that code.
func rejected(err error, code entry.Code) bool {
	var r *entry.Rejection
	return errors.As(err, &r) && r.Code == code
}

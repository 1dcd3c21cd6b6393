package txn

import (
	"math"
	"sync"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// autos has the next values of AUTO_INCREMENT of one term, by table. The leader gives values from memory, so that two transactions that run at a
// time never get the same one. A value stays given in its term, whatever becomes of its transaction. Each commit carries the next value into the
// log, and the next term begins with what the log has.
type autos struct {
	mu sync.Mutex
	of map[uint64]*auto // guarded by mu
}

// auto is the next value of one table. Guarded by the mutex of its autos.
type auto struct {
	version uint64 // of the table's definition
	next    uint64
	seeded  bool // next is at least what the log has
}

// at returns the next value of a table. A change of the definition may have set another one, and no transaction has used the table meanwhile: so the
// value begins anew.
func (a *autos) at(table, version uint64) *auto {
	was := a.of[table]
	if was == nil || was.version < version {
		was = &auto{version: version, next: 1}
		a.of[table] = was
	}
	return was
}

// NextAuto gives n values of AUTO_INCREMENT in a table that the transaction uses: first and those behind it. They are given to no other
// transaction, also if this one is rolled back. Errors: ErrNoValue; ErrUnused; ErrEnded; those of a View.
func (x *Tx) NextAuto(table, n uint64) (first uint64, err error) {
	u, err := x.used(table)
	if err != nil {
		return 0, err
	}
	all := &x.t.autos
	all.mu.Lock()
	defer all.mu.Unlock()
	a := all.at(table, u.version)
	if !a.seeded {
		if err := x.seed(table, a); err != nil {
			return 0, err
		}
	}
	if n > math.MaxUint64-a.next {
		return 0, ErrNoValue
	}
	first = a.next
	a.next += n
	u.nextAuto = max(u.nextAuto, a.next)
	return first, nil
}

// seed takes in what the log has. Everything before the term is applied, and what commits of this term carry is in a already: so any later view
// does.
func (x *Tx) seed(table uint64, a *auto) error {
	view, err := x.t.w.opt.View()
	if err != nil {
		return err
	}
	defer view.Close() // nothing was written to it
	next, err := sqlmachine.NextAuto(view, table)
	if err != nil {
		return err
	}
	a.next, a.seeded = max(a.next, next), true
	return nil
}

// SetNextAuto raises the smallest value that AUTO_INCREMENT may give in a table that the transaction uses. A client that inserts a value of its
// own raises it to one more, before it locks the row. It stays raised if the transaction is rolled back.
func (x *Tx) SetNextAuto(table, value uint64) {
	u := x.tables[table]
	u.nextAuto = max(u.nextAuto, value)
	all := &x.t.autos
	all.mu.Lock()
	defer all.mu.Unlock()
	a := all.at(table, u.version)
	a.next = max(a.next, value)
}

package txn

import (
	"math"
	"sync"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// autos has the next values of AUTO_INCREMENT of one term, and the next numbers of rows without a primary key, by table. The leader gives both
// from memory, so that two transactions that run at a time never get the same one. A value stays given in its term, whatever becomes of its transaction. Each commit carries the next value into the
// log, and the next term begins with what the log has.
type autos struct {
	mu sync.Mutex
	of map[uint64]*auto // guarded by mu
}

// auto is what one table gives next. Guarded by the mutex of its autos.
type auto struct {
	version uint64 // of the table's definition
	next    uint64 // value of AUTO_INCREMENT
	row     uint64 // number of a row
	seeded  bool   // next and row are at least what the log has
}

// at returns the next value of a table. A change of the definition may have set another one, and no transaction has used the table meanwhile: so the
// value begins anew.
func (a *autos) at(table, version uint64) *auto {
	was := a.of[table]
	if was == nil || was.version < version {
		was = &auto{version: version, next: 1, row: 1}
		a.of[table] = was
	}
	return was
}

// NextAuto gives n values of AUTO_INCREMENT in a table that the transaction uses: first and those behind it. They are given to no other
// transaction, also if this one is rolled back. Errors: ErrNoValue; ErrUnused; ErrEnded; those of a View.
func (x *Tx) NextAuto(table, n uint64) (first uint64, err error) {
	return x.give(table, n, func(a *auto) *uint64 { return &a.next }, func(u *used) *uint64 { return &u.nextAuto })
}

// NextRow gives the number of one row in a table without a primary key that the transaction uses. No other row of the table has had the number or
// will get it, if this transaction commits. Errors: as NextAuto.
func (x *Tx) NextRow(table uint64) (uint64, error) {
	return x.give(table, 1, func(a *auto) *uint64 { return &a.row }, func(u *used) *uint64 { return &u.nextRow })
}

// give gives n of what next counts in memory. carried is where the commit takes the new next one from.
func (x *Tx) give(table, n uint64, next func(*auto) *uint64, carried func(*used) *uint64) (first uint64, err error) {
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
	at, to := next(a), carried(u)
	if n > math.MaxUint64-*at {
		return 0, ErrNoValue
	}
	first = *at
	*at += n
	*to = max(*to, *at)
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
	next, row, err := sqlmachine.Next(view, table)
	if err != nil {
		return err
	}
	a.next, a.row, a.seeded = max(a.next, next), max(a.row, row), true
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

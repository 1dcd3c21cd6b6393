package txn

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// An index is built while others write its table. First its definition says Building, which a short Exclusive lock on the table lets everybody learn: from
// then on each writer keeps the entries of the rows that it writes. Then a Backfill writes those of the rows that were there, a piece at a time, each a
// transaction of its own that locks its rows. At last a short Exclusive lock makes the index Public. docs/adr/0033-definitions-under-load.md has the whole of it.

// Backfill is what a build has to know of its index.
type Backfill struct {
	// Table returns the table as it is defined now. The transaction that calls Backfill has its definition locked.
	Table func() *sqlmachine.Table
	Index uint64
	// Entry makes the index's entry of a row. sole: no other row may have its key. Its own errors end the build.
	Entry func(key, value []byte) (entry, entryValue []byte, sole bool, err error)
	// Wait is for how long one row is waited for.
	Wait Wait
	// Progress is told how many rows were looked at.
	Progress func(rows uint64)
}

// Duplicate is the error of a build that has found two rows with one key.
type Duplicate struct{ Key, Value []byte }

func (*Duplicate) Error() string { return "two rows have one key of the index" }

// A piece of a build has this many rows at most, and entries of about so many bytes.
const (
	fillRows  = 256
	fillBytes = 64 << 10
)

// Beside begins another transaction of the same session, which does not wait for the locks of this one.
func (x *Tx) Beside() *Tx {
	y := x.t.begin(x.owner.Kin())
	y.turn = x.turn
	return y
}

// definitionKey is the lock of a table's definition. It is no key of the store.
func definitionKey(table uint64) []byte {
	return append([]byte("definition"), sqlmachine.AppendPrefix(nil, table, 0)...)
}

// LockDefinition lets no other transaction change the definition of a table until this one ends. Statements that read and write the table go on. Errors: as
// UseTable.
func (x *Tx) LockDefinition(table uint64, wait Wait) error {
	return x.lock(definitionKey(table), lock.Exclusive, wait)
}

// A table is closed for moments, between which all who wait for it are let in.
const (
	closeFor   = 100 * time.Millisecond
	closeEvery = 50 * time.Millisecond
)

// CloseTable is UseTable for Exclusive. It waits for those who use the table, and lets others go before it again and again: all who come meanwhile wait for a
// moment only, however long one of those stays.
func (x *Tx) CloseTable(table, version uint64, wait Wait) error {
	return x.takeTable(table, version, lock.Exclusive, wait)
}

// ShareTable is UseTable for Shared, and waits as CloseTable does. Others go on reading the table, and nobody writes it until the transaction ends.
func (x *Tx) ShareTable(table, version uint64, wait Wait) error {
	return x.takeTable(table, version, lock.Shared, wait)
}

func (x *Tx) takeTable(table, version uint64, mode lock.Mode, wait Wait) error {
	for waited := time.Duration(0); ; waited += closeFor + closeEvery {
		now := wait
		if wait.Time < 0 || wait.Time-waited > closeFor {
			now.Time = closeFor
		} else {
			now.Time = max(wait.Time-waited, 0)
		}
		err := x.UseTable(table, version, mode, now)
		if now.Time == wait.Time || wait.Time >= 0 && waited+closeFor >= wait.Time || !errors.Is(err, ErrLockTimeout) {
			return err
		}
		m := x.t.w.m
		if m.Tasks().Wait(closeEvery, wait.Interrupt, m.StoppedC()) >= 0 {
			return ErrInterrupted
		}
	}
}

// Backfill writes the entries of an index for all rows that there are. The transaction has locked the table's definition, and the index is Building. Errors: as
// Commit and LockRow; *Duplicate; Entry's. Some of the entries may be there then.
func (x *Tx) Backfill(b *Backfill) error {
	var from []byte
	rows := uint64(0)
	for {
		next, n, err := x.fillPiece(b, from)
		switch {
		case errors.Is(err, ErrDeadlock), errors.Is(err, ErrOverloaded): // the piece had no effect
		case err != nil:
			if errors.Is(err, ErrTermOver) {
				x.end()
			}
			return err
		default:
			if rows += n; b.Progress != nil {
				b.Progress(rows)
			}
			if next == nil {
				return nil
			}
			from = next
		}
		m := x.t.w.m
		select {
		case <-b.Wait.Interrupt:
			return ErrInterrupted
		case <-m.StoppedC():
			return ErrUnknown
		default:
		}
	}
}

// fillPiece writes the entries of some rows from a key on, and commits them. It returns where the next piece begins; nil: there is none. It waits for its first
// row alone, while it holds nothing: at another one that is locked the piece ends, so that nobody waits for a piece that waits.
func (x *Tx) fillPiece(b *Backfill, from []byte) (next []byte, rows uint64, err error) {
	y := x.Beside()
	y.yields = true
	defer y.Rollback()
	t := b.Table()
	if t == nil {
		return nil, 0, ErrUnused
	}
	if err := y.UseTable(t.ID, t.Version, lock.IntentExclusive, b.Wait); err != nil {
		return nil, 0, err
	}
	it, err := y.ScanNewest(t.ID, 0, from, nil)
	if err != nil {
		return nil, 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		key := slices.Clone(it.Key()[sqlmachine.PrefixBytes:])
		wait := b.Wait
		if rows > 0 {
			wait.Time = 0
			if rows >= fillRows || y.own.Bytes() >= min(fillBytes, x.t.w.opt.StageBytes/2) {
				return key, rows, y.Commit()
			}
		}
		err := y.fillRow(b, t.ID, key, wait)
		if rows > 0 && (errors.Is(err, ErrBusy) || errors.Is(err, ErrTooManyLocks)) {
			return key, rows, y.Commit()
		}
		if err != nil {
			return nil, 0, err
		}
		rows++
	}
	if err := it.Error(); err != nil {
		return nil, 0, err
	}
	return nil, rows, y.Commit()
}

// fillRow writes the entry of one row, if the row is there and the entry is not.
func (x *Tx) fillRow(b *Backfill, table uint64, key []byte, wait Wait) error {
	value, exists, _, err := x.LockRow(table, 0, key, lock.Shared, wait)
	if err != nil || !exists {
		return err
	}
	entry, entryValue, sole, err := b.Entry(key, value)
	if err != nil {
		return err
	}
	is, exists, stored, err := x.LockRow(table, b.Index, entry, lock.Exclusive, wait)
	switch {
	case err != nil:
		return err
	case exists && bytes.Equal(is, entryValue): // its writer has written it
		return nil
	case exists && sole:
		return &Duplicate{Key: key, Value: value}
	}
	return x.Put(table, b.Index, entry, entryValue, stored)
}

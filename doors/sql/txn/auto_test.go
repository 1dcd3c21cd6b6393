package txn

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// auto takes values of AUTO_INCREMENT.
func (w *world) auto(x *Tx, n uint64) uint64 {
	w.t.Helper()
	first, err := x.NextAuto(w.table.ID, n)
	w.must(err)
	return first
}

// TestAValueIsGivenOnce: two transactions never get the same value of AUTO_INCREMENT, and a value of one that is rolled back is gone.
func TestAValueIsGivenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.begin(), w.begin()
	if one, two, five := w.auto(a, 1), w.auto(b, 3), w.auto(a, 1); one != 1 || two != 2 || five != 5 {
		t.Errorf("given were %d, %d and %d", one, two, five)
	}
	a.Rollback()
	w.must(b.Commit())
	if next := w.table.NextAuto(); next != 5 {
		t.Errorf("a commit of 2, 3 and 4 leaves %d", next)
	}
	c, d := w.begin(), w.begin()
	c.SetNextAuto(w.table.ID, 100)
	if v := w.auto(d, 1); v != 100 {
		t.Errorf("beside a transaction that has inserted 99: %d", v)
	}
	c.Rollback()
	w.must(d.Commit())
	if next := w.table.NextAuto(); next != 101 {
		t.Errorf("a commit of 100 leaves %d", next)
	}
}

// TestTheNextTermGoesOnWithWhatTheLogHas: values that only a memory knew are given again, those of a commit are not.
func TestTheNextTermGoesOnWithWhatTheLogHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin()
	w.auto(x, 9)
	w.must(x.Commit())
	lost := w.begin()
	w.auto(lost, 5)
	w.lead(7)
	fresh := w.begin()
	fresh.SetNextAuto(w.table.ID, 3) // below what the log has
	if v := w.auto(fresh, 1); v != 10 {
		t.Errorf("the next term begins with %d", v)
	}
	if err := lost.Commit(); !errors.Is(err, ErrTermOver) {
		t.Errorf("a commit of the earlier term: %v", err)
	}
	w.must(fresh.Commit())
}

// TestAChangeOfTheDefinitionSetsTheNextValue, up and down.
func TestAChangeOfTheDefinitionSetsTheNextValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin()
	w.auto(x, 9)
	w.must(x.Commit())
	for _, next := range []uint64{50, 1} {
		x := w.alone()
		_, err := x.Define([]sqlpart.Change{{Verb: sqlpart.Truncate, Object: w.table.ID, Version: w.table.Version, NextAuto: next}})
		w.must(err)
		x.Rollback()
		w.table = w.m.Catalogue().Database("d").Table("t")
		x = w.begin()
		if v := w.auto(x, 1); v != next {
			t.Errorf("set to %d, and given is %d", next, v)
		}
		w.must(x.Commit())
	}
}

// TestTheLastValueOfAll: no value is given that has no next one.
func TestTheLastValueOfAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin()
	x.SetNextAuto(w.table.ID, math.MaxUint64-1)
	if _, err := x.NextAuto(w.table.ID, 2); !errors.Is(err, ErrNoValue) {
		t.Errorf("two values: %v", err)
	}
	if v := w.auto(x, 1); v != math.MaxUint64-1 {
		t.Errorf("the last one is %d", v)
	}
	if _, err := x.NextAuto(w.table.ID, 1); !errors.Is(err, ErrNoValue) {
		t.Errorf("another one: %v", err)
	}
	x.Rollback()
	if _, err := x.NextAuto(w.table.ID, 1); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestATableThatIsNotUsed is refused, because a commit names the version of each table.
func TestATableThatIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x, err := w.w.Begin()
	w.must(err)
	_, err = x.NextAuto(w.table.ID, 1)
	for _, err := range []error{err, x.Put(w.table.ID, 0, []byte("a"), nil, -1), x.Delete(w.table.ID, 0, []byte("a"), -1)} {
		if !errors.Is(err, ErrUnused) {
			t.Errorf("a table that is not used: %v", err)
		}
	}
	x.Rollback()
}

// alone begins a transaction that has the table for itself.
func (w *world) alone() *Tx {
	w.t.Helper()
	x, err := w.w.Begin()
	if err == nil {
		err = x.UseTable(w.table.ID, w.table.Version, lock.Exclusive, patient)
	}
	w.must(err)
	return x
}

// TestAChangeOfTheCatalogue is one command in the transaction's term, and the transaction goes on with its locks.
func TestAChangeOfTheCatalogue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := []sqlpart.Change{{Verb: sqlpart.CreateTable, Database: w.table.Database, Name: "u"}}
	x := w.alone()
	made, err := x.Define(create)
	if err != nil || len(made.Created) != 1 || w.m.Catalogue().Database("d").Table("u").ID != made.Created[0] {
		t.Errorf("%+v, %v", made, err)
	}
	if y, err := w.w.Begin(); err != nil || !errors.Is(y.UseTable(w.table.ID, w.table.Version, lock.Metadata, Wait{}), ErrBusy) {
		t.Errorf("beside a change: %v", err)
	}
	var rejected *entry.Rejection
	if _, err := x.Define(create); !errors.As(err, &rejected) || rejected.Code != sqlpart.TableExists {
		t.Errorf("a second one of the name: %v", err)
	}
	w.must(w.set(x, "a", "1"))
	w.must(x.Flush())
	if a := w.committedBeside("a"); a != "1" {
		t.Errorf("what was flushed: a=%s", a)
	}
	w.must(x.Commit())
	if _, err := x.Define(nil); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	x = w.alone()
	w.Depose(true)
	if _, err := x.Define([]sqlpart.Change{{Verb: sqlpart.DropTable, Object: w.table.ID, Version: w.table.Version}}); !errors.Is(err, ErrTermOver) {
		t.Errorf("a member that was deposed: %v", err)
	}
	w.alone().Rollback() // the locks are given back
}

// committedBeside reads a row that was committed last, without a lock.
func (w *world) committedBeside(key string) string {
	w.t.Helper()
	x, err := w.w.Begin()
	w.must(err)
	defer x.Rollback()
	return w.get(x, key)
}

// rowNumber takes a number of a row, and writes the row.
func (w *world) rowNumber(x *Tx) uint64 {
	w.t.Helper()
	n, err := x.NextRow(w.table.ID)
	w.must(err)
	w.must(w.set(x, fmt.Sprintf("row %d", n), "1"))
	return n
}

// TestARowsNumberIsGivenOnce: beside another transaction, behind one that was rolled back, over leaders, and whatever AUTO_INCREMENT does.
func TestARowsNumberIsGivenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.begin(), w.begin()
	if one, two, three := w.rowNumber(a), w.rowNumber(b), w.rowNumber(a); one != 1 || two != 2 || three != 3 {
		t.Errorf("given were %d, %d and %d", one, two, three)
	}
	w.must(a.Commit())
	b.Rollback()
	x := w.begin()
	if v := w.auto(x, 1); v != 1 {
		t.Errorf("AUTO_INCREMENT begins with %d", v)
	}
	x.SetNextAuto(w.table.ID, 100)
	w.must(x.Commit())
	lost := w.begin()
	if n := w.rowNumber(lost); n != 4 {
		t.Errorf("behind a transaction that was rolled back: %d", n)
	}
	w.lead(7)
	x = w.begin()
	if n := w.rowNumber(x); n != 4 {
		t.Errorf("the next term begins with %d", n)
	}
	if err := lost.Commit(); !errors.Is(err, ErrTermOver) {
		t.Errorf("a commit of the earlier term: %v", err)
	}
	w.must(x.Delete(w.table.ID, 0, []byte("row 4"), -1)) // a row that nobody has seen, and whose number is spent
	w.must(w.set(x, "row", "1"))
	w.must(x.Commit())
	w.lead(9)
	x = w.begin()
	if n := w.rowNumber(x); n != 5 {
		t.Errorf("behind a row that is gone: %d", n)
	}
	w.must(x.Delete(w.table.ID, 0, []byte("row 5"), -1)) // nothing is left to write but the number
	w.must(x.Commit())
	w.lead(11)
	if n := w.rowNumber(w.begin()); n != 6 {
		t.Errorf("behind a transaction that has only come and gone: %d", n)
	}
}

// TestTruncateGoesOnWithTheNumbersOfRows: it begins AUTO_INCREMENT anew, and no number of a row.
func TestTruncateGoesOnWithTheNumbersOfRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin()
	w.rowNumber(x)
	w.must(x.Commit())
	x = w.alone()
	_, err := x.Define([]sqlpart.Change{{Verb: sqlpart.Truncate, Object: w.table.ID, Version: w.table.Version, NextAuto: 1}})
	w.must(err)
	x.Rollback()
	w.table = w.m.Catalogue().Database("d").Table("t")
	x = w.begin()
	if n := w.rowNumber(x); n != 2 {
		t.Errorf("behind TRUNCATE: %d", n)
	}
	w.must(x.Commit())
}

package txn

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// hold begins what a session keeps locked, beside a transaction.
func (w *world) hold(x *Tx) *Hold {
	w.t.Helper()
	h, err := w.w.Hold(x, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// later runs f and returns what it will return, once it waits for a lock.
func (w *world) later(f func() error) <-chan error {
	w.t.Helper()
	locks := w.w.now.locks
	before, done := locks.Waiting(), make(chan error, 1)
	go func() { done <- f() }()
	wait.Until(w.t, "a request waits", func() bool { return locks.Waiting() > before })
	return done
}

// TestNames: a name is one session's at a time, as often as it was taken, beyond its transactions and until its term ends.
func TestNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin()
	a, b := w.hold(x), w.hold(nil)
	w.must(a.LockName("job", 1, patient))
	w.must(a.LockName("job", 1, patient))
	w.must(x.Commit())
	if err := b.LockName("job", 2, Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a second session takes the name: %v", err)
	}
	got := w.later(func() error { return b.LockName("job", 2, patient) })
	if !a.UnlockName("job") || a.Names() != 1 {
		t.Error("the first of two is not given back")
	}
	if id, err := w.w.NameOf("job"); id != 1 || err != nil {
		t.Errorf("the name is of %d: %v", id, err)
	}
	if !a.UnlockName("job") || a.UnlockName("job") || !a.Empty() {
		t.Error("a name is given back more or less often than it was taken")
	}
	w.must(<-got)
	if id, err := w.w.NameOf("job"); id != 2 || err != nil {
		t.Errorf("the name is of %d: %v", id, err)
	}
	w.must(b.LockName("other", 2, patient))
	b.UnlockNames()
	if id, err := w.w.NameOf("job"); id != 0 || err != nil || !b.Empty() {
		t.Errorf("the name is of %d: %v", id, err)
	}
	w.must(b.LockName("job", 2, patient))
	w.lead(6)
	if !b.Over() {
		t.Error("the names outlive their term")
	}
	if err := b.LockName("more", 2, patient); !errors.Is(err, ErrTermOver) {
		t.Error(err)
	}
	if _, err := b.Begin(); !errors.Is(err, ErrTermOver) {
		t.Error(err)
	}
	w.must(w.hold(nil).LockName("job", 3, Wait{}))
}

// TestACircleThroughANameAndARow: two sessions that wait for each other, one for a name and one for a row, do not wait for ever.
func TestACircleThroughANameAndARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x, y := w.begin(), w.begin()
	a := w.hold(x)
	w.must(a.LockName("job", 1, patient))
	w.must(w.set(y, "row", "1"))
	b := w.hold(y)
	got := w.later(func() error { return w.set(x, "row", "2") })
	if err := b.LockName("job", 2, patient); err == nil {
		t.Error("a name that another session has is taken")
	} else if !errors.Is(err, ErrDeadlock) { // the lighter one gives up, which is x
		t.Error(err)
	}
	y.Rollback()
	if err := <-got; err != nil && !errors.Is(err, ErrDeadlock) {
		t.Error(err)
	}
}

// TestTables: a table that a session has locked is its own, its transactions do not wait for it, and others do.
func TestTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold(nil)
	w.must(h.LockTable(w.table.ID, lock.Exclusive, patient))
	for i := range 3 {
		x, err := h.Begin()
		w.must(err)
		w.must(x.UseTable(w.table.ID, w.table.Version, lock.IntentExclusive, Wait{}))
		w.must(w.set(x, "a", fmt.Sprint(i)))
		w.must(x.Commit())
	}
	other, err := w.w.Begin()
	w.must(err)
	got := w.later(func() error { return other.UseTable(w.table.ID, w.table.Version, lock.Metadata, patient) })
	x, err := h.Begin()
	w.must(err)
	w.must(x.UseTable(w.table.ID, w.table.Version, lock.IntentExclusive, Wait{})) // it does not queue behind the other
	x.Rollback()
	h.UnlockTables()
	w.must(<-got)
	if a := w.get(other, "a"); a != "2" {
		t.Errorf("a = %s", a)
	}
}

// TestFreeze: while a session has frozen the writes, others wait; it waits for those that run.
func TestFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, x := w.hold(nil), w.begin()
	w.must(x.Write(patient))
	if err := h.Freeze(Wait{Time: 10 * time.Millisecond}); !errors.Is(err, ErrLockTimeout) {
		t.Errorf("a write runs: %v", err)
	}
	x.WriteDone()
	w.must(h.Freeze(patient))
	if err := x.Write(Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a write begins: %v", err)
	}
	got := w.later(func() error { return x.Write(patient) })
	h.Thaw()
	w.must(<-got)
	x.WriteDone()
	w.must(h.Freeze(patient))
	h.Release()
	w.must(x.Write(Wait{}))
	x.WriteDone()
	x.Rollback()
}

// TestTheNextTransactionOfASessionIsLight: what a transaction has written does not count for the next one of its session, which has what both keep locked in common.
func TestTheNextTransactionOfASessionIsLight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold(nil)
	begin := func() *Tx {
		x, err := h.Begin()
		w.must(err)
		w.must(x.UseTable(w.table.ID, w.table.Version, lock.IntentExclusive, patient))
		return x
	}
	x := begin()
	for i := range 20 {
		w.must(w.set(x, fmt.Sprint("row ", i), "a row with some bytes"))
	}
	w.must(x.Commit())
	x = begin()
	y := w.begin()
	read := func(x *Tx, key string) error {
		_, _, _, err := x.LockRow(w.table.ID, 0, []byte(key), lock.Exclusive, patient)
		return err
	}
	w.must(read(x, "a"))
	w.must(w.set(y, "b", "1"))
	got := w.later(func() error { return read(x, "b") })
	if err := read(y, "a"); err != nil {
		t.Errorf("the one that has written gives up: %v", err)
	}
	if err := <-got; !errors.Is(err, ErrDeadlock) {
		t.Errorf("the one that has written nothing does not give up: %v", err)
	}
	y.Rollback()
}

package txn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
)

// TestManyKeysBecomeATable: a transaction that locks more keys than there is room for locks the table, gives the keys back, and keeps others' writes out;
// reads that lock nothing go on.
func TestManyKeysBecomeATable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.w.BoundLocks(1 << 30)
	for _, c := range []struct {
		mode, all lock.Mode
		room      int64
	}{{lock.Exclusive, lock.AllRows, 1 << 30}, {lock.Shared, lock.Shared, 1 << 30}, {lock.Exclusive, lock.AllRows, 1 << 20}, {lock.Shared, lock.Shared, 1 << 20}} {
		w.w.BoundLocks(c.room)
		x := w.begin()
		for i := range 3 * manyKeys {
			if _, _, _, err := x.LockRow(w.table.ID, 0, []byte(fmt.Sprint(i)), c.mode, patient); err != nil {
				t.Fatalf("key %d: %v", i, err)
			}
		}
		if held, all := x.owner.Held(), x.tables[w.table.ID].keys.all; held > 1 || all != c.all {
			t.Errorf("%v: it holds %d locks, and of all rows %v", c.mode, held, all)
		}
		reader, err := w.w.Begin()
		w.must(err)
		w.must(reader.UseTable(w.table.ID, w.table.Version, lock.Metadata, Wait{}))
		w.get(reader, "1")
		if err := reader.UseTable(w.table.ID, w.table.Version, lock.IntentExclusive, Wait{}); !errors.Is(err, ErrBusy) {
			t.Errorf("another transaction may write: %v", err)
		}
		reader.Rollback()
		x.Rollback()
		if held := w.w.HeldLocks(); held != 0 {
			t.Errorf("%d bytes of locks are left", held)
		}
	}
}

// TestManyKeysWaitForNobodyAtFirst: beside another writer the transaction goes on by keys, as long as they are not too many.
func TestManyKeysWaitForNobodyAtFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.w.BoundLocks(1 << 30)
	other, x := w.begin(), w.begin()
	w.must(w.set(other, "other", "1"))
	for i := range tooManyKeys - 1 {
		if _, _, _, err := x.LockRow(w.table.ID, 0, []byte(fmt.Sprint(i)), lock.Exclusive, patient); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	if held := x.owner.Held(); held < tooManyKeys-1 {
		t.Errorf("it holds %d locks", held)
	}
	got := w.later(func() error {
		for i := range triedEvery + 1 {
			if _, _, _, err := x.LockRow(w.table.ID, 0, []byte(fmt.Sprint("more", i)), lock.Exclusive, patient); err != nil {
				return err
			}
		}
		return nil
	})
	w.must(other.Commit())
	w.must(<-got)
	if held := x.owner.Held(); held > 10 {
		t.Errorf("it holds %d locks", held)
	}
}

// TestRanges: a range that a transaction has read with locks stays as it is: no row of it changes, none comes and none goes, and what another one has
// written in it already is waited for. Beside it others write.
func TestRanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.begin()
	w.must(w.set(first, "b", "1"))
	w.must(w.set(first, "d", "1"))
	w.must(first.Commit())
	reader, writer := w.begin(), w.begin()
	w.must(w.set(writer, "c", "2"))
	span := func(x *Tx, mode lock.Mode, wait Wait) error {
		return x.LockRange(w.table.ID, 0, []byte("b"), []byte("e"), mode, wait)
	}
	if err := span(reader, lock.Shared, Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a range in which another one has written: %v", err)
	}
	got := w.later(func() error { return span(reader, lock.Shared, patient) })
	w.must(writer.Commit())
	w.must(<-got)
	writer = w.begin()
	for _, key := range []string{"b", "bb", "c"} {
		if _, _, _, err := writer.LockRow(w.table.ID, 0, []byte(key), lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
			t.Errorf("%s is locked: %v", key, err)
		}
	}
	w.must(w.set(writer, "a", "1"))
	w.must(w.set(writer, "e", "1"))
	writer.Rollback()
	second := w.begin()
	w.must(span(second, lock.Shared, Wait{}))
	if err := span(second, lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a range that another one reads: %v", err)
	}
	second.Rollback()
	w.must(w.set(reader, "bb", "2")) // its own
	w.must(reader.Commit())
}

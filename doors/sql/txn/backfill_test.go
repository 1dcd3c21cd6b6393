package txn

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// TestBackfill: a build writes the entry of each row, in pieces, and locks what it reads while it does. It holds nothing while it waits for a row that is locked,
// nobody changes the definition meanwhile, and a second row of one key ends it.
func TestBackfill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rows = 3 * fillRows
	x := w.begin()
	for i := range rows {
		w.must(w.set(x, fmt.Sprintf("%05d", i), "v"))
	}
	w.must(x.Commit())
	blocker := w.begin()
	_, _, _, err := blocker.LockRow(w.table.ID, 0, []byte("00300"), lock.Exclusive, Wait{})
	w.must(err)
	b, err := w.w.Begin()
	w.must(err)
	w.must(b.LockDefinition(w.table.ID, Wait{}))
	seen := map[string]int{}
	fill := Backfill{
		Table: func() *sqlmachine.Table { return w.table },
		Index: 1,
		Wait:  patient,
		Entry: func(key, value []byte) ([]byte, []byte, bool, error) {
			y := w.begin()
			defer y.Rollback()
			if _, _, _, err := y.LockRow(w.table.ID, 0, key, lock.Exclusive, Wait{}); !errors.Is(err, ErrBusy) {
				t.Errorf("row %s changes while its entry is made: %v", key, err)
			}
			if err := y.LockDefinition(w.table.ID, Wait{}); !errors.Is(err, ErrBusy) {
				t.Errorf("the definition changes: %v", err)
			}
			seen[string(key)]++
			return append([]byte("e"), key...), nil, true, nil
		},
	}
	got := w.later(func() error { return b.Backfill(&fill) })
	y := w.begin()
	for _, key := range []string{"00000", "00299", "00301"} {
		if _, _, _, err := y.LockRow(w.table.ID, 0, []byte(key), lock.Exclusive, Wait{}); err != nil {
			t.Errorf("row %s is locked by a build that waits: %v", key, err)
		}
	}
	y.Rollback()
	blocker.Rollback()
	w.must(<-got)
	for i := range rows {
		key := fmt.Sprintf("%05d", i)
		if _, exists, err := b.Newest(w.table.ID, 1, []byte("e"+key)); !exists || err != nil || seen[key] == 0 {
			t.Errorf("row %s has an entry: %v %v", key, exists, err)
		}
	}
	var twice *Duplicate
	fill.Entry = func(key, value []byte) ([]byte, []byte, bool, error) { return []byte("one"), key, true, nil }
	if err := b.Backfill(&fill); !errors.As(err, &twice) || string(twice.Key) != "00001" {
		t.Errorf("two rows of one key: %v", err)
	}
	b.Rollback()
	if n := w.w.HeldLocks(); n != 0 {
		t.Errorf("locks of %d bytes are left", n)
	}
}

// TestClosingATable: who waits to have a table alone lets others go before it again and again, and gives up in time.
func TestClosingATable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.begin()
	x, err := w.w.Begin()
	w.must(err)
	if err := x.CloseTable(w.table.ID, w.table.Version, Wait{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a table that is used: %v", err)
	}
	if err := x.CloseTable(w.table.ID, w.table.Version, Wait{Time: 2 * closeFor}); !errors.Is(err, ErrLockTimeout) {
		t.Errorf("a table that is used: %v", err)
	}
	got := w.later(func() error { return x.CloseTable(w.table.ID, w.table.Version, Wait{Time: -1}) })
	for range 3 {
		w.begin().Rollback() // it waits for a moment, and not for the user
	}
	select {
	case err := <-got:
		t.Errorf("the table was closed while it was used: %v", err)
	default:
	}
	user.Rollback()
	w.must(<-got)
	x.Rollback()
	interrupt := make(chan struct{})
	user = w.begin()
	x, err = w.w.Begin()
	w.must(err)
	time.AfterFunc(closeFor, func() { close(interrupt) })
	if err := x.CloseTable(w.table.ID, w.table.Version, Wait{Time: -1, Interrupt: interrupt}); !errors.Is(err, ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
	user.Rollback()
	x.Rollback()
}

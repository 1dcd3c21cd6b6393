package sim

import (
	"encoding/binary"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/sim"
)

// The table numbered has no primary key: each row lies under a number that the table has given, and its value is the transaction that has inserted it.

// insertNumbered inserts a row.
func (t *transaction) insertNumbered() error {
	tab, err := t.use(numbered, lock.IntentExclusive)
	if err != nil {
		return err
	}
	n, err := t.x.NextRow(tab.ID)
	if err != nil {
		return err
	}
	row, err := t.lock(numbered, 0, idKey(n), lock.Exclusive)
	if err != nil {
		return err
	}
	if row.exists {
		t.claim(func() {
			t.b.w.Fail(GivenTwice, "%s: %s was given row %d, which transaction %d has", t.h.Name(), t, n, binary.BigEndian.Uint32(row.value))
		})
		return errTakenBack
	}
	t.rows = append(t.rows, n)
	t.b.lastRow = max(t.b.lastRow, n)
	t.b.w.Count(Numbered, 1)
	return row.put(number(t.n))
}

// removeNumbered removes a row, if there is one of a number. No other row may get the number.
func (t *transaction) removeNumbered() error {
	n := 1 + t.b.r.Uint64N(t.b.lastRow+1)
	row, err := t.lock(numbered, 0, idKey(n), lock.Exclusive)
	if err != nil || !row.exists {
		return err
	}
	t.emptied = append(t.emptied, n)
	return row.delete()
}

// checkNumbered checks that no number was given to two transactions that took effect, and that the rows are those that were inserted and not removed.
func (b *book) checkNumbered(h *sim.Member, took map[*transaction]bool) {
	by, gone := map[uint64]*transaction{}, map[uint64]bool{}
	for _, t := range b.txs {
		if !took[t] {
			continue
		}
		for _, n := range t.rows {
			if was := by[n]; was != nil {
				b.w.Fail(GivenTwice, "row %d was given to %s and %s, and both took effect", n, was, t)
			}
			by[n] = t
		}
		for _, n := range t.emptied {
			gone[n] = true
		}
	}
	all := b.read(h, numbered, 0)
	for _, p := range all {
		n := binary.BigEndian.Uint64(p.key)
		if t := by[n]; t == nil || gone[n] || t.n != int(binary.BigEndian.Uint32(p.value)) {
			b.w.Fail(CommitLost, "row %d of transaction %d is there, and should not be", n, binary.BigEndian.Uint32(p.value))
		}
	}
	if want := len(by) - len(gone); len(all) != want {
		b.w.Fail(CommitLost, "%d rows have a number, and %d were inserted and not removed", len(all), want)
	}
}

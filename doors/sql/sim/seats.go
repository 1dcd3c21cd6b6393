package sim

import (
	"bytes"
	"encoding/binary"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// Seats are what write skew and phantoms break: at most tableSeats guests sit at a table, each in a row of its own. A transaction counts the rows of a table
// and adds one, so no row that it has read changes. At SERIALIZABLE the range that it has counted stays as it is.

const (
	tableCount = 3
	tableSeats = 2
	baggage    = 300 // bytes
)

// sit takes a free seat at a table, or frees one.
func (t *transaction) sit() error {
	at := t.b.r.IntN(tableCount)
	tab, err := t.use(seats, lock.IntentExclusive)
	if err != nil {
		return err
	}
	it, err := t.guests(tab, at)
	if err != nil {
		return err
	}
	var taken [][]byte
	for ok := it.First(); ok; ok = it.Next() {
		if key := it.Key()[sqlmachine.PrefixBytes:]; bytes.HasPrefix(key, number(at)) {
			taken = append(taken, bytes.Clone(key))
		}
	}
	err = it.Error()
	if e := it.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	t.claim(func() { t.b.seated(t, at, len(taken)) })
	if t.b.r.IntN(4) == 0 {
		t.think()
	}
	key := append(number(at), number(t.n)...)
	if len(taken) >= tableSeats {
		key = taken[t.b.r.IntN(len(taken))]
	}
	c, err := t.lock(seats, 0, key, lock.Exclusive)
	switch {
	case err != nil:
		return err
	case c.exists:
		return c.delete()
	}
	err = c.put(make([]byte, t.b.r.IntN(2)*baggage)) // one with baggage is staged at once, where anything is
	if err == nil && t.b.r.IntN(2) == 0 {
		t.think()
	}
	return err
}

// guests reads who sits at a table, and perhaps at those before and behind it: with a lock on the range, or, in a build that is broken on purpose, from a snapshot. So ranges overlap
// that are not the same: who sits has an intent on its own range, and others make theirs later.
func (t *transaction) guests(tab *sqlmachine.Table, at int) (store.Iter, error) {
	from, to := number(at), number(at+1)
	if t.b.r.IntN(2) == 0 {
		from = number(0)
	}
	if t.b.r.IntN(2) == 0 {
		to = number(tableCount)
	}
	if t.b.repeatable {
		if _, err := t.look(seats, true); err != nil {
			return nil, err
		}
		return t.x.Scan(tab.ID, 0, from, to)
	}
	if err := t.x.LockRange(tab.ID, 0, from, to, lock.Shared, t.wait()); err != nil {
		return nil, err
	}
	t.b.w.Count(Ranges, 1)
	return t.x.ScanNewest(tab.ID, 0, from, to)
}

// seated judges how many guests were counted at a table.
func (b *book) seated(t *transaction, at, n int) {
	if n > tableSeats {
		b.w.Fail(WriteSkew, "%s: %s has counted %d guests at table %d, which has %d seats", t.h.Name(), t, n, at, tableSeats)
	}
}

func (b *book) checkSeats(all []pair) {
	var n [tableCount]int
	for _, p := range all {
		n[binary.BigEndian.Uint32(p.key)]++
	}
	for at, n := range n {
		if n > tableSeats {
			b.w.Fail(WriteSkew, "in the end %d guests sit at table %d, which has %d seats", n, at, tableSeats)
		}
	}
}

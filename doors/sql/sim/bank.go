package sim

import (
	"encoding/binary"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/sim"
)

const (
	accountCount = 6
	deposit      = 100 // what each account begins with
)

func money(value []byte) int64 { return int64(binary.BigEndian.Uint64(value)) }

func moneyValue(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// accountsInOrder locks all accounts, in a drawn order.
func (t *transaction) accountsInOrder(mode lock.Mode) ([]*cell, error) {
	var all []*cell
	for _, i := range t.b.r.Perm(accountCount) {
		c, err := t.lock(accounts, 0, number(i), mode)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// transfer moves money from one account to another. If there are none yet, it opens all.
func (t *transaction) transfer() error {
	r := t.b.r
	var two [2]*cell
	for k, i := range r.Perm(accountCount)[:2] {
		c, err := t.lock(accounts, 0, number(i), lock.Exclusive)
		if err != nil {
			return err
		}
		two[k] = c
		if r.IntN(10) == 0 {
			t.think()
		}
	}
	if !two[0].exists || !two[1].exists {
		return t.open()
	}
	amount := r.Int64N(30)
	t.money = true
	if err := two[0].put(moneyValue(money(two[0].value) - amount)); err != nil {
		return err
	}
	return two[1].put(moneyValue(money(two[1].value) + amount))
}

// open makes all accounts, unless another transaction has done so.
func (t *transaction) open() error {
	all, err := t.accountsInOrder(lock.Exclusive)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.exists {
			continue
		}
		t.money = true
		if err := c.put(moneyValue(deposit)); err != nil {
			return err
		}
	}
	return nil
}

// totalLocked reads all accounts with locks. What it has read holds if the transaction takes effect.
func (t *transaction) totalLocked() error {
	opened := t.b.known.opened
	all, err := t.accountsInOrder(lock.Shared)
	if err != nil {
		return err
	}
	var sum, n int64
	for _, c := range all {
		if c.exists {
			sum, n = sum+money(c.value), n+1
		}
	}
	t.claim(func() {
		t.b.balance(t, "with locks", n, sum, opened)
		t.b.known.opened = t.b.known.opened || n > 0
	})
	return nil
}

// total reads all accounts from a snapshot.
func (t *transaction) total() error {
	s, err := t.look(accounts, t.money)
	if err != nil {
		return err
	}
	it, err := t.x.Scan(table(t.h, accounts).ID, 0, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close() // what went wrong is in Error
	var sum, n int64
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		sum, n = sum+money(v), n+1
	}
	if err := it.Error(); err != nil {
		return err
	}
	t.b.balance(t, "in a snapshot", n, sum, s.known.opened)
	if n > 0 && !t.money { // else they may be the transaction's own, and go with it
		t.b.known.opened = true
	}
	return nil
}

// balance judges what was read of all accounts.
func (b *book) balance(t *transaction, how string, accounts, sum int64, opened bool) {
	switch {
	case accounts == 0 && !opened:
	case accounts == 0:
		b.w.Fail(StaleRead, "%s: %s reads no account %s, and they were there before", t.h.Name(), t, how)
	case accounts != accountCount || sum != accountCount*deposit:
		b.w.Fail(MoneyLost, "%s: %s reads %d in %d accounts %s", t.h.Name(), t, sum, accounts, how)
	}
}

// snapshot is what a transaction reads without locks, until it opens another one.
type snapshot struct {
	known known // before it was opened
	point *point
}

// look locks the definition of a table, and opens a snapshot. The one that is open may be kept unless fresh is set: then the transaction's own
// writes would lie over rows that are older than its locks.
func (t *transaction) look(name string, fresh bool) (*snapshot, error) {
	if _, err := t.use(name, lock.Metadata); err != nil {
		return nil, err
	}
	if fresh || t.b.r.IntN(2) == 0 {
		if err := t.x.Refresh(); err != nil {
			return nil, err
		}
		t.snapshot = nil
	}
	if t.snapshot == nil {
		s := &snapshot{known: t.b.known, point: &point{by: t}}
		if err := t.x.Snapshot(); err != nil {
			return nil, err
		}
		t.snapshot = s
		t.b.w.Count(Snapshots, 1)
	}
	return t.snapshot, nil
}

var _ sim.Workload = (*book)(nil)

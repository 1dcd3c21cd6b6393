package sim

import (
	"encoding/binary"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/sim"
)

// pair is a row, or an entry of an index, without what the machine adds.
type pair struct{ key, value []byte }

// read reads all rows of a table, or all entries of an index.
func (b *book) read(h *sim.Member, name string, index uint64) (all []pair) {
	t := table(h, name)
	it, err := h.Store().NewIter(sqlmachine.AppendPrefix(nil, t.ID, index), sqlmachine.AppendEnd(nil, t.ID, index))
	if err != nil {
		b.w.Fail(sim.Stopped, "%s reads %s: %v", h.Name(), name, err)
	}
	defer it.Close() // what went wrong is in Error
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err == nil && index == 0 {
			_, v, err = sqlmachine.Row(v)
		}
		if err != nil {
			b.w.Fail(sim.Stopped, "%s reads %s: %v", h.Name(), name, err)
		}
		all = append(all, pair{append([]byte(nil), it.Key()[sqlmachine.PrefixBytes:]...), append([]byte(nil), v...)})
	}
	if err := it.Error(); err != nil {
		b.w.Fail(sim.Stopped, "%s reads %s: %v", h.Name(), name, err)
	}
	return all
}

// Check implements sim.Workload: the tables in the end are those that the transactions that took effect have left, and these are the acknowledged
// ones and some with an open outcome.
func (b *book) Check(all []*sim.Member) {
	h := all[0] // the states of all members are the same
	if machineOf(h).Catalogue().Database(dbName) == nil {
		return // the run was over before the cluster's level was reached
	}
	took := b.tookEffect(h)
	for _, t := range b.txs {
		if took[t] && t.outcome != committed {
			t.holds()
		}
	}
	b.checkAccounts(h)
	b.checkLists(h, took)
	b.checkUsers(h, took)
	b.checkNumbered(h, took)
	b.checkWheel(h, took)
	b.checkPainted(h)
	b.checkJobs(h, took)
	b.checkFamilies(h)
	b.checkSeats(b.read(h, seats, 0))
	b.checkLocks(all)
	for _, name := range tableNames {
		if is, want := table(h, name).Rows(), len(b.read(h, name, 0)); is != uint64(want) {
			b.w.Fail(sim.Diverged, "%s counts %d rows of %s, and there are %d", h.Name(), is, name, want)
		}
	}
}

// tookEffect reads which transactions took effect.
func (b *book) tookEffect(h *sim.Member) map[*transaction]bool {
	took := map[*transaction]bool{}
	for _, p := range b.read(h, marks, 0) {
		n := int(binary.BigEndian.Uint32(p.key))
		if n < 1 || n > len(b.txs) {
			b.w.Fail(CommitLost, "transaction %d took effect, and there are %d", n, len(b.txs))
		}
		took[b.txs[n-1]] = true
	}
	for _, t := range b.txs {
		switch {
		case t.writes && t.outcome == committed && !took[t]:
			b.w.Fail(CommitLost, "%s was acknowledged, and is not there", t)
		case t.outcome == without && took[t]:
			b.w.Fail(CommitLost, "%s had no effect by what its client was told, and is there", t)
		case t.outcome == open:
			b.w.Count(Open, 1)
		case t.outcome == committed:
			took[t] = true
		}
	}
	return took
}

func (b *book) checkAccounts(h *sim.Member) {
	var sum, n int64
	for _, p := range b.read(h, accounts, 0) {
		sum, n = sum+money(p.value), n+1
	}
	if n > 0 && (n != accountCount || sum != accountCount*deposit) || n == 0 && b.known.opened {
		b.w.Fail(MoneyLost, "in the end %d accounts have %d", n, sum)
	}
}

// checkLists checks that each list has the transactions that took effect and have appended to it, once, and that an order explains everything.
func (b *book) checkLists(h *sim.Member, took map[*transaction]bool) {
	var finals [listCount][]*point
	values := map[int][]byte{}
	for _, p := range b.read(h, lists, 0) {
		values[int(binary.BigEndian.Uint32(p.key))] = p.value
	}
	for i := range listCount {
		b.show(&shown{&point{&transaction{h: h}}, i, values[i], b.known.lists[i]})
		has := map[*transaction]bool{}
		for rest := values[i]; len(rest) > 0; rest = rest[idBytes:] {
			t := b.txs[binary.BigEndian.Uint32(rest)-1]
			if has[t] || !took[t] || t.own[i] == nil {
				b.w.Fail(ListBroken, "list %d has %s; it had it before: %v, it took effect: %v, it has appended: %v", i, t, has[t], took[t], t.own[i] != nil)
			}
			has[t] = true
			finals[i] = append(finals[i], t.point)
		}
		for _, t := range b.txs {
			if took[t] && t.own[i] != nil && !has[t] {
				b.w.Fail(ListBroken, "list %d has lost what %s has appended", i, t)
			}
		}
	}
	if left := circle(finals, b.seen); len(left) > 0 {
		b.w.Fail(ListBroken, "no order explains what %d transactions have read and appended, among them %s and %s", len(left), left[0].by, left[len(left)-1].by)
	}
}

// checkUsers checks that the rows are those that were inserted and not removed, that the index is that of the rows, and that no value was given twice.
func (b *book) checkUsers(h *sim.Member, took map[*transaction]bool) {
	want, given, next := map[userKey]*user{}, map[uint64]*transaction{}, uint64(1)
	for _, t := range b.txs {
		if !took[t] {
			continue
		}
		for _, id := range t.given {
			if was := given[id]; was != nil {
				b.w.Fail(GivenTwice, "%d was given to %s and %s, and both took effect", id, was, t)
			}
			given[id], next = t, max(next, id+1)
		}
		for _, u := range t.inserted {
			want[u.userKey], next = u, max(next, u.id+1)
		}
	}
	for _, t := range b.txs {
		for _, u := range t.removed {
			if took[t] {
				delete(want, u.userKey)
			}
		}
	}
	if is := table(h, users).NextAuto(); is < next {
		b.w.Fail(GivenTwice, "the next value is %d, and it must be at least %d", is, next)
	}
	byID := map[uint64]*user{}
	for _, p := range b.read(h, users, 0) {
		u := userOf(binary.BigEndian.Uint64(p.key), p.value)
		if want[u.userKey] == nil {
			b.w.Fail(CommitLost, "user %d of transaction %d is there, and should not be", u.id, u.by)
		}
		byID[u.id] = u
	}
	for _, u := range want { // any order: each is judged by itself
		if is := byID[u.id]; is == nil || is.by != u.by {
			b.w.Fail(CommitLost, "user %d of transaction %d is not there", u.id, u.by)
		}
	}
	entries := b.read(h, users, byName)
	for _, p := range entries {
		key := keyOf(p.value)
		if u := byID[key.id]; u == nil || u.by != key.by || u.name != int(binary.BigEndian.Uint32(p.key)) {
			b.w.Fail(TwoOfAKey, "the index has name %x for user %d of transaction %d, and the rows do not", p.key, key.id, key.by)
		}
	}
	if len(entries) != len(byID) {
		b.w.Fail(TwoOfAKey, "%d users have %d names", len(byID), len(entries))
	}
}

// checkLocks checks that no transaction has left a lock: the member that leads gives every table to one alone.
func (b *book) checkLocks(all []*sim.Member) {
	for _, h := range all {
		if h.Leads() == 0 {
			continue
		}
		x, err := b.workers[h].Begin()
		if err != nil {
			b.w.Fail(sim.Stuck, "%s leads, and begins no transaction: %v", h.Name(), err)
		}
		for _, name := range tableNames {
			t := table(h, name)
			if err := x.UseTable(t.ID, t.Version, lock.Exclusive, txn.Wait{}); err != nil {
				b.w.Fail(sim.Stuck, "%s has no transaction any more, and locks of table %s: %v", h.Name(), name, err)
			}
		}
		x.Rollback()
	}
}

package txn

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// A transaction that has locked many keys of a table gives them back: the memory for locks is bounded. What it has written is staged first, because
// rows that are staged need no locks and keep nobody else off the table. Where that does not free enough, because the transaction has only read the rows,
// it locks all rows of the table at once instead. It tries so without waiting at first, because the table's other writers ought not to wait. With more keys
// it waits for them.
const (
	manyKeys     = 10_000
	tooManyKeys  = 20_000
	triedEvery   = 1_000
	fewestForAll = 1_000 // keys for which a transaction locks a table where there is no room for more
)

// keys are the locks on rows and entries of one table that a transaction uses.
type keys struct {
	asked     int       // locks on keys that were asked for, since the last try for all
	exclusive bool      // one of them is Exclusive
	all       lock.Mode // Shared or AllRows: the lock on all rows at once; Metadata: there is none
	reads     bool      // the lock on the table announces Shared locks on its keys
	writes    bool      // and Exclusive ones
}

// announced notes a lock on the table.
func (k *keys) announced(mode lock.Mode) {
	k.reads = k.reads || mode.Covers(lock.IntentShared)
	k.writes = k.writes || mode.Covers(lock.IntentExclusive)
}

// has reports whether all rows are locked for a mode.
func (k *keys) has(mode lock.Mode) bool {
	return k.all == lock.AllRows || k.all == lock.Shared && mode == lock.Shared
}

// lockKey locks a row or an entry of an index, which the transaction has not staged. full is its key in the store. Nobody else has staged rows of a table
// that is locked as a whole: their owners have an intent there, those that a leader before has left included.
func (x *Tx) lockKey(table uint64, full []byte, mode lock.Mode, wait Wait) error {
	u := x.tables[table]
	if u == nil { // locks on its keys announce themselves at the table
		if x.ended {
			return ErrEnded
		}
		return ErrUnused
	}
	if !x.ended && u.keys.has(mode) {
		return nil
	}
	if !x.ended && (!u.keys.reads || mode == lock.Exclusive && !u.keys.writes) { // the caller has asked for a weaker lock
		intent := lock.IntentOf(mode)
		if err := x.lock(tableKey(table), intent, wait); err != nil {
			return err
		}
		u.keys.announced(intent)
	}
	err := x.lockFree(table, full, mode, wait)
	if errors.Is(err, ErrTooManyLocks) && x.mayStage() {
		if err = x.stage(); err == nil {
			err = x.lockFree(table, full, mode, wait)
		}
	}
	u.keys.exclusive = u.keys.exclusive || mode == lock.Exclusive
	switch {
	case errors.Is(err, ErrTooManyLocks) && wait.Time != 0 && x.owner.Held() >= fewestForAll:
		return x.lockAll(table, u, wait)
	case err != nil:
		return err
	}
	if u.keys.asked++; u.keys.asked < manyKeys {
		return nil
	}
	u.keys.asked = manyKeys - triedEvery
	held := x.owner.Held()
	if held < manyKeys { // it has locked some of them several times
		return nil
	}
	if x.mayStage() && x.own.all.rows >= held/2 {
		if err := x.stage(); err != nil {
			return err
		}
		if held = x.owner.Held(); held < manyKeys {
			return nil
		}
	}
	if held < tooManyKeys {
		wait.Time = 0
	}
	if err = x.lockAll(table, u, wait); errors.Is(err, ErrBusy) || errors.Is(err, ErrLockTimeout) || errors.Is(err, ErrTooManyLocks) {
		return nil // it has the key by itself
	}
	return err
}

// Locks is how many locks the transaction has, for UnlockSince and ShareSince.
func (x *Tx) Locks() int { return x.owner.Held() }

// UnlockSince gives back the lock on a row or an entry, if the transaction has got it since it had so many locks. What LockRow has answered then does not
// hold any more.
func (x *Tx) UnlockSince(locks int, table, index uint64, key []byte) {
	if x.ended {
		return
	}
	x.owner.UnlockSince(locks, append(sqlmachine.AppendPrefix(nil, table, index), key...))
	x.reads = slices.DeleteFunc(x.reads, func(r sqlpart.Read) bool {
		return r.Table == table && r.Index == index && bytes.Equal(r.Key, key)
	})
}

// ShareSince shares the lock on a row or an entry with others, if the transaction has got it since it had so many locks, and writes nothing there.
func (x *Tx) ShareSince(locks int, table, index uint64, key []byte) {
	if !x.ended {
		x.owner.ShareSince(locks, append(sqlmachine.AppendPrefix(nil, table, index), key...))
	}
}

// lockFree locks a key that no other transaction has staged. It waits for one that has before it asks for the lock: a row that it does not get in time
// stays free. Behind the lock it looks again, because what was staged meanwhile needs the lock no more.
func (x *Tx) lockFree(table uint64, full []byte, mode lock.Mode, wait Wait) error {
	if err := x.passKey(table, full, mode, wait); err != nil {
		return err
	}
	if err := x.lock(full, mode, wait); err != nil {
		return err
	}
	if x.t.locks.Watched() && !x.t.w.opt.Break.NoRanges {
		if err := x.lockOver(table, full, mode, wait); err != nil {
			return err
		}
	}
	return x.passKey(table, full, mode, wait)
}

// passKey waits for a transaction that has staged a key.
func (x *Tx) passKey(table uint64, full []byte, mode lock.Mode, wait Wait) error {
	if len(x.t.w.opt.Staged().All) == 0 {
		return nil
	}
	return x.passStaged(table, stagedKey(full, mode), wait)
}

// mayStage reports whether the transaction has something that can be staged.
func (x *Tx) mayStage() bool { return x.own.Bytes() > 0 && !x.small }

// lockOver waits for the ranges over a key that the transaction has locked.
func (x *Tx) lockOver(table uint64, full []byte, mode lock.Mode, wait Wait) error {
	for {
		r, err := x.owner.LockOver(tableKey(table), full, mode, wait.Time != 0)
		x.count(r)
		if err := x.granted(mode, x.t.await(x.owner, r, err, x.turn, wait, &x.shown.waits)); r == nil || err != nil {
			return err
		}
	}
}

// lockAll locks all rows of a table at once, and gives back the locks on its keys. Errors: as UseTable; ErrTooManyLocks if the others did not let it in
// time.
func (x *Tx) lockAll(table uint64, u *used, wait Wait) error {
	mode := lock.Shared
	if u.keys.exclusive {
		mode = lock.AllRows
	}
	if err := x.lock(tableKey(table), mode, wait); err != nil {
		if errors.Is(err, ErrLockTimeout) {
			return ErrTooManyLocks
		}
		return err
	}
	u.keys.all = mode
	prefix := string(sqlmachine.AppendPrefix(nil, table, 0)[:sqlmachine.TableBytes])
	x.owner.UnlockAll(0, func(key string) bool { return strings.HasPrefix(key, prefix) })
	return nil
}

// LockRange locks the entries of an index, or the rows, from the key from to before the key to, whether or not they are there: until the transaction ends
// nobody writes in the range, and behind Exclusive nobody locks a key in it. It waits for those that have staged rows in it as for those that have locked
// keys: a staged row has no lock that the range could take in. A nil to: to the end. The transaction has called UseTable for at least IntentShared.
// Errors: as UseTable.
func (x *Tx) LockRange(table, index uint64, from, to []byte, mode lock.Mode, wait Wait) error {
	u, err := x.used(table)
	if err != nil || u.keys.has(mode) || x.t.w.opt.Break.NoRanges {
		return err
	}
	lower, upper := span(table, index, from, to)
	in := stagedIn(lower, upper, mode)
	if x.t.w.opt.Break.RangesPassStaged {
		in = func(store.Reader, *sqlmachine.Staged) (bool, error) { return false, nil }
	}
	if err := x.passStaged(table, in, wait); err != nil { // before, so that a range that it does not get in time stays free
		return err
	}
	x.weigh()
	x.ranged = true
	r, err := x.owner.LockRange(tableKey(table), lower, upper, mode, wait.Time != 0)
	if err := x.granted(mode, x.t.await(x.owner, r, err, x.turn, wait, &x.shown.waits)); err != nil {
		return err
	}
	return x.passStaged(table, in, wait)
}

package txn

import (
	"errors"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// A transaction that has locked many keys of a table locks all of its rows at once instead, and gives the keys back: the memory for locks is bounded. It
// tries so without waiting at first, because the table's other writers ought not to wait. With more keys it waits for them.
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

// lockKey locks a row or an entry of an index. full is its key in the store.
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
	err := x.lock(full, mode, wait)
	if err == nil && x.t.locks.Watched() && !x.t.w.opt.Break.NoRanges {
		err = x.lockOver(table, full, mode, wait)
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
	if held < tooManyKeys {
		wait.Time = 0
	}
	if err = x.lockAll(table, u, wait); errors.Is(err, ErrBusy) || errors.Is(err, ErrLockTimeout) || errors.Is(err, ErrTooManyLocks) {
		return nil // it has the key by itself
	}
	return err
}

// lockOver waits for the ranges over a key that the transaction has locked.
func (x *Tx) lockOver(table uint64, full []byte, mode lock.Mode, wait Wait) error {
	for {
		r, err := x.owner.LockOver(tableKey(table), full, mode, wait.Time != 0)
		if err := x.granted(mode, x.t.await(x.owner, r, err, x.turn, wait)); r == nil || err != nil {
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
	x.owner.UnlockAll(sqlmachine.AppendPrefix(nil, table, 0)[:sqlmachine.TableBytes])
	return nil
}

// LockRange locks the entries of an index, or the rows, from the key from to before the key to, whether or not they are there: until the transaction ends
// nobody writes in the range, and behind Exclusive nobody locks a key in it. A nil to: to the end. The transaction has called UseTable for at least
// IntentShared. Errors: as UseTable.
func (x *Tx) LockRange(table, index uint64, from, to []byte, mode lock.Mode, wait Wait) error {
	u, err := x.used(table)
	if err != nil || u.keys.has(mode) || x.t.w.opt.Break.NoRanges {
		return err
	}
	lower, upper := span(table, index, from, to)
	x.owner.SetWeight(int64(x.own.Bytes()))
	r, err := x.owner.LockRange(tableKey(table), lower, upper, mode, wait.Time != 0)
	return x.granted(mode, x.t.await(x.owner, r, err, x.turn, wait))
}

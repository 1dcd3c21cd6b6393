package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/turn"
)

// Tx is a transaction. It belongs to one goroutine. It ends with Commit or Rollback, and with the errors ErrDeadlock and ErrTermOver of any
// method; then every method returns ErrEnded.
type Tx struct {
	t     *term
	owner *lock.Owner
	own   *Buffer
	turn  *turn.Turn // of the session; nil: it takes no turns
	view  *view      // of consistent reads; nil: none was made yet
	limit ViewLimit  // of view
	ended bool

	ranged bool // it has locked a range
	waited int  // locks that it has waited for
	yields bool // of those that wait in a circle it gives up
	// interrupt ends the wait for room in the log: the command had no effect then. Nil: nothing does, as a commit has to be waited for.
	interrupt <-chan struct{}

	staged *staged // what the log has of it; nil: nothing
	small  bool    // nothing can be staged: the cluster's level does not have that

	key     []byte // of full
	weighed int64  // one more than the locks know of weight; 0: nothing, for the session's last transaction may have set it

	wrote  *entry.Result    // of its last command that took effect; nil: there was none
	locked bool             // it holds a lock that is not Metadata: before it commits the term is confirmed
	tables map[uint64]*used // by id
	reads  []sqlpart.Read   // with locks, where commits are verified

	restored int // pieces that were staged to take something back

	points []point  // to which it may go back, by their writes
	first  [2]point // where points begin

	shown shown
}

// used is a table that the transaction has locked.
type used struct {
	version  uint64
	nextAuto uint64
	nextRow  uint64 // behind the largest number that it has given to a row; 0: it has given none
	keys     keys
}

// Term is the transaction's.
func (x *Tx) Term() uint64 { return x.t.number }

// TakeTurns has the transaction ask t for each row, and give its place back before it waits.
func (x *Tx) TakeTurns(t *turn.Turn) { x.turn = t }

// Wait says how long a transaction waits for a lock.
type Wait struct {
	// Time bounds the wait. 0: none, ErrBusy at once. Negative: for ever.
	Time time.Duration
	// Interrupt ends the wait when it is closed. Nil: nothing does.
	Interrupt <-chan struct{}
}

// tableKey is the lock of a table. It is no key of the store.
func tableKey(table uint64) []byte {
	return sqlmachine.AppendPrefix(append(make([]byte, 0, len("table")+sqlmachine.PrefixBytes), "table"...), table, 0)
}

// UseTable locks a table whose definition has the given version, and keeps that definition as it is until the transaction ends. The caller looks
// the definition up again once it has the lock: it may have changed before.
func (x *Tx) UseTable(table, version uint64, mode lock.Mode, wait Wait) error {
	if err := x.lock(tableKey(table), mode, wait); err != nil {
		return err
	}
	u := x.tables[table]
	if u == nil {
		u = &used{}
		x.tables[table] = u
	}
	u.version = version
	u.keys.announced(mode)
	return nil
}

// used returns a table that the transaction uses. Errors: ErrUnused, ErrEnded.
func (x *Tx) used(table uint64) (*used, error) {
	if x.ended {
		return nil, ErrEnded
	}
	u := x.tables[table]
	if u == nil {
		return nil, ErrUnused
	}
	return u, nil
}

// lock waits for a lock.
func (x *Tx) lock(key []byte, mode lock.Mode, wait Wait) error {
	if x.ended {
		return ErrEnded
	}
	x.weigh()
	r, err := x.owner.Lock(key, mode, wait.Time != 0)
	x.count(r)
	return x.granted(mode, x.t.await(x.owner, r, err, x.turn, wait, &x.shown.waits))
}

// count counts the locks that were waited for.
func (x *Tx) count(r *lock.Request) {
	if r != nil {
		x.waited++
	}
}

// Waited is how many locks the transaction has waited for.
func (x *Tx) Waited() int { return x.waited }

// weigh tells the locks how many bytes the transaction has written.
func (x *Tx) weigh() {
	if n := x.weight(); n < 0 || n+1 != x.weighed {
		x.owner.SetWeight(n)
		x.weighed = n + 1
	}
}

// weight is how many bytes the transaction has written, by which one of a circle is chosen to give up.
func (x *Tx) weight() int64 {
	if x.yields {
		return -1
	}
	if x.staged == nil {
		return int64(x.own.Bytes())
	}
	return int64(x.own.Bytes()) + int64(x.staged.bytes)
}

// granted ends the transaction where a request for a lock has ended it.
func (x *Tx) granted(mode lock.Mode, err error) error {
	switch {
	case err == nil:
		if mode != lock.Metadata && !x.locked { // Metadata is the lock of plain reads: the first of them confirms the term
			x.locked = true
			x.limitView()
		}
	case errors.Is(err, ErrDeadlock), errors.Is(err, ErrTermOver):
		x.end()
	}
	return err
}

// LockRow locks a row or an entry of an index, whether or not it is there, and returns its newest value: the transaction's own, or the one that was
// committed last. stored is how many bytes the store has for it, -1 for no row, as Put wants to know.
func (x *Tx) LockRow(table, index uint64, key []byte, mode lock.Mode, wait Wait) (value []byte, exists bool, stored int, err error) {
	x.turn.Step()
	full := x.full(table, index, key)
	early := x.t.w.opt.Break.ViewBeforeLock
	if early {
		if value, exists, err = x.newest(table, full); err != nil {
			return nil, false, 0, err
		}
	}
	mine, err := x.holds(full)
	if err == nil && !mine {
		err = x.lockKey(table, full, mode, wait)
	}
	if err != nil {
		return nil, false, 0, err
	}
	// The view is opened behind the lock: the transaction that held it before has been applied by now, and no other one can write the row.
	if !early {
		if value, exists, err = x.newest(table, full); err != nil {
			return nil, false, 0, err
		}
	}
	if stored = -1; exists {
		stored = len(value)
	}
	if x.t.w.opt.Verify && !mine {
		read := sqlpart.Read{Table: table, Index: index, Key: slices.Clone(key)}
		if exists {
			read.Hash = sqlmachine.Hash(value)
		}
		x.reads = append(x.reads, read)
	}
	if own, deleted, known, err := x.written(full); err != nil {
		return nil, false, 0, err
	} else if known {
		value, exists = own, !deleted
	}
	return value, exists, stored, nil
}

// full is a key as the store has it, until the next call.
func (x *Tx) full(table, index uint64, key []byte) []byte {
	x.key = append(sqlmachine.AppendPrefix(x.key[:0], table, index), key...)
	return x.key
}

// newest reads a row as it was committed last. Where nothing is staged, the row lies in its place alone, and no command changes it: it is locked, or the caller
// does not mind.
func (x *Tx) newest(table uint64, full []byte) (value []byte, exists bool, err error) {
	if opt := &x.t.w.opt; opt.Newest != nil {
		if before := opt.Staged(); len(before.All) == 0 {
			value, exists, err = opt.Newest(nil, full)
			if opt.Staged() == before {
				if err == nil && exists && sqlmachine.HasHead(full) {
					_, value, err = sqlmachine.Row(value)
				}
				return value, exists, err
			}
		}
	}
	view, err := x.t.w.view()
	if err != nil {
		return nil, false, err
	}
	defer view.Close() // nothing was written to it
	return view.row(table, full)
}

// snapshot returns the view of consistent reads. The first of them opens it, and confirms that the member leads: a member that was deposed
// without knowing would show an old state.
func (x *Tx) snapshot() (*view, error) {
	switch {
	case x.ended:
		return nil, ErrEnded
	case x.view != nil:
		return x.view, nil
	}
	if err := x.confirm(); err != nil {
		return nil, err
	}
	view, err := x.t.w.viewBy(x.openSnapshot)
	if err == nil {
		x.view = view
	}
	return view, err
}

// openSnapshot opens the rows of a snapshot.
func (x *Tx) openSnapshot() (store.View, error) {
	if x.t.w.opt.Snapshot == nil {
		return x.t.w.opt.View()
	}
	v, err := x.t.w.opt.Snapshot()
	if err != nil {
		return nil, err
	}
	x.shown.view.Store(v)
	x.limitView()
	return v, nil
}

// ViewLimit says how long the snapshot of a transaction may live.
type ViewLimit struct {
	// Age bounds it once the transaction has locked a row: one that has only read disturbs nobody, whatever it has declared itself to be.
	Age time.Duration
	// Bytes bounds what it pins in the store.
	Bytes int64
}

// LimitView sets how long the snapshot may live, instead of node.ViewAge and node.ViewBytes.
func (x *Tx) LimitView(to ViewLimit) {
	x.limit = to
	x.limitView()
}

// limitView tells the snapshot how long it may live now.
func (x *Tx) limitView() {
	v := x.shown.view.Load()
	if v == nil {
		return
	}
	age := time.Duration(0)
	if x.locked {
		age = x.limit.Age
	}
	v.Limit(age, x.limit.Bytes)
}

// read ends the transaction where its snapshot has ended.
func (x *Tx) read(err error) error {
	if errors.Is(err, node.ErrViewEnded) {
		x.end()
		return ErrTooOld
	}
	return err
}

// confirm returns nil if the member led in the transaction's term after the call.
func (x *Tx) confirm() error {
	x.turn.Leave()
	err := worker.Confirm(x.t.w.m, x.t.number)
	if errors.Is(err, node.ErrSuperseded) {
		x.end()
		return ErrTermOver
	}
	return err
}

// Snapshot opens the view of consistent reads, if that was not done by a read already. A later Get and Scan sees the same state.
func (x *Tx) Snapshot() error {
	_, err := x.snapshot()
	return err
}

// Refresh has the next consistent read open a new view, as READ COMMITTED does for each statement.
func (x *Tx) Refresh() error {
	if x.view == nil {
		return nil
	}
	view := x.view
	x.view = nil
	x.shown.view.Store(nil)
	return view.Close()
}

// Get reads a row or an entry of an index from the snapshot, with the transaction's own writes. The value must not be changed.
func (x *Tx) Get(table, index uint64, key []byte) (value []byte, exists bool, err error) {
	view, err := x.snapshot()
	if err != nil {
		return nil, false, err
	}
	full := append(sqlmachine.AppendPrefix(nil, table, index), key...)
	x.turn.Step()
	if own, deleted, known, err := x.written(full); err != nil || known {
		return own, known && !deleted, err
	}
	value, exists, err = view.row(table, full)
	return value, exists, x.read(err)
}

// Scan iterates over the entries of an index, or over rows, from the key from to before the key to, of the snapshot and the transaction's own
// writes. A nil to: to the end. Keys come with the prefix of AppendPrefix. The caller closes the iterator before the transaction ends.
func (x *Tx) Scan(table, index uint64, from, to []byte) (store.Iter, error) {
	view, err := x.snapshot()
	if err != nil {
		return nil, err
	}
	lower, upper := span(table, index, from, to)
	base, err := view.rows(table, lower, upper)
	if err != nil {
		return nil, x.read(err)
	}
	return x.own.over(base, lower, upper, x.turn), nil
}

// span is where the entries of an index from the key from to before the key to lie in the store; a nil to: to the end.
func span(table, index uint64, from, to []byte) (lower, upper []byte) {
	lower = append(sqlmachine.AppendPrefix(nil, table, index), from...)
	if to == nil {
		return lower, sqlmachine.AppendEnd(nil, table, index)
	}
	return lower, append(sqlmachine.AppendPrefix(nil, table, index), to...)
}

// Put writes a row or an entry of an index that LockRow has locked exclusively. stored is what LockRow said. The transaction keeps key and value.
// Errors: ErrTooLarge, and nothing was written; ErrUnused; ErrEnded. A large transaction writes to the log meanwhile, and has the errors of Commit.
func (x *Tx) Put(table, index uint64, key, value []byte, stored int) error {
	if err := x.mayWrite(table, len(key)+len(value)); err != nil {
		return err
	}
	full := append(sqlmachine.AppendPrefix(nil, table, index), key...)
	return x.write(func() error { return x.own.Put(full, value, stored) })
}

// write writes to the buffer, and stages what is in it where that is a lot.
func (x *Tx) write(to func() error) error {
	err := to()
	defer x.shown.wrote(x)
	if errors.Is(err, ErrTooLarge) && x.mayStage() {
		if err = x.stage(); err == nil {
			err = to()
		}
	}
	if err != nil {
		return err
	}
	return x.stageIfLarge()
}

// mayWrite judges whether the transaction may write so many bytes more.
func (x *Tx) mayWrite(table uint64, bytes int) error {
	if _, err := x.used(table); err != nil {
		return err
	}
	if x.staged != nil && x.staged.bytes+x.own.Bytes()+bytes > x.t.w.opt.MostBytes {
		return ErrTooLarge
	}
	return nil
}

// Delete is Put of no row.
func (x *Tx) Delete(table, index uint64, key []byte, stored int) error {
	if err := x.mayWrite(table, len(key)); err != nil {
		return err
	}
	full := append(sqlmachine.AppendPrefix(nil, table, index), key...)
	return x.write(func() error { return x.own.Delete(full, stored) })
}

// Writes reports whether a commit would have something to write.
func (x *Tx) Writes() bool { return x.own.Bytes() > 0 || x.staged != nil }

// Used reports whether the transaction has used a table, or opened its snapshot.
func (x *Tx) Used() bool { return len(x.tables) > 0 || x.view != nil }

// leave gives back the locks on keys that were got behind the first so many.
func (x *Tx) leave(locks int, keys map[string]bool) {
	if len(keys) == 0 {
		return
	}
	x.owner.UnlockAll(locks, func(key string) bool { return keys[key] })
	x.reads = slices.DeleteFunc(x.reads, func(r sqlpart.Read) bool {
		return keys[string(append(sqlmachine.AppendPrefix(nil, r.Table, r.Index), r.Key...))]
	})
}

// Rollback ends the transaction without an effect. A second call does nothing.
func (x *Tx) Rollback() { x.end() }

// end gives back what the transaction holds.
func (x *Tx) end() {
	if x.ended {
		return
	}
	x.ended = true
	if x.staged != nil {
		x.turn.Leave()
		if errors.Is(x.t.drop(x.staged.id), ErrUnknown) {
			x.closeView()
			return // the locks stay, and the member stops
		}
	}
	x.owner.Release()
	x.closeView()
}

// closeView gives the snapshot back, and the places to which the transaction could go back.
func (x *Tx) closeView() {
	x.forgetFrom(0)
	if x.view != nil {
		_ = x.view.Close() // nothing was written to it
		x.view = nil
		x.shown.view.Store(nil)
	}
}

// Commit makes the transaction's writes durable, and ends it whatever the outcome. It waits as long as the member lives: a session that has no
// time any more does not end it, because the locks must stay until the outcome is known. Errors: ErrTermOver, ErrOverloaded and ErrLevel, and it
// had no effect; ErrUnknown; an *entry.Rejection, and it had no effect.
func (x *Tx) Commit() error {
	if x.ended {
		return ErrEnded
	}
	if x.staged != nil {
		err := x.commitStaged()
		if errors.Is(err, ErrUnknown) {
			x.ended = true // as below
			x.closeView()
		}
		x.end()
		return err
	}
	writes := x.writes()
	if len(writes) == 0 {
		defer x.end()
		if !x.locked {
			return nil
		}
		if x.t.w.opt.Break.NoConfirm {
			return nil
		}
		// The log's fence sees no command of this transaction. What it has read under locks holds if the term does.
		return x.confirm()
	}
	part := sqlpart.Part{Kind: sqlpart.Commit, Tables: writes, Reads: x.reads}
	if x.t.w.opt.Break.ReleaseBeforeApply {
		x.owner.Release()
	}
	res, err := x.propose(entry.Part{Machine: sqlpart.Machine, Body: sqlpart.AppendPart(nil, &part)})
	if err == nil {
		x.wrote = res
	}
	if errors.Is(err, ErrUnknown) {
		x.ended = true // the locks stay: the commit may still take effect, and the member stops
		x.closeView()
		return err
	}
	x.end()
	return err
}

// Wrote is the result of the transaction's last command that took effect: its commit, or a change of the catalogue. Nil: there was none.
func (x *Tx) Wrote() *entry.Result { return x.wrote }

// writes are the transaction's, with the versions of the tables.
func (x *Tx) writes() []sqlpart.Writes {
	all := x.own.Writes()
	for i := range all {
		u := x.tables[all[i].Table]
		all[i].Version, all[i].NextAuto, all[i].NextRow = u.version, u.nextAuto, u.nextRow
	}
	for id, u := range x.tables { // any order: the list is sorted behind it
		if (u.nextAuto > 0 || u.nextRow > 0) && !slices.ContainsFunc(all, func(w sqlpart.Writes) bool { return w.Table == id }) {
			all = append(all, sqlpart.Writes{Table: id, Version: u.version, NextAuto: u.nextAuto, NextRow: u.nextRow})
		}
	}
	sortWrites(all)
	return all
}

// sortWrites puts writes in the order of their tables.
func sortWrites(all []sqlpart.Writes) {
	slices.SortFunc(all, func(a, b sqlpart.Writes) int { return int(int64(a.Table) - int64(b.Table)) })
}

// propose proposes a part in the transaction's term. The command is applied here when it returns without an error.
func (x *Tx) propose(part entry.Part) (*entry.Result, error) {
	x.turn.Leave()
	return x.t.propose(part, x.interrupt)
}

// propose is Tx.propose for work of the term itself. interrupt is as in Tx.
func (t *term) propose(part entry.Part, interrupt <-chan struct{}) (*entry.Result, error) {
	m, waited, number := t.w.m, time.Duration(0), t.number
	for {
		if t.w.opt.Break.NoFence {
			if now, _ := m.Leadership(); now != 0 {
				number = now
			}
		}
		res, err := m.ProposeInTerm(context.Background(), number, t.w.opt.Lane, part)
		switch {
		case err == nil && res.Rejection != nil:
			return nil, res.Rejection
		case errors.Is(err, node.ErrOverloaded):
			if waited >= retryFor {
				return nil, ErrOverloaded
			}
			switch m.Tasks().Wait(retryEvery, m.StoppedC(), interrupt) {
			case 0:
				return nil, ErrOverloaded
			case 1:
				return nil, ErrInterrupted
			}
			waited += retryEvery
			continue
		case errors.Is(err, node.ErrSuperseded):
			return nil, ErrTermOver
		case errors.Is(err, node.ErrUnknown):
			return nil, ErrUnknown
		case errors.Is(err, node.ErrLevel):
			return nil, fmt.Errorf("%w: %w", ErrLevel, err)
		}
		return res, err
	}
}

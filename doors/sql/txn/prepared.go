package txn

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/worker"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// prepared is a transaction that belongs to no session any more, until some session decides it.
type prepared struct {
	id, hash uint64
	owner    *lock.Owner
}

// mostKept bounds the bytes of locks on rows that a prepared transaction has not written: they go into one command.
const mostKept = 4 << 20

// Prepare stages what the transaction has written and keeps it with its locks under a name, whatever happens to this member or its session, until
// EndPrepared decides it. The transaction has ended for its session, whatever the outcome; with an error it had no effect. Errors: ErrPrepared;
// ErrTooManyLocks; ErrRanges, before every member's build keeps ranges; those of Commit.
func (x *Tx) Prepare(name []byte) error {
	if x.ended {
		return ErrEnded
	}
	err := x.prepare(name)
	switch {
	case err == nil:
		x.ended = true
		x.closeView()
	case errors.Is(err, ErrUnknown):
		x.ended = true // the locks stay: it may be prepared, and the member stops
		x.closeView()
	default:
		x.end()
	}
	return err
}

func (x *Tx) prepare(name []byte) error {
	x.forgetFrom(0)
	if x.own.Bytes() > 0 {
		if err := x.stage(); err != nil {
			return err
		}
		if x.small {
			return ErrLevel
		}
	}
	part := sqlpart.Part{Kind: sqlpart.Decide, Verdict: sqlpart.PrepareStaged, Name: name, Reads: x.reads, Tables: x.raised()}
	if x.staged != nil {
		part.Tx, part.Hash = x.staged.id, x.staged.hash
	} else {
		part.Tx = x.t.numbers.Add(1)
		if err := x.owner.Take(numberKey(part.Tx), lock.Exclusive); err != nil {
			return ErrTermOver
		}
	}
	size := 0
	x.owner.Each(func(key string, exclusive bool) {
		if len(key) <= sqlmachine.PrefixBytes || key[0] != byte(sqlpart.Machine) {
			return // of a table, or of a number
		}
		table, index := sqlmachine.PlaceOf([]byte(key))
		part.Locks = append(part.Locks, sqlpart.Lock{Table: table, Index: index, Key: []byte(key)[sqlmachine.PrefixBytes:], Shared: !exclusive})
		size += len(key) + opBytes
	})
	if size > mostKept {
		return ErrTooManyLocks
	}
	if part.Ranges = x.ranges(); rangeBytes(part.Ranges) > sqlpart.MaxRanges {
		return ErrTooManyLocks
	}
	t, p := x.t, &prepared{id: part.Tx, hash: part.Hash, owner: x.owner}
	res, err := x.propose(entry.Part{Machine: sqlpart.Machine, Body: sqlpart.AppendPart(nil, &part)})
	var rejected *entry.Rejection
	if errors.As(err, &rejected) && rejected.Code == sqlpart.DuplicateName {
		return ErrPrepared
	}
	if errors.Is(err, ErrLevel) && len(part.Ranges) > 0 {
		return ErrRanges
	}
	if err != nil {
		return err
	}
	x.wrote, x.staged = res, nil
	x.owner.Separate() // its session is as any other one from now on
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prepared[string(name)] = p
	return nil
}

// ranges are those that the transaction has locked. A table that is locked in place of its keys is one.
func (x *Tx) ranges() (all []sqlpart.Range) {
	if x.ranged {
		x.owner.Ranges(func(from, to []byte, exclusive bool) {
			table, _ := sqlmachine.PlaceOf(from)
			r := sqlpart.Range{Table: table, From: from[sqlmachine.TableBytes:], Shared: !exclusive}
			if bytes.HasPrefix(to, from[:sqlmachine.TableBytes]) {
				r.To = to[sqlmachine.TableBytes:]
			}
			all = append(all, r)
		})
	}
	for _, id := range slices.Sorted(maps.Keys(x.tables)) {
		if mode := x.tables[id].keys.all; mode != lock.Metadata {
			all = append(all, sqlpart.Range{Table: id, Shared: mode == lock.Shared})
		}
	}
	return all
}

func rangeBytes(all []sqlpart.Range) (n int) {
	for i := range all {
		n += len(all[i].From) + len(all[i].To)
	}
	return n
}

// takeRanges locks the ranges of a transaction that was prepared in a term before.
func takeRanges(owner *lock.Owner, all []sqlpart.Range) {
	for i := range all {
		r, mode := &all[i], lock.Exclusive
		if r.Shared {
			mode = lock.Shared
		}
		begin := sqlmachine.AppendPrefix(nil, r.Table, 0)[:sqlmachine.TableBytes]
		end := sqlmachine.AppendEnd(nil, r.Table, sqlpart.MaxIndexID)
		if len(r.To) > 0 {
			end = append(bytes.Clone(begin), r.To...)
		}
		_ = owner.TakeRange(tableKey(r.Table), append(begin, r.From...), end, mode) // the term has just begun
	}
}

// raised are the tables whose next value or next row the transaction raises.
func (x *Tx) raised() (all []sqlpart.Writes) {
	for id, u := range x.tables { // any order: the list is sorted behind it
		if u.nextAuto > 0 || u.nextRow > 0 {
			all = append(all, sqlpart.Writes{Table: id, Version: u.version, NextAuto: u.nextAuto, NextRow: u.nextRow})
		}
	}
	sortWrites(all)
	return all
}

// Prepared lists the names of all transactions that are prepared, in the order of their numbers. Errors: ErrNotLeader, ErrTermOver.
func (w *Worker) Prepared() (names [][]byte, err error) {
	w.mu.Lock()
	t := w.now
	w.mu.Unlock()
	if t == nil {
		return nil, ErrNotLeader
	}
	if err := worker.Confirm(w.m, t.number); err != nil {
		return nil, ErrTermOver
	}
	for _, s := range w.opt.Staged().All {
		if s.Prepared {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// EndPrepared commits a prepared transaction, or rolls it back. Errors: ErrNotPrepared; ErrNotLeader, ErrTermOver and ErrOverloaded, and it is prepared as it
// was; ErrUnknown. res is the command that has decided.
func (w *Worker) EndPrepared(name []byte, commits bool) (res *entry.Result, err error) {
	w.mu.Lock()
	t := w.now
	w.mu.Unlock()
	if t == nil {
		return nil, ErrNotLeader
	}
	t.mu.Lock()
	p := t.prepared[string(name)]
	delete(t.prepared, string(name))
	t.mu.Unlock()
	if p == nil { // a member that was deposed does not know what the next one has
		if err := worker.Confirm(w.m, t.number); err != nil {
			return nil, ErrTermOver
		}
		return nil, ErrNotPrepared
	}
	part := sqlpart.Part{Kind: sqlpart.Decide, Verdict: sqlpart.DropStaged, Tx: p.id}
	if commits {
		part.Verdict, part.Hash = sqlpart.CommitStaged, p.hash
	}
	res, err = t.propose(entry.Part{Machine: sqlpart.Machine, Body: sqlpart.AppendPart(nil, &part)}, nil)
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.prepared[string(name)] = p
		return nil, err
	}
	if commits && errors.Is(t.move(p.id), ErrUnknown) {
		return res, nil // the locks stay: the rows are on the move, and the member stops
	}
	p.owner.Release()
	return res, nil
}

package txn

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// A transaction that has written more than one command should carry is staged: its writes go to the log in pieces while it runs, under a number, and one
// small command commits them. docs/adr/0030-large-transactions.md has the whole of it.
//
// A staged row is its own lock. The transaction gives the row's lock back when the piece is applied, and whoever locks the row meets the piece and waits
// for the lock of the number instead. The transaction has that lock until nothing is staged any more, and so has the next leader.

// staged is what the log has of a transaction that has not ended.
type staged struct {
	w     *Worker
	id    uint64
	hash  uint64 // sqlmachine.Chain over its pieces
	bytes int
}

// numberKey is the lock of a number. It is no key of the store.
func numberKey(tx uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte("number"), tx)
}

// readPiece reads what a transaction has staged for a row. known false: nothing.
func readPiece(from store.Reader, tx uint64, full []byte) (value []byte, deleted, known bool, err error) {
	piece, known, err := from.Get(nil, sqlmachine.AppendPiece(nil, tx, full))
	if err != nil || !known {
		return nil, false, false, err
	}
	action, value, err := sqlmachine.Piece(piece)
	return value, action == sqlpart.Delete, true, err
}

// get reads what the transaction has staged for a row.
func (s *staged) get(full []byte) (value []byte, deleted, known bool, err error) {
	view, err := s.w.opt.View()
	if err != nil {
		return nil, false, false, err
	}
	defer view.Close() // nothing was written to it
	return readPiece(view, s.id, full)
}

// pieces implements readsPieces.
func (s *staged) pieces(lower, upper []byte) (store.Iter, error) {
	view, err := s.w.opt.View()
	if err != nil {
		return nil, err
	}
	from, to := sqlmachine.PieceBounds(s.id, lower, upper)
	it, err := view.NewIter(from, to)
	if err != nil {
		_ = view.Close() // nothing was written to it
		return nil, err
	}
	return &newest{Iter: it, view: view}, nil
}

// written reads what the transaction itself has made of a row.
func (x *Tx) written(full []byte) (value []byte, deleted, known bool, err error) {
	value, deleted, known = x.own.Get(full)
	if known || x.staged == nil {
		return value, deleted, known, nil
	}
	return x.staged.get(full)
}

// holds reports whether the transaction has staged a row, which is locked by that.
func (x *Tx) holds(full []byte) (bool, error) {
	if x.staged == nil {
		return false, nil
	}
	_, _, known, err := x.staged.get(full)
	return known, err
}

// findsStaged reports whether a transaction has staged some of the rows that are asked for, or is prepared and keeps a lock on one that conflicts.
type findsStaged func(from store.Reader, s *sqlmachine.Staged) (bool, error)

// stagedKey asks for one row, to lock it in a mode.
func stagedKey(full []byte, mode lock.Mode) findsStaged {
	return func(from store.Reader, s *sqlmachine.Staged) (bool, error) {
		if _, _, known, err := readPiece(from, s.ID, full); err != nil || known || !s.Prepared {
			return known, err
		}
		kept, known, err := from.Get(nil, sqlmachine.AppendLock(nil, s.ID, full))
		return known && stands(kept, mode), err
	}
}

// stands reports whether a lock that a prepared transaction keeps stands in the way of a mode.
func stands(kept []byte, mode lock.Mode) bool {
	return mode != lock.Shared || !sqlmachine.LockShared(kept)
}

// stagedIn asks for the rows from lower to upper.
func stagedIn(lower, upper []byte, mode lock.Mode) findsStaged {
	return func(from store.Reader, s *sqlmachine.Staged) (known bool, err error) {
		pieces, end := sqlmachine.PieceBounds(s.ID, lower, upper)
		if known, err = finds(from, pieces, end, func([]byte) bool { return true }); err != nil || known || !s.Prepared {
			return known, err
		}
		kept, end := sqlmachine.LockBounds(s.ID, lower, upper)
		return finds(from, kept, end, func(value []byte) bool { return stands(value, mode) })
	}
}

// finds reports whether a row between two keys has a value of a kind.
func finds(from store.Reader, lower, upper []byte, of func(value []byte) bool) (known bool, err error) {
	it, err := from.NewIter(lower, upper)
	if err != nil {
		return false, err
	}
	for ok := it.First(); ok && !known && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.Value(); err == nil {
			known = of(value)
		}
	}
	if e := it.Error(); err == nil {
		err = e
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return known, err
}

// passStaged waits until no other transaction has staged what is asked for, or keeps a lock on it.
func (x *Tx) passStaged(table uint64, what findsStaged, wait Wait) error {
	waited := time.Duration(0)
	for again := false; ; again = true {
		tx, err := x.stagedBy(table, what)
		if err != nil || tx == 0 {
			return err
		}
		if again { // nobody has the number's lock, and the piece is there: it is about to go
			if wait.Time == 0 {
				return ErrBusy
			}
			if wait.Time > 0 && waited >= wait.Time {
				return ErrLockTimeout
			}
			m := x.t.w.m
			if m.Tasks().Wait(retryEvery, wait.Interrupt, m.StoppedC()) >= 0 {
				return ErrInterrupted
			}
			waited += retryEvery
		}
		if err := x.lock(numberKey(tx), lock.Shared, wait); err != nil {
			return err
		}
	}
}

// stagedBy returns the number of another transaction that has staged what is asked for, or is prepared and keeps a lock on it; 0: there is none. That is locked: no
// piece of it is added meanwhile, so that a transaction which is not in the set has none in a view that is opened behind it.
func (x *Tx) stagedBy(table uint64, what findsStaged) (uint64, error) {
	set := x.t.w.opt.Staged()
	var view store.View
	for i := range set.All {
		s := &set.All[i]
		if x.staged != nil && s.ID == x.staged.id || !s.Has(table) || x.t.w.opt.Break.StagedUnlocked && s.ID <= x.t.before {
			continue
		}
		if view == nil {
			var err error
			if view, err = x.t.w.opt.View(); err != nil {
				return 0, err
			}
			defer view.Close() // nothing was written to it
		}
		if known, err := what(view, s); err != nil || known {
			return s.ID, err
		}
	}
	return 0, nil
}

// stageIfLarge stages what the transaction has written, once that is a lot.
func (x *Tx) stageIfLarge() error {
	if x.own.Bytes() <= x.t.w.opt.StageBytes || x.small {
		return nil
	}
	return x.stage()
}

// stage writes the buffer to the log in pieces, up to each place by itself to which the transaction may go back. Before the level of the parts nothing is
// done, and the transaction goes on as one that fits into a command.
func (x *Tx) stage() error {
	open := x.unmade()
	later := make([][]change, len(open))
	for i := len(open) - 1; i >= 0; i-- {
		later[i] = x.own.cut(open[i].writes)
	}
	var err error
	for i, p := range open {
		if err == nil && !x.small {
			err = x.stageAll()
		}
		if err == nil && !x.small {
			x.make(p)
		}
		x.own.redo(later[i])
	}
	if err == nil && !x.small {
		err = x.stageAll()
	}
	return err
}

// stageAll writes all that is in the buffer to the log in pieces.
func (x *Tx) stageAll() error {
	if x.own.Bytes() == 0 {
		return nil
	}
	opt := &x.t.w.opt
	s := x.staged
	if s == nil {
		s = &staged{w: x.t.w, id: x.t.numbers.Add(1)}
		if err := x.owner.Take(numberKey(s.id), lock.Exclusive); err != nil {
			x.end()
			return ErrTermOver
		}
	}
	for at := (place{}); ; {
		writes, next := x.own.writes(at, opt.PieceBytes)
		if len(writes) == 0 {
			break
		}
		part := sqlpart.Part{Kind: sqlpart.Stage, Tx: s.id, First: x.staged == nil, Tables: writes}
		for i := range writes {
			writes[i].Version = x.tables[writes[i].Table].version
		}
		body := sqlpart.AppendPart(nil, &part)
		_, err := x.propose(entry.Part{Machine: sqlpart.Machine, Body: body})
		switch {
		case errors.Is(err, ErrLevel) && x.staged == nil:
			x.small = true
			return nil
		case errors.Is(err, ErrUnknown):
			x.ended = true // the locks stay, as those of a commit
			x.closeView()
			return err
		case errors.Is(err, ErrOverloaded):
			return err
		case err != nil:
			x.end()
			return err
		}
		x.staged = s
		x.own.keep()
		s.hash = sqlmachine.Chain(s.hash, body)
		s.bytes += len(body)
		at = next
	}
	all := x.own.all
	x.own.staged(s.id, s.pieces)
	x.owner.UnlockAll(0, func(key string) bool { return all.get([]byte(key)) != nil })
	return nil
}

// commitStaged commits what is staged, and moves it. The locks stay. Errors: as Commit; but for ErrUnknown the transaction had no effect.
func (x *Tx) commitStaged() error {
	x.forgetFrom(0)
	if x.t.w.opt.Break.StatusFirst {
		defer x.stage()
	} else if err := x.stage(); err != nil {
		return err
	}
	part := sqlpart.Part{Kind: sqlpart.Decide, Tx: x.staged.id, Verdict: sqlpart.CommitStaged, Hash: x.staged.hash, Reads: x.reads, Tables: x.raised()}
	res, err := x.propose(entry.Part{Machine: sqlpart.Machine, Body: sqlpart.AppendPart(nil, &part)})
	if err != nil {
		return err
	}
	x.wrote = res
	x.shown.moves.Store(true)
	id := x.staged.id
	x.staged = nil
	if err := x.t.move(id); errors.Is(err, ErrUnknown) {
		x.ended = true // the locks stay: the rows are on the move, and the member stops
		x.closeView()
	}
	return nil
}

// move moves what a transaction has staged and committed to its place. Errors: ErrTermOver, ErrUnknown; the next leader goes on.
func (t *term) move(id uint64) error {
	for {
		part := sqlpart.Part{Kind: sqlpart.Move, Tx: id, Bytes: uint64(t.w.opt.PieceBytes)}
		res, err := t.insist(&part)
		if err != nil {
			return err
		}
		if moved, ok := res.Of(sqlpart.Machine).(*sqlpart.Moved); ok && moved.Done {
			return nil
		}
	}
}

// drop drops what a transaction has staged. Errors: as move.
func (t *term) drop(id uint64) error {
	_, err := t.insist(&sqlpart.Part{Kind: sqlpart.Decide, Tx: id, Verdict: sqlpart.DropStaged})
	return err
}

// insist proposes a part until the log takes it, with a pause where the log has no room.
func (t *term) insist(part *sqlpart.Part) (*entry.Result, error) {
	for {
		res, err := t.propose(entry.Part{Machine: sqlpart.Machine, Body: sqlpart.AppendPart(nil, part)}, nil)
		if !errors.Is(err, ErrOverloaded) {
			return res, err
		}
		if t.w.m.Tasks().Wait(retryEvery, t.w.m.StoppedC()) >= 0 {
			return nil, ErrUnknown
		}
	}
}

// left is a transaction that a leader before has staged, and that has not ended.
type left struct {
	*sqlmachine.Staged
	owner *lock.Owner
}

// inherit locks what is staged when the term begins, before any transaction of the term does: the numbers, and an intent on each table, so that nobody gets
// a table as a whole of which a row is staged. It returns what is to be settled.
func (t *term) inherit() []left {
	set := t.w.opt.Staged()
	var all []left
	for i := range set.All {
		s := &set.All[i]
		l := left{s, t.locks.Owner()}
		t.before = max(t.before, s.ID)
		if s.Prepared {
			t.prepared[string(s.Name)] = &prepared{id: s.ID, hash: s.Hash, owner: l.owner}
		} else {
			all = append(all, l)
		}
		if t.w.opt.Break.StagedUnlocked {
			continue
		}
		_ = l.owner.Take(numberKey(s.ID), lock.Exclusive) // the term has just begun
		for _, table := range s.Tables() {
			_ = l.owner.Take(tableKey(table), lock.IntentExclusive)
		}
		takeRanges(l.owner, s.Ranges)
	}
	t.numbers.Store(t.before)
	return all
}

// settle ends what a leader before has left: what is committed is moved, what is not is dropped.
func (t *term) settle(all []left) {
	for _, l := range all {
		end := t.drop
		if l.Committed {
			end = t.move
		}
		if err := end(l.ID); err != nil {
			return // the next leader begins anew
		}
		l.owner.Release()
	}
}

package txn

import (
	"bytes"
	"errors"
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// A transaction goes back to a place in its writes from the undo of its buffer. What was staged meanwhile has no undo any more: there a View of the store tells
// what was staged at that place, and the pieces that differ are staged once more, as they were. So a place costs nothing until something is staged behind it.

// Mark is a place in what a transaction has done. The zero value is its beginning.
type Mark struct{ writes, locks int }

// point is a place to which a transaction may go back.
type point struct {
	writes int  // Buffer.Mark
	marks  int  // that lead to it
	made   bool // something was staged behind it
	view   store.View
	bytes  int // that were staged
}

// Mark returns a place for RollbackTo: before a statement, or a savepoint. Passed forgets it.
func (x *Tx) Mark() Mark {
	m := Mark{x.own.Mark(), x.owner.Held()}
	if n := len(x.points); n > 0 && x.points[n-1].writes == m.writes {
		x.points[n-1].marks++
		return m
	}
	if x.points == nil {
		x.points = x.first[:0]
	}
	x.points = append(x.points, point{writes: m.writes, marks: 1})
	return m
}

// Passed says that nobody goes back to a mark any more. The zero Mark stays. It may be called when the transaction has ended.
func (x *Tx) Passed(mark Mark) {
	for i := len(x.points) - 1; i >= 0 && x.points[i].writes >= mark.writes; i-- {
		if p := &x.points[i]; p.writes == mark.writes {
			if p.marks--; p.marks <= 0 {
				p.close()
				x.points = slices.Delete(x.points, i, i+1)
			}
			return
		}
	}
}

// forgetFrom forgets the places behind so many writes, and that one.
func (x *Tx) forgetFrom(writes int) {
	for n := len(x.points); n > 0 && x.points[n-1].writes >= writes; n-- {
		x.points[n-1].close()
		x.points = x.points[:n-1]
	}
}

func (p *point) close() {
	if p.view != nil {
		_ = p.view.Close() // nothing was written to it
		p.view = nil
	}
}

// unmade are the places of which the buffer has the undo alone, in order.
func (x *Tx) unmade() (all []*point) {
	for i := range x.points {
		if p := &x.points[i]; !p.made && p.writes >= x.own.gone && p.writes < x.own.Mark() {
			all = append(all, p)
		}
	}
	return all
}

// make notes what is staged at a place, which is all that the transaction has written until there. Where no View is to be had, the transaction cannot go back
// there.
func (x *Tx) make(p *point) {
	if x.staged == nil {
		p.made = true
		return
	}
	view, err := x.openPoint()
	if err != nil {
		return
	}
	p.made, p.view, p.bytes = true, view, x.staged.bytes
}

// openPoint opens the View of a place. It lives as long as what it pins is no more than a snapshot of the transaction may pin.
func (x *Tx) openPoint() (store.View, error) {
	opt := &x.t.w.opt
	if opt.Snapshot == nil {
		return opt.View()
	}
	v, err := opt.Snapshot()
	if err != nil {
		return nil, err
	}
	v.Limit(0, x.limit.Bytes)
	return v, nil
}

// RollbackTo takes back the writes since a mark. Locks stay, as in MySQL, but for those on the places of rows that were inserted since: they are not there any
// more. Errors: ErrPieces, where some of the writes are staged and what was there before is not known any more; those of Commit. The whole transaction is
// rolled back then.
func (x *Tx) RollbackTo(mark Mark) error {
	if x.ended {
		return ErrPieces
	}
	x.forgetFrom(mark.writes + 1)
	if never, ok := x.own.Rollback(mark.writes); ok {
		x.leave(mark.locks, never)
		return nil
	}
	at := point{made: true} // the beginning
	if mark.writes > 0 {
		at.made = false
		if n := len(x.points); n > 0 && x.points[n-1].writes == mark.writes {
			at = x.points[n-1]
		}
	}
	if !at.made || x.staged == nil {
		x.end()
		return ErrPieces
	}
	x.leave(mark.locks, x.own.drop())
	if x.t.w.opt.Break.PiecesStay {
		return nil
	}
	if err := x.restore(&at); err != nil {
		if errors.Is(err, ErrUnknown) {
			x.ended = true // the locks stay, as those of a commit
			x.closeView()
			return err
		}
		x.end()
		if errors.Is(err, ErrTermOver) {
			return err
		}
		return ErrPieces
	}
	return nil
}

// Restored is how many pieces were staged to take something back.
func (x *Tx) Restored() int { return x.restored }

// restore stages what differs from what was staged at a place.
func (x *Tx) restore(at *point) error {
	now, err := x.t.w.view()
	if err != nil {
		return err
	}
	defer now.Close() // nothing was written to it
	lower, upper := sqlmachine.PieceBounds(x.staged.id, []byte{byte(sqlpart.Machine), 0}, nil)
	r := restoring{x: x, now: now}
	if r.new, err = now.NewIter(lower, upper); err != nil {
		return err
	}
	defer r.new.Close()
	r.new.First()
	if at.view != nil {
		if r.old, err = at.view.NewIter(lower, upper); err != nil {
			return err
		}
		defer r.old.Close()
		r.old.First()
	}
	for err == nil && r.more() {
		err = r.next()
	}
	if err == nil {
		err = r.send()
	}
	for _, it := range []store.Iter{r.new, r.old} {
		if err == nil && it != nil {
			err = it.Error()
		}
	}
	if err != nil {
		return err
	}
	x.staged.bytes = at.bytes
	x.own.piece++ // an iterator that is open takes the pieces in again
	x.leave(0, r.gone)
	return nil
}

// restoring goes through the pieces that there are, and those that there were.
type restoring struct {
	x        *Tx
	now      *view
	new, old store.Iter // old nil: there were none
	writes   []sqlpart.Writes
	bytes    int
	gone     map[string]bool // keys of rows that are read no more, where commits are verified
}

func (r *restoring) more() bool { return r.new.Valid() || r.old != nil && r.old.Valid() }

// next takes the next row back to what it was.
func (r *restoring) next() error {
	order := -1
	switch {
	case !r.new.Valid():
		order = 1
	case r.old != nil && r.old.Valid():
		order = bytes.Compare(r.new.Key(), r.old.Key())
	}
	var full, was []byte // was: the piece that there is
	var op sqlpart.Op
	var err error
	if order < 0 {
		full = sqlmachine.AppendPieceRow(nil, r.new.Key())
		op, err = r.before(full)
	} else {
		full = sqlmachine.AppendPieceRow(nil, r.old.Key())
		var value []byte
		if value, err = r.old.Value(); err == nil {
			op.Action, op.Value, err = sqlmachine.Piece(value)
		}
	}
	if err == nil && order <= 0 {
		was, err = r.new.Value()
	} else if err == nil {
		err = r.again(full)
	}
	same := op.Action != sqlpart.Retract && len(was) > 0 && was[0] == byte(op.Action) && bytes.Equal(was[1:], op.Value)
	if err == nil && !same {
		err = r.add(full, &op)
	}
	if order <= 0 {
		r.new.Next()
	}
	if order >= 0 {
		r.old.Next()
	}
	return err
}

// before is what makes a row what it was when the transaction had staged nothing for it. The row stays locked, as long as there is one: it is staged as it was
// committed. Where the snapshot has another state of it, the lock is one in memory, because a row that is staged hides the snapshot's.
func (r *restoring) before(full []byte) (op sqlpart.Op, err error) {
	table, _ := sqlmachine.PlaceOf(full)
	value, exists, err := r.now.row(table, full)
	if err != nil || !exists {
		if r.gone == nil {
			r.gone = map[string]bool{}
		}
		if r.x.t.w.opt.Verify {
			r.gone[string(full)] = true
		}
		return sqlpart.Op{Action: sqlpart.Retract}, err
	}
	value = bytes.Clone(value)
	if r.x.view != nil {
		seen, same, err := r.x.view.row(table, full)
		if err != nil {
			return op, err
		}
		if !same || !bytes.Equal(seen, value) {
			_, err := r.x.owner.Lock(full, lock.Exclusive, false)
			return sqlpart.Op{Action: sqlpart.Retract}, err
		}
	}
	return sqlpart.Op{Action: sqlpart.Update, Value: value}, nil
}

// again locks a row that was staged at the place and is not any more: the transaction has inserted it, and deleted it again behind the place. Another one may
// have inserted it meanwhile.
func (r *restoring) again(full []byte) error {
	table, _ := sqlmachine.PlaceOf(full)
	if err := r.x.lockFree(table, full, lock.Exclusive, Wait{}); err != nil {
		return err
	}
	if _, exists, err := r.x.newest(table, full); err != nil || exists {
		return errors.Join(err, ErrPieces)
	}
	return nil
}

// add adds an op to the piece, which is sent when it is large.
func (r *restoring) add(full []byte, op *sqlpart.Op) error {
	size := len(full) + len(op.Value) + opBytes
	if r.bytes+size > r.x.t.w.opt.PieceBytes && r.bytes > 0 {
		if err := r.send(); err != nil {
			return err
		}
	}
	r.bytes += size
	table, index := sqlmachine.PlaceOf(full)
	op.Index, op.Key = index, full[sqlmachine.PrefixBytes:]
	if n := len(r.writes); n == 0 || r.writes[n-1].Table != table {
		r.writes = append(r.writes, sqlpart.Writes{Table: table, Version: r.x.tables[table].version})
	}
	w := &r.writes[len(r.writes)-1]
	w.Ops = sqlpart.AppendOp(w.Ops, op)
	return nil
}

// send stages the piece.
func (r *restoring) send() error {
	if len(r.writes) == 0 {
		return nil
	}
	body := sqlpart.AppendPart(nil, &sqlpart.Part{Kind: sqlpart.Stage, Tx: r.x.staged.id, Tables: r.writes})
	if _, err := r.x.propose(entry.Part{Machine: sqlpart.Machine, Body: body}); err != nil {
		return err
	}
	r.x.staged.hash = sqlmachine.Chain(r.x.staged.hash, body)
	r.x.restored++
	r.writes, r.bytes = nil, 0
	return nil
}

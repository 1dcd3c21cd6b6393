package txn

import (
	"encoding/binary"
	"errors"

	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/turn"
)

// ErrTooLarge: the transaction has written more than one command of the log can carry.
var ErrTooLarge = errors.New("transaction is too large")

// Buffer has the writes of a transaction until it commits. Keys are those of the store, as sqlmachine.AppendPrefix begins them. A key that is
// written must be locked: what the store has for it stays the same until the transaction ends. A Buffer belongs to one goroutine.
type Buffer struct {
	most  int // bytes
	bytes int // of the encoded writes, about
	all   sorted
	undo  []undo
	gone  int // undos that were dropped: what they belong to is staged

	tx     uint64      // by which the log knows what is staged
	pieces readsPieces // nil: nothing is staged
	piece  int         // how often something was staged
}

// readsPieces reads what is staged of the rows from lower to upper, as the log has it by now. The caller closes the iterator, whose keys are those of
// AppendPiece.
type readsPieces func(lower, upper []byte) (store.Iter, error)

// row is a key that the transaction has written.
type row struct {
	key     []byte
	value   []byte
	deleted bool
	stored  int // bytes of the value in the store; -1: the store has no such row
}

// undo is what a row was before a write.
type undo struct {
	row     *row
	value   []byte
	deleted bool
	fresh   bool // the row was not in the buffer
}

// opBytes is about what an op takes beside its key and value.
const opBytes = 8

// NewBuffer returns an empty buffer that takes writes of so many bytes.
func NewBuffer(most int) *Buffer { return &Buffer{most: most} }

// Bytes is about how many bytes the writes take in the log.
func (b *Buffer) Bytes() int { return b.bytes }

// Put writes a row. stored is how many bytes the store has for the key, without a row's head; negative: the store has no such row. The buffer keeps
// key and value. Error: ErrTooLarge, and nothing was written.
func (b *Buffer) Put(key, value []byte, stored int) error { return b.write(key, value, false, stored) }

// Delete deletes a row. It is Put otherwise.
func (b *Buffer) Delete(key []byte, stored int) error { return b.write(key, nil, true, stored) }

func (b *Buffer) write(key, value []byte, deleted bool, stored int) error {
	r := b.all.get(key)
	fresh := r == nil
	if fresh {
		r = &row{key: key, stored: max(stored, -1)}
		if b.bytes+len(key)+len(value)+opBytes > b.most {
			return ErrTooLarge
		}
		b.all.add(r)
		b.bytes += len(key) + opBytes
	} else if b.bytes+len(value)-len(r.value) > b.most {
		return ErrTooLarge
	}
	b.undo = append(b.undo, undo{r, r.value, r.deleted, fresh})
	b.bytes += len(value) - len(r.value)
	r.value, r.deleted = value, deleted
	return nil
}

// Mark returns a place to which Rollback may go back.
func (b *Buffer) Mark() int { return b.gone + len(b.undo) }

// Rollback takes back everything that was written since the mark. Marks behind it are of no use any more. never are the keys that neither the store nor the
// buffer has any more. False: some of it is staged, and nothing was taken back.
func (b *Buffer) Rollback(mark int) (never map[string]bool, ok bool) {
	if mark < b.gone {
		return nil, false
	}
	for len(b.undo) > mark-b.gone {
		if u := b.back(); u.fresh && u.row.stored < 0 {
			if never == nil {
				never = map[string]bool{}
			}
			never[string(u.row.key)] = true
		}
	}
	return never, true
}

// back takes the last write back.
func (b *Buffer) back() undo {
	u := b.undo[len(b.undo)-1]
	b.undo = b.undo[:len(b.undo)-1]
	b.bytes += len(u.value) - len(u.row.value)
	if u.fresh {
		b.all.remove(u.row.key)
		b.bytes -= len(u.row.key) + opBytes
	} else {
		u.row.value, u.row.deleted = u.value, u.deleted
	}
	return u
}

// change is a write that was taken back and can be made again.
type change struct {
	key     []byte
	value   []byte
	deleted bool
	stored  int
}

// cut takes back everything that was written since the mark, and returns it for redo, the last write first.
func (b *Buffer) cut(mark int) (all []change) {
	for len(b.undo) > max(mark-b.gone, 0) {
		r := b.undo[len(b.undo)-1].row
		all = append(all, change{r.key, r.value, r.deleted, r.stored})
		b.back()
	}
	return all
}

// redo makes writes again that cut has taken back.
func (b *Buffer) redo(all []change) {
	for i := len(all) - 1; i >= 0; i-- {
		_ = b.write(all[i].key, all[i].value, all[i].deleted, all[i].stored) // it had room before
	}
}

// drop empties the buffer. never are the keys that the store does not have.
func (b *Buffer) drop() (never map[string]bool) {
	never = map[string]bool{}
	for _, block := range b.all.blocks {
		for _, r := range block {
			if r.stored < 0 {
				never[string(r.key)] = true
			}
		}
	}
	b.keep()
	b.all, b.bytes = sorted{}, 0
	b.piece++
	return never
}

// keep has no write before now taken back any more.
func (b *Buffer) keep() {
	b.gone += len(b.undo)
	b.undo = nil
}

// staged empties the buffer: all that it has is staged under a number, and read by pieces from now on.
func (b *Buffer) staged(tx uint64, pieces readsPieces) {
	b.keep()
	b.all, b.bytes = sorted{}, 0
	b.tx, b.pieces = tx, pieces
	b.piece++
}

// Get returns the value that the transaction has given a key. known false: it has not written the key, or taken that back. A nil value of a known
// key: the row is deleted. The value must not be changed.
func (b *Buffer) Get(key []byte) (value []byte, deleted, known bool) {
	r := b.all.get(key)
	if r == nil {
		return nil, false, false
	}
	return r.value, r.deleted, true
}

// Writes encodes what the transaction has written, by table. Version and NextAuto are the caller's to set. A row that was inserted and deleted
// again is left out.
func (b *Buffer) Writes() []sqlpart.Writes {
	all, _ := b.writes(place{}, 0)
	return all
}

// place is where a row of a sorted is: its block, and where it is in that.
type place struct{ block, row int }

// writes is Writes from a place on. most above 0: up to about so many bytes, as a piece that is staged, in which a row that was inserted and deleted
// again is taken back. It returns where it has stopped, and no writes at the end.
func (b *Buffer) writes(from place, most int) (all []sqlpart.Writes, at place) {
	bytes := 0
	for at = from; at.block < len(b.all.blocks); at.block, at.row = at.block+1, 0 {
		for block := b.all.blocks[at.block]; at.row < len(block); at.row++ {
			r := block[at.row]
			never := r.deleted && r.stored < 0
			if never && most == 0 {
				continue
			}
			if bytes += len(r.key) + len(r.value) + opBytes; most > 0 && len(all) > 0 && bytes > most {
				return all, at
			}
			table := uint64(binary.BigEndian.Uint32(r.key[2:]))
			op := sqlpart.Op{Index: uint64(binary.BigEndian.Uint16(r.key[6:])), Key: r.key[sqlmachine.PrefixBytes:], Value: r.value}
			if len(all) == 0 || all[len(all)-1].Table != table {
				all = append(all, sqlpart.Writes{Table: table})
			}
			w := &all[len(all)-1]
			grows := int64(0)
			switch {
			case never:
				op.Action = sqlpart.Retract
			case r.deleted:
				op.Action, grows = sqlpart.Delete, -1
			case r.stored < 0:
				op.Action, grows = sqlpart.Insert, 1
			default:
				op.Action = sqlpart.Update
			}
			if op.Index == 0 {
				w.Rows += grows
			}
			if r.stored >= 0 {
				w.Overwrote += uint64(len(r.key) + r.stored)
			}
			w.Ops = sqlpart.AppendOp(w.Ops, &op)
		}
	}
	return all, at
}

// NewIter iterates over [lower, upper) of base with the transaction's writes laid over it. Values of rows come without their head. Writes of the
// transaction between two moves are seen by the next move. The iterator takes base over and closes it. It asks t for
// each row, if t is not nil.
func (b *Buffer) NewIter(base store.Iter, lower, upper []byte, t *turn.Turn) store.Iter {
	return b.over(&bare{base}, lower, upper, t)
}

// over is NewIter over rows without heads.
func (b *Buffer) over(base store.Iter, lower, upper []byte, t *turn.Turn) store.Iter {
	return &iter{b: b, base: base, lower: lower, upper: upper, turn: t}
}

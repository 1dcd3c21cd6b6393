package txn

import (
	"bytes"

	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// layered lays what one transaction has staged over an iterator of rows without heads.
type layered struct {
	base  store.Iter
	over  store.Iter // keys of AppendPiece
	tx    uint64     // of over
	upper []byte     // of base

	valid bool
	key   []byte // of the current row
	piece []byte // the value of the current row if it is staged, and then not nil
	seek  []byte // scratch
	ahead bool   // base and over stand at or behind key
	back  bool   // they stand at or before key
	err   error
}

// newLayered takes base and over over, and closes them. over has what transaction tx has staged.
func newLayered(base, over store.Iter, tx uint64, upper []byte) *layered {
	return &layered{base: base, over: over, tx: tx, upper: upper}
}

// lay replaces what is laid over base. The next move is a seek.
func (l *layered) lay(over store.Iter) error {
	was := l.over
	l.over, l.valid, l.ahead, l.back = over, false, false, false
	return was.Close()
}

// overKey is the key of the row for which over has something. It is good until the next call.
func (l *layered) overKey() []byte {
	l.seek = sqlmachine.AppendPieceRow(l.seek[:0], l.over.Key())
	return l.seek
}

// staged is a row's key as over has it.
func (l *layered) staged(key []byte) []byte {
	l.seek = sqlmachine.AppendPiece(l.seek[:0], l.tx, key)
	return l.seek
}

func (l *layered) First() bool {
	l.base.First()
	l.over.First()
	l.ahead, l.back = true, false
	return l.forward()
}

func (l *layered) Last() bool {
	l.base.Last()
	l.over.Last()
	l.ahead, l.back = false, true
	return l.backward()
}

func (l *layered) SeekGE(key []byte) bool {
	l.base.SeekGE(key)
	l.over.SeekGE(l.staged(key))
	l.ahead, l.back = true, false
	return l.forward()
}

func (l *layered) SeekLT(key []byte) bool {
	l.base.SeekLT(key)
	if bytes.Compare(key, l.upper) >= 0 {
		l.over.Last()
	} else {
		l.over.SeekLT(l.staged(key))
	}
	l.ahead, l.back = false, true
	return l.backward()
}

func (l *layered) Next() bool {
	if !l.valid {
		return false
	}
	if !l.ahead {
		at := bytes.Clone(l.key)
		if !l.SeekGE(at) || !bytes.Equal(l.key, at) {
			return l.valid
		}
	}
	if l.base.Valid() && bytes.Equal(l.base.Key(), l.key) {
		l.base.Next()
	}
	if l.over.Valid() && bytes.Equal(l.overKey(), l.key) {
		l.over.Next()
	}
	return l.forward()
}

func (l *layered) Prev() bool {
	if !l.valid {
		return false
	}
	if !l.back {
		return l.SeekLT(bytes.Clone(l.key))
	}
	if l.base.Valid() && bytes.Equal(l.base.Key(), l.key) {
		l.base.Prev()
	}
	if l.over.Valid() && bytes.Equal(l.overKey(), l.key) {
		l.over.Prev()
	}
	return l.backward()
}

func (l *layered) forward() bool  { return l.meet(1, store.Iter.Next) }
func (l *layered) backward() bool { return l.meet(-1, store.Iter.Prev) }

// meet goes to the nearest row in one direction. What is staged goes before what base has for the same key.
func (l *layered) meet(direction int, step func(store.Iter) bool) bool {
	for l.err == nil {
		order := 0
		switch {
		case !l.over.Valid() && !l.base.Valid():
			l.valid = false
			return false
		case !l.over.Valid():
			order = -1
		case !l.base.Valid():
			order = 1
		default:
			order = direction * bytes.Compare(l.base.Key(), l.overKey())
		}
		if order < 0 {
			return l.at(l.base.Key(), nil)
		}
		value, err := l.over.Value()
		if err == nil {
			var action sqlpart.Action
			if action, value, err = sqlmachine.Piece(value); err == nil && action != sqlpart.Delete {
				return l.at(l.overKey(), value)
			}
		}
		if l.err = err; err != nil {
			break
		}
		if order == 0 {
			step(l.base)
		}
		step(l.over)
	}
	l.valid = false
	return false
}

func (l *layered) at(key, piece []byte) bool {
	l.valid, l.key, l.piece = true, append(l.key[:0], key...), piece
	return true
}

func (l *layered) Valid() bool { return l.valid }
func (l *layered) Key() []byte { return l.key }

func (l *layered) Value() ([]byte, error) {
	if l.piece != nil {
		return l.piece, nil
	}
	return l.base.Value()
}

func (l *layered) Error() error {
	if l.err != nil {
		return l.err
	}
	if err := l.base.Error(); err != nil {
		return err
	}
	return l.over.Error()
}

func (l *layered) Loads() store.Loads {
	sum, over := l.base.Loads(), l.over.Loads()
	return store.Loads{Bytes: sum.Bytes + over.Bytes, Missed: sum.Missed + over.Missed}
}

func (l *layered) Close() error {
	err := l.base.Close()
	if e := l.over.Close(); err == nil {
		err = e
	}
	return err
}

package txn

import (
	"bytes"

	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/turn"
)

// iter lays a Buffer over an iterator of rows without heads. It remembers its place by key and looks the next row of the buffer up at each move, so
// that the buffer may change meanwhile, and may be staged.
type iter struct {
	b            *Buffer
	base         store.Iter // with what the buffer has staged laid over it
	lower, upper []byte
	turn         *turn.Turn // asked for each row; nil: none is
	pieces       *layered   // of base: what the buffer has staged; nil: nothing
	piece        int        // the buffer's, when pieces was made
	err          error      // of making it

	valid bool
	key   []byte // of the current row
	own   *row   // the current row if it is the buffer's; else base stands at it
	ahead bool   // base stands at or behind key
	back  bool   // base stands at or before key
}

// bare is an iterator of the store whose rows come without their head.
type bare struct{ store.Iter }

func (b *bare) Value() ([]byte, error) {
	v, err := b.Iter.Value()
	if err == nil && sqlmachine.HasHead(b.Key()) {
		_, v, err = sqlmachine.Row(v)
	}
	return v, err
}

// renew takes in what was staged since the last move. False: it cannot be read.
func (it *iter) renew() bool {
	if it.piece == it.b.piece {
		return it.err == nil
	}
	it.piece, it.ahead, it.back = it.b.piece, false, false
	over, err := it.b.pieces(it.lower, it.upper)
	if err != nil {
		it.err = err
		return it.none()
	}
	if it.pieces != nil {
		it.err = it.pieces.lay(over)
		return it.err == nil
	}
	it.pieces = newLayered(it.base, over, it.b.tx, it.upper)
	it.base = it.pieces
	return true
}

func (it *iter) First() bool { return it.SeekGE(it.lower) }

func (it *iter) SeekGE(key []byte) bool {
	if bytes.Compare(key, it.lower) < 0 {
		key = it.lower
	}
	if !it.renew() {
		return false
	}
	key = bytes.Clone(key)
	it.base.SeekGE(key)
	it.ahead, it.back = true, false
	return it.forward(key, true)
}

func (it *iter) Last() bool { return it.SeekLT(it.upper) }

// SeekLT goes to the last row before a key. A nil key: to the last of all.
func (it *iter) SeekLT(key []byte) bool {
	if it.upper != nil && (key == nil || bytes.Compare(key, it.upper) > 0) {
		key = it.upper
	}
	if !it.renew() {
		return false
	}
	key = bytes.Clone(key)
	if key == nil {
		it.base.Last()
	} else {
		it.base.SeekLT(key)
	}
	it.ahead, it.back = false, true
	return it.backward(key)
}

func (it *iter) Next() bool {
	if !it.valid || !it.renew() {
		return false
	}
	if !it.ahead {
		it.base.SeekGE(it.key)
		it.ahead, it.back = true, false
	}
	return it.forward(bytes.Clone(it.key), false)
}

func (it *iter) Prev() bool {
	if !it.valid || !it.renew() {
		return false
	}
	if !it.back {
		it.base.SeekLT(it.key)
		it.ahead, it.back = false, true
	}
	return it.backward(bytes.Clone(it.key))
}

// forward goes to the first row behind from; with is set: or at it. base stands at or behind from.
func (it *iter) forward(from []byte, with bool) bool {
	for {
		for it.base.Valid() && !with && bytes.Equal(it.base.Key(), from) {
			it.base.Next()
		}
		own := it.b.all.from(from)
		if own != nil && !with && bytes.Equal(own.key, from) {
			own = it.b.all.from(append(bytes.Clone(from), 0))
		}
		if own != nil && it.upper != nil && bytes.Compare(own.key, it.upper) >= 0 {
			own = nil
		}
		order := -1 // base comes first
		switch {
		case !it.base.Valid() && own == nil:
			return it.none()
		case !it.base.Valid():
			order = 1
		case own != nil:
			order = bytes.Compare(it.base.Key(), own.key)
		}
		if order < 0 {
			return it.at(it.base.Key(), nil)
		}
		if !own.deleted {
			return it.at(own.key, own)
		}
		from, with = own.key, false
	}
}

// backward goes to the last row before from; nil: to the last of all. base stands before from.
func (it *iter) backward(from []byte) bool {
	for {
		for it.base.Valid() && from != nil && bytes.Compare(it.base.Key(), from) >= 0 {
			it.base.Prev()
		}
		own := it.b.all.before(from)
		if own != nil && bytes.Compare(own.key, it.lower) < 0 {
			own = nil
		}
		order := 1 // base comes first
		switch {
		case !it.base.Valid() && own == nil:
			return it.none()
		case !it.base.Valid():
			order = -1
		case own != nil:
			order = bytes.Compare(it.base.Key(), own.key)
		}
		if order > 0 {
			return it.at(it.base.Key(), nil)
		}
		if !own.deleted {
			return it.at(own.key, own)
		}
		from = own.key
	}
}

func (it *iter) at(key []byte, own *row) bool {
	it.turn.Step()
	it.valid, it.key, it.own = true, append(it.key[:0], key...), own
	return true
}

func (it *iter) none() bool {
	it.valid, it.own = false, nil
	return false
}

func (it *iter) Valid() bool { return it.valid }
func (it *iter) Key() []byte { return it.key }

func (it *iter) Value() ([]byte, error) {
	if it.own != nil {
		return it.own.value, nil
	}
	return it.base.Value()
}

func (it *iter) Error() error {
	if it.err != nil {
		return it.err
	}
	return it.base.Error()
}

func (it *iter) Loads() store.Loads { return it.base.Loads() }
func (it *iter) Close() error       { return it.base.Close() }

package txn

import (
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/turn"
)

// ScanStill is Scan for a caller that writes nothing before it closes the iterator, and only goes from the first row on or from the last one back. Where the
// transaction has written nothing yet, it costs no look at its writes for each row.
func (x *Tx) ScanStill(table, index uint64, from, to []byte) (store.Iter, error) {
	if x.own.all.rows > 0 || x.own.pieces != nil {
		return x.Scan(table, index, from, to)
	}
	view, err := x.snapshot()
	if err != nil {
		return nil, err
	}
	lower, upper := span(table, index, from, to)
	base, err := view.rows(table, lower, upper)
	if err != nil || x.turn == nil {
		return base, err
	}
	return &still{Iter: base, turn: x.turn}, nil
}

// still is an iterator that asks for a turn for each row.
type still struct {
	store.Iter
	turn *turn.Turn
}

func (s *still) First() bool {
	s.turn.Step()
	return s.Iter.First()
}

func (s *still) Last() bool {
	s.turn.Step()
	return s.Iter.Last()
}

func (s *still) Next() bool {
	s.turn.Step()
	return s.Iter.Next()
}

func (s *still) Prev() bool {
	s.turn.Step()
	return s.Iter.Prev()
}

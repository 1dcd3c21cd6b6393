package txn

import (
	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// ScanNewest is Scan over the rows that were committed last, whatever the transaction's snapshot has. A row may change as long as it is not
// locked: the caller locks each with LockRow, and takes the value that LockRow returns.
func (x *Tx) ScanNewest(table, index uint64, from, to []byte) (store.Iter, error) {
	if x.ended {
		return nil, ErrEnded
	}
	view, err := x.t.w.view()
	if err != nil {
		return nil, err
	}
	lower, upper := span(table, index, from, to)
	base, err := view.rows(table, lower, upper)
	if err != nil {
		_ = view.Close() // nothing was written to it
		return nil, err
	}
	return &newest{Iter: x.own.over(base, lower, upper, x.turn), view: view}, nil
}

// newest is an iterator that has a view of its own.
type newest struct {
	store.Iter
	view store.View
}

func (n *newest) Close() error {
	err := n.Iter.Close()
	if e := n.view.Close(); err == nil {
		err = e
	}
	return err
}

// Newest reads what was committed last for a key, or what the transaction has written. Without a lock on the row or its table the row may change at
// once.
func (x *Tx) Newest(table, index uint64, key []byte) (value []byte, exists bool, err error) {
	if x.ended {
		return nil, false, ErrEnded
	}
	full := append(sqlmachine.AppendPrefix(nil, table, index), key...)
	if own, deleted, known, err := x.written(full); err != nil || known {
		return own, known && !deleted, err
	}
	return x.newest(table, full)
}

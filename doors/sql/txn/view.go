package txn

import (
	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// view is all rows of one applied index. What was committed and not moved by then is laid over the rows, so that a reader sees a large transaction whole
// or not at all. The transactions of which that is so have no row in common: one locks a row only once the other has moved it.
type view struct {
	store.View
	moving []*sqlmachine.Staged
}

// view opens a view. The caller closes it.
func (w *Worker) view() (*view, error) { return w.viewBy(w.opt.View) }

// viewBy is view, of rows that open opens.
func (w *Worker) viewBy(open func() (store.View, error)) (*view, error) {
	for {
		before := w.opt.Staged()
		rows, err := open()
		if err != nil {
			return nil, err
		}
		if w.opt.Staged() != before { // it is not known which of the two the view has
			_ = rows.Close() // nothing was written to it
			continue
		}
		v := &view{View: rows}
		for i := range before.All {
			if s := &before.All[i]; s.Committed && !w.opt.Break.NoMerge {
				v.moving = append(v.moving, s)
			}
		}
		return v, nil
	}
}

// row reads a row, or an entry of an index, without its head.
func (v *view) row(table uint64, full []byte) (value []byte, exists bool, err error) {
	for _, s := range v.moving {
		if !s.Has(table) {
			continue
		}
		value, deleted, known, err := readPiece(v, s.ID, full)
		if err != nil || known {
			return value, known && !deleted, err
		}
	}
	value, exists, err = v.Get(nil, full)
	if err == nil && exists && sqlmachine.HasHead(full) {
		_, value, err = sqlmachine.Row(value)
	}
	return value, exists, err
}

// rows iterates over rows of a table, or entries of an index, without heads.
func (v *view) rows(table uint64, lower, upper []byte) (store.Iter, error) {
	base, err := v.NewIter(lower, upper)
	if err != nil {
		return nil, err
	}
	var it store.Iter = &bare{base}
	for _, s := range v.moving {
		if !s.Has(table) {
			continue
		}
		from, to := sqlmachine.PieceBounds(s.ID, lower, upper)
		over, err := v.NewIter(from, to)
		if err != nil {
			_ = it.Close() // nothing was read from it
			return nil, err
		}
		it = newLayered(it, over, s.ID, upper)
	}
	return it, nil
}

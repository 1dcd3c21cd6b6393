package engine

import (
	"container/heap"
	"errors"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/iters"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/sorters"
)

// topRows is ORDER BY … LIMIT without an index. The rows that it keeps count as memory of the statement, and those that it gives up do not: the library does not
// tell which those are.
type topRows struct{ *plan.TopN }

var _ sql.ExecBuilderNode = (*topRows)(nil)

// WithChildren implements sql.Node.
func (t *topRows) WithChildren(c *sql.Context, children ...sql.Node) (sql.Node, error) {
	n, err := t.TopN.WithChildren(c, children...)
	if err != nil {
		return nil, err
	}
	return &topRows{n.(*plan.TopN)}, nil
}

// WithExpressions implements sql.Expressioner.
func (t *topRows) WithExpressions(c *sql.Context, all ...sql.Expression) (sql.Node, error) {
	n, err := t.TopN.WithExpressions(c, all...)
	if err != nil {
		return nil, err
	}
	return &topRows{n.(*plan.TopN)}, nil
}

// BuildRowIter implements sql.ExecBuilderNode.
func (t *topRows) BuildRowIter(c *sql.Context, b sql.NodeExecBuilder, r sql.Row) (sql.RowIter, error) {
	rows, err := b.Build(c, t.Child, r)
	if err != nil {
		return nil, err
	}
	limit, err := iters.GetInt64Value(c, t.Limit)
	if err != nil {
		return nil, errors.Join(err, rows.Close(c))
	}
	return &topIter{of: t, rows: rows, limit: limit, kept: &sessionOf(c).kept}, nil
}

// topIter are the rows of one execution.
type topIter struct {
	of    *topRows
	rows  sql.RowIter
	limit int64
	kept  *kept
	bytes int // of all rows that are kept
	found int64
	top   []sql.Row // in order; nil: they are not read yet
	read  bool
}

// Next implements sql.RowIter.
func (i *topIter) Next(c *sql.Context) (sql.Row, error) {
	if !i.read {
		i.read = true
		if err := i.collect(c); err != nil {
			return nil, err
		}
	}
	if len(i.top) == 0 {
		return nil, io.EOF
	}
	r := i.top[0]
	i.top[0], i.top = nil, i.top[1:]
	return r, nil
}

// collect reads all rows, and keeps the first ones of the order.
func (i *topIter) collect(c *sql.Context) error {
	h := &lastFirst{sorter: sorters.NewRowSorter(c, i.of.SortConditions)}
	for {
		r, err := i.rows.Next(c)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		i.found++
		one := numberedRow{r, i.found, rowSize(r)}
		if int64(len(h.all)) < i.limit {
			heap.Push(h, one)
			i.bytes += one.bytes
			err = i.kept.add(one.bytes)
		} else if i.limit > 0 && h.before(&one, &h.all[0]) {
			i.bytes += one.bytes - h.all[0].bytes
			i.kept.give(h.all[0].bytes)
			h.all[0] = one
			heap.Fix(h, 0)
			err = i.kept.add(one.bytes)
		}
		if err == nil {
			err = h.sorter.GetError()
		}
		if err != nil {
			return err
		}
	}
	i.top = make([]sql.Row, len(h.all))
	for n := len(h.all) - 1; n >= 0; n-- {
		i.top[n] = heap.Pop(h).(numberedRow).row
	}
	return h.sorter.GetError()
}

// Close implements sql.RowIter.
func (i *topIter) Close(c *sql.Context) error {
	i.kept.give(i.bytes)
	i.bytes, i.top = 0, nil
	if i.of.CalcFoundRows {
		c.GetLastQueryInfo().FoundRows.Store(i.found)
	}
	return i.rows.Close(c)
}

// numberedRow is a row, by how many it was read and its bytes.
type numberedRow struct {
	row    sql.Row
	number int64
	bytes  int
}

// lastFirst is a heap of rows whose first one is the last of the order. Of equal rows the one that was read first comes first.
type lastFirst struct {
	sorter *sorters.RowSorter
	all    []numberedRow
}

func (h *lastFirst) before(a, b *numberedRow) bool {
	if order := h.sorter.CompareRows(a.row, b.row); order != 0 {
		return order < 0
	}
	return a.number < b.number
}

func (h *lastFirst) Len() int           { return len(h.all) }
func (h *lastFirst) Less(i, j int) bool { return h.before(&h.all[j], &h.all[i]) }
func (h *lastFirst) Swap(i, j int)      { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *lastFirst) Push(x any)         { h.all = append(h.all, x.(numberedRow)) }
func (h *lastFirst) Pop() any {
	n := len(h.all) - 1
	one := h.all[n]
	h.all[n] = numberedRow{}
	h.all = h.all[:n]
	return one
}

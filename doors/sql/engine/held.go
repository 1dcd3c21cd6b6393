package engine

import (
	"errors"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// held counts the rows that the node above it keeps in memory. The library bounds the number of entries in some of its tables, and knows no size of a row.
type held struct {
	plan.UnaryNode
	each  int  // bytes of a row beside those of rowSize
	times int  // how often the row is kept
	stays bool // what was read to its end is kept until the statement ends, and not until the rows are closed
}

var _ sql.ExecBuilderNode = (*held)(nil)

func newHeld(child sql.Node, each, times int, stays bool) *held {
	return &held{plan.UnaryNode{Child: child}, each, times, stays}
}

// counted has what the nodes of a plan keep in memory counted.
func counted(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeWithOpaque(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		n, same, err := transform.OneNodeExpressions(c, n, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
			q, ok := e.(*plan.Subquery)
			if !ok {
				return e, transform.SameTree, nil
			}
			return q.WithQuery(newHeld(q.Query, entryBytes, 1, q.CanCacheResults())), transform.NewTree, nil
		})
		if err != nil {
			return nil, transform.SameTree, err
		}
		var kept sql.Node
		switch x := n.(type) {
		case *plan.Sort:
			kept, err = x.WithChildren(c, newHeld(x.Child, 0, 1, false))
		case *plan.TopN:
			kept = &topRows{x}
		case *plan.Distinct:
			kept = &once{x}
		case *plan.HashLookup:
			kept, err = x.WithChildren(c, newHeld(x.Child, 2*entryBytes, 1, true))
		case *plan.CachedResults:
			kept, err = x.WithChildren(c, newHeld(x.Child, 0, 1, true))
		case *plan.RangeHeap:
			kept, err = x.WithChildren(c, newHeld(x.Child, 0, 1, false))
		case *plan.RecursiveCte:
			// Rows are read anew from the ones that the round before has given. Both rounds are in memory.
			all := x.Union().Distinct || len(x.Union().SortConditions) > 0
			kept, err = x.WithChildren(c, newHeld(x.Left(), entryBytes, 2, all), newHeld(x.Right(), entryBytes, 2, all))
		case *plan.JoinNode:
			kept, err = countedJoin(c, x)
		case *plan.Window:
			var inner sql.Node
			if inner, err = x.WithChildren(c, newHeld(x.Child, 0, 1+2*windowsOf(x), false)); err == nil {
				kept = &windowed{inner.(*plan.Window)}
			}
		case *plan.GroupBy:
			kept, err = countedGroups(c, x)
		}
		if err != nil {
			return nil, transform.SameTree, err
		}
		if kept == nil {
			return n, same, nil
		}
		return kept, transform.NewTree, nil
	})
	return n, err
}

// countedJoin has the rows counted that a join keeps by itself. Nil: it keeps none.
func countedJoin(c *sql.Context, j *plan.JoinNode) (sql.Node, error) {
	switch {
	case j.Op.IsMerge():
		equal, ok := expression.SplitConjunction(c, j.Filter)[0].(expression.Equality)
		if !ok {
			return nil, nil
		}
		return j.WithChildren(c, j.Left(), &heldRun{plan.UnaryNode{Child: j.Right()}, equal.Right(), len(j.Left().Schema(c))})
	case j.Op.IsFullOuter():
		return j.WithChildren(c, newHeld(j.Left(), 0, 1, false), newHeld(j.Right(), 0, 1, false))
	}
	return nil, nil
}

// windowsOf is how many windows a node has: the library copies and sorts the rows for each.
func windowsOf(w *plan.Window) int {
	all := map[uint64]bool{}
	for _, e := range w.SelectExprs {
		if alias, ok := e.(*expression.Alias); ok {
			e = alias.Child
		}
		over, ok := e.(sql.WindowAdaptableExpression)
		if !ok || over.Window() == nil {
			all[0] = true
		} else if id, err := over.Window().PartitionId(); err == nil {
			all[id] = true
		}
	}
	return max(len(all), 1)
}

// String implements sql.Node.
func (h *held) String() string { return h.Child.String() }

// Schema implements sql.Node.
func (h *held) Schema(c *sql.Context) sql.Schema { return h.Child.Schema(c) }

// IsReadOnly implements sql.Node.
func (h *held) IsReadOnly() bool { return h.Child.IsReadOnly() }

// WithChildren implements sql.Node.
func (h *held) WithChildren(_ *sql.Context, children ...sql.Node) (sql.Node, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(h, len(children), 1)
	}
	return newHeld(children[0], h.each, h.times, h.stays), nil
}

// BuildRowIter implements sql.ExecBuilderNode.
func (h *held) BuildRowIter(c *sql.Context, b sql.NodeExecBuilder, r sql.Row) (sql.RowIter, error) {
	rows, err := b.Build(c, h.Child, r)
	if err != nil {
		return nil, err
	}
	return &heldRows{of: h, rows: rows, kept: &sessionOf(c).kept}, nil
}

// heldRows are the rows of one execution.
type heldRows struct {
	of    *held
	rows  sql.RowIter
	kept  *kept
	bytes int
	ended bool // all were read
}

// Next implements sql.RowIter.
func (i *heldRows) Next(c *sql.Context) (sql.Row, error) {
	r, err := i.rows.Next(c)
	if err != nil {
		i.ended = i.ended || errors.Is(err, io.EOF)
		return nil, err
	}
	n := (i.of.each + rowSize(r)) * i.of.times
	i.bytes += n
	return r, i.kept.add(n)
}

// Close implements sql.RowIter.
func (i *heldRows) Close(c *sql.Context) error {
	if !i.of.stays || !i.ended {
		i.kept.give(i.bytes)
	}
	i.bytes = 0
	return i.rows.Close(c)
}

// heldRun counts the rows of the right side of a merged join, which keeps those of one key.
type heldRun struct {
	plan.UnaryNode
	key  sql.Expression
	left int // columns of the left side, which stand before those of the right one
}

var _ sql.ExecBuilderNode = (*heldRun)(nil)

// String implements sql.Node.
func (h *heldRun) String() string { return h.Child.String() }

// Schema implements sql.Node.
func (h *heldRun) Schema(c *sql.Context) sql.Schema { return h.Child.Schema(c) }

// IsReadOnly implements sql.Node.
func (h *heldRun) IsReadOnly() bool { return h.Child.IsReadOnly() }

// WithChildren implements sql.Node.
func (h *heldRun) WithChildren(_ *sql.Context, children ...sql.Node) (sql.Node, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(h, len(children), 1)
	}
	return &heldRun{plan.UnaryNode{Child: children[0]}, h.key, h.left}, nil
}

// BuildRowIter implements sql.ExecBuilderNode.
func (h *heldRun) BuildRowIter(c *sql.Context, b sql.NodeExecBuilder, r sql.Row) (sql.RowIter, error) {
	rows, err := b.Build(c, h.Child, r)
	if err != nil {
		return nil, err
	}
	right := len(h.Child.Schema(c))
	full := make(sql.Row, len(r)+h.left+right)
	copy(full, r)
	return &runRows{of: h, rows: rows, kept: &sessionOf(c).kept, full: full, right: right}, nil
}

// runRows are the rows of one execution, in the order of their keys.
type runRows struct {
	of    *heldRun
	rows  sql.RowIter
	kept  *kept
	full  sql.Row // of the join, with the right side's columns alone
	right int     // columns of the right side
	key   any     // of the row before
	bytes int     // of the rows that have the key
}

// Next implements sql.RowIter.
func (i *runRows) Next(c *sql.Context) (sql.Row, error) {
	r, err := i.rows.Next(c)
	if err != nil {
		return nil, err
	}
	copy(i.full[len(i.full)-i.right:], r[len(r)-i.right:])
	key, err := i.of.key.Eval(c, i.full)
	if err != nil {
		return nil, err
	}
	same := key != nil && i.key != nil
	if same {
		order, err := i.of.key.Type(c).Compare(c, i.key, key)
		same = err == nil && order == 0
	}
	if i.key = key; !same {
		i.kept.give(i.bytes)
		i.bytes = 0
	}
	n := rowSize(r)
	i.bytes += n
	return r, i.kept.add(n)
}

// Close implements sql.RowIter.
func (i *runRows) Close(c *sql.Context) error {
	i.kept.give(i.bytes)
	i.bytes = 0
	return i.rows.Close(c)
}

// windowed is a window whose rows are closed when it is: the library leaves them open.
type windowed struct{ *plan.Window }

var _ sql.ExecBuilderNode = (*windowed)(nil)

// WithChildren implements sql.Node.
func (w *windowed) WithChildren(c *sql.Context, children ...sql.Node) (sql.Node, error) {
	n, err := w.Window.WithChildren(c, children...)
	if err != nil {
		return nil, err
	}
	return &windowed{n.(*plan.Window)}, nil
}

// WithExpressions implements sql.Expressioner.
func (w *windowed) WithExpressions(c *sql.Context, all ...sql.Expression) (sql.Node, error) {
	n, err := w.Window.WithExpressions(c, all...)
	if err != nil {
		return nil, err
	}
	return &windowed{n.(*plan.Window)}, nil
}

// BuildRowIter implements sql.ExecBuilderNode.
func (w *windowed) BuildRowIter(c *sql.Context, b sql.NodeExecBuilder, r sql.Row) (sql.RowIter, error) {
	below, err := b.Build(c, w.Child, r)
	if err != nil {
		return nil, err
	}
	n, err := w.Window.WithChildren(c, &begun{plan.UnaryNode{Child: w.Child}, below})
	if err != nil {
		return nil, errors.Join(err, below.Close(c))
	}
	rows, err := b.Build(c, n, r)
	if err != nil {
		return nil, errors.Join(err, below.Close(c))
	}
	return &windowRows{rows, below}, nil
}

// windowRows closes the rows below it too.
type windowRows struct {
	sql.RowIter
	below sql.RowIter
}

// Close implements sql.RowIter.
func (i *windowRows) Close(c *sql.Context) error {
	return errors.Join(i.RowIter.Close(c), i.below.Close(c))
}

// begun is a node whose rows have begun.
type begun struct {
	plan.UnaryNode
	rows sql.RowIter
}

var _ sql.ExecBuilderNode = (*begun)(nil)

// String implements sql.Node.
func (b *begun) String() string { return b.Child.String() }

// Schema implements sql.Node.
func (b *begun) Schema(c *sql.Context) sql.Schema { return b.Child.Schema(c) }

// IsReadOnly implements sql.Node.
func (b *begun) IsReadOnly() bool { return b.Child.IsReadOnly() }

// WithChildren implements sql.Node.
func (b *begun) WithChildren(_ *sql.Context, children ...sql.Node) (sql.Node, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(b, len(children), 1)
	}
	return &begun{plan.UnaryNode{Child: children[0]}, b.rows}, nil
}

// BuildRowIter implements sql.ExecBuilderNode.
func (b *begun) BuildRowIter(*sql.Context, sql.NodeExecBuilder, sql.Row) (sql.RowIter, error) {
	return b.rows, nil
}

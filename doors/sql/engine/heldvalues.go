package engine

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// heldValues is an aggregate that keeps values of its rows: GROUP_CONCAT, COUNT(DISTINCT …), JSON_ARRAYAGG and JSON_OBJECTAGG. Its values count as memory
// of the statement.
type heldValues struct {
	sql.Aggregation
	by holding
}

// holding says what an aggregate keeps of a row.
type holding byte

const (
	holdsHash   holding = 1 + iota // if no row before had it
	holdsValues                    // of its own expressions
	holdsRow                       // the row and the values of its own expressions
	holdsOnce                      // holdsRow, if no row before had the value
)

// countedGroups has the aggregates of a grouping counted that keep values. Nil: there are none.
func countedGroups(c *sql.Context, g *plan.GroupBy) (sql.Node, error) {
	all, same, err := transform.Exprs(c, g.SelectDeps, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		by := holding(0)
		switch e.(type) {
		case *aggregation.CountDistinct:
			by = holdsHash
		case *aggregation.JsonArray, *aggregation.JSONObjectAgg:
			by = holdsValues
		case *aggregation.GroupConcat:
			if by = holdsRow; strings.HasPrefix(e.String(), "group_concat(distinct ") { // the library says it nowhere else
				by = holdsOnce
			}
		default:
			return e, transform.SameTree, nil
		}
		return &heldValues{e.(sql.Aggregation), by}, transform.NewTree, nil
	})
	if err != nil || same == transform.SameTree {
		return nil, err
	}
	return plan.NewGroupBy(all, g.GroupByExprs, g.Child), nil
}

// WithChildren implements sql.Expression.
func (x *heldValues) WithChildren(c *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := x.Aggregation.WithChildren(c, children...)
	if err != nil {
		return nil, err
	}
	return &heldValues{e.(sql.Aggregation), x.by}, nil
}

// WithId implements sql.IdExpression.
func (x *heldValues) WithId(id sql.ColumnId) sql.IdExpression {
	return &heldValues{x.Aggregation.WithId(id).(sql.Aggregation), x.by}
}

// WithWindow implements sql.WindowAdaptableExpression.
func (x *heldValues) WithWindow(c *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &heldValues{x.Aggregation.WithWindow(c, w).(sql.Aggregation), x.by}
}

// NewBuffer implements sql.Aggregation.
func (x *heldValues) NewBuffer(c *sql.Context) (sql.AggregationBuffer, error) {
	b, err := x.Aggregation.NewBuffer(c)
	return &heldBuffer{AggregationBuffer: b, of: x, kept: &sessionOf(c).kept}, err
}

// heldBuffer is the aggregate of one group.
type heldBuffer struct {
	sql.AggregationBuffer
	of    *heldValues
	kept  *kept
	bytes int
	found int64               // of holdsHash: how many values there are
	seen  map[string]struct{} // of holdsOnce
}

// Update implements sql.AggregationBuffer.
func (b *heldBuffer) Update(c *sql.Context, r sql.Row) error {
	n, err := b.grows(c, r)
	if err != nil {
		return err
	}
	if n > 0 {
		b.bytes += n
		if err := b.kept.add(n); err != nil {
			return err
		}
	}
	return b.AggregationBuffer.Update(c, r)
}

// grows is by how much the aggregate grows with a row.
func (b *heldBuffer) grows(c *sql.Context, r sql.Row) (int, error) {
	if b.of.by == holdsHash { // counted behind the row before
		v, err := b.AggregationBuffer.Eval(c)
		found, _ := integer(v)
		n := int(found-b.found) * entryBytes
		b.found = found
		return n, err
	}
	n := 0
	if b.of.by != holdsValues {
		n = rowSize(r)
	}
	of := b.of.Children()
	if b.of.by != holdsValues {
		of = of[len(of)-1:] // those before are what it sorts by
	}
	for _, e := range of {
		if _, ok := e.(*expression.GetField); ok && b.of.by == holdsRow { // it is in the row
			continue
		}
		v, err := e.Eval(c, r)
		if err != nil {
			return 0, err
		}
		n += columnBytes + valueSize(v)
		if b.of.by == holdsOnce {
			text := fmt.Sprint(v)
			if _, known := b.seen[text]; known {
				return 0, nil
			}
			if b.seen == nil {
				b.seen = map[string]struct{}{}
			}
			b.seen[text] = struct{}{}
			n += 2 * (entryBytes + len(text))
		}
	}
	return n, nil
}

// Dispose implements sql.Disposable.
func (b *heldBuffer) Dispose(c *sql.Context) {
	b.kept.give(b.bytes)
	b.bytes = 0
	b.AggregationBuffer.Dispose(c)
}

package engine

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// joined mends the joins of a plan. A join of two sorted indexes goes by the first columns alone, and compares the others as conditions: the library
// compares all of them as one list, and skips every row of the right side at the first NULL in a list of the left one. A join by an index looks up
// nothing for a number that the column cannot have: the library rounds it, and keeps no filter.
func joined(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeWithOpaque(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		switch a := n.(type) {
		case *plan.IndexedTableAccess:
			exact, err := wholeKeys(c, a)
			if err != nil || exact == nil {
				return n, transform.SameTree, err
			}
			return exact, transform.NewTree, nil
		case *plan.JoinNode:
			if filter := byOne(c, a); filter != nil {
				one := *a
				one.Filter = filter
				return &one, transform.NewTree, nil
			}
		}
		return n, transform.SameTree, nil
	})
	return n, err
}

// byOne is the condition of a merged join, column by column. Nil: it is so already, or the join is another one.
func byOne(c *sql.Context, j *plan.JoinNode) sql.Expression {
	if !j.Op.IsMerge() {
		return nil
	}
	filters := expression.SplitConjunction(c, j.Filter)
	lists, ok := filters[0].(*expression.Equals)
	if !ok {
		return nil
	}
	left, ok := lists.Left().(expression.Tuple)
	right, also := lists.Right().(expression.Tuple)
	if !ok || !also || len(left) != len(right) {
		return nil
	}
	var all []sql.Expression
	for i := range left {
		all = append(all, expression.NewEquals(left[i], right[i]))
	}
	return expression.JoinAnd(append(all, filters[1:]...)...)
}

// wholeKeys has a lookup of a join judge each number before the library converts it. Nil: there is none to judge. A column that is compared by <=>
// keeps its filter, and NULL would be found.
func wholeKeys(c *sql.Context, a *plan.IndexedTableAccess) (sql.Node, error) {
	keys := slices.Clone(a.Expressions())
	columns, null, changed := a.Index().ColumnExpressionTypes(c), a.NullMask(), false
	for i, k := range keys {
		if i >= len(columns) || i < len(null) && null[i] || !types.IsNumber(columns[i].Type) {
			continue
		}
		if t := k.Type(c); t.Equals(columns[i].Type) || !types.IsNumber(t) {
			continue
		}
		keys[i], changed = &numberOf{UnaryExpressionStub: expression.UnaryExpressionStub{Child: k}, of: columns[i].Type}, true
	}
	if !changed {
		return nil, nil
	}
	return a.WithExpressions(c, keys...)
}

// numberOf is a number if a column can have it, and else NULL, to which no row is equal.
type numberOf struct {
	expression.UnaryExpressionStub
	of sql.Type
}

func (n *numberOf) Type(c *sql.Context) sql.Type { return n.Child.Type(c) }
func (n *numberOf) IsNullable(*sql.Context) bool { return true }
func (n *numberOf) String() string               { return n.Child.String() }

// WithChildren implements sql.Expression.
func (n *numberOf) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(n, len(children), 1)
	}
	return &numberOf{UnaryExpressionStub: expression.UnaryExpressionStub{Child: children[0]}, of: n.of}, nil
}

// Eval implements sql.Expression.
func (n *numberOf) Eval(c *sql.Context, r sql.Row) (any, error) {
	v, err := n.Child.Eval(c, r)
	if err != nil || v == nil {
		return nil, err
	}
	converted, in, err := n.of.Convert(c, v)
	if err != nil || in != sql.InRange || compareNumbers(c, literal(converted, n.of), n.Child, converted, v) != 0 {
		return nil, nil // an error, too: the column has no such value
	}
	return v, nil
}

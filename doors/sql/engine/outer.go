package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// passedOn is a plan whose groupings hand on the columns that subqueries above them refer to. The library's groups have the columns of the SELECT list
// alone: a subquery there would read another column in their place.
func passedOn(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeWithOpaque(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		next, some := passed(c, n, nil, true)
		if len(some) == 0 {
			return n, transform.SameTree, nil
		}
		return next, transform.NewTree, nil
	})
	return n, err
}

// passed goes down from the projection of a SELECT to its grouping. needed are the columns that subqueries of the nodes above refer to; returned are those
// of them that the grouping has. None: nothing has changed.
func passed(c *sql.Context, n sql.Node, needed []*expression.GetField, top bool) (out sql.Node, some []*expression.GetField) {
	switch x := n.(type) {
	case *plan.Project:
		child, some := passed(c, x.Child, referred(c, x.Projections, needed), false)
		if len(some) == 0 {
			return n, nil
		}
		p := *x
		p.Child = child
		if !top {
			p.Projections = with(x.Projections, some)
		}
		return &p, some
	case *plan.Having:
		child, some := passed(c, x.Child, referred(c, []sql.Expression{x.Cond}, needed), false)
		if len(some) == 0 {
			return n, nil
		}
		return plan.NewHaving(x.Cond, child), some
	case *plan.Sort:
		child, some := passed(c, x.Child, referred(c, x.SortConditions.ToExpressions(), needed), false)
		if len(some) == 0 {
			return n, nil
		}
		s := *x
		s.Child = child
		return &s, some
	case *plan.GroupBy:
		columns := columnsBelow(x.Child)
		for _, f := range needed {
			if columns.Contains(f.Id()) {
				some = append(some, f)
			}
		}
		g := *x
		g.SelectDeps = with(x.SelectDeps, some)
		return &g, some
	}
	return n, nil
}

// with are expressions, and the columns that are not among them.
func with(all []sql.Expression, columns []*expression.GetField) []sql.Expression {
	all = all[:len(all):len(all)]
	for _, f := range columns {
		there := false
		for _, e := range all {
			g, ok := e.(*expression.GetField)
			there = there || ok && g.Id() == f.Id()
		}
		if !there {
			all = append(all, f)
		}
	}
	return all
}

// referred are columns, and those of the query around that the subqueries in some expressions refer to.
func referred(c *sql.Context, all []sql.Expression, columns []*expression.GetField) []*expression.GetField {
	columns = columns[:len(columns):len(columns)]
	for _, e := range all {
		sql.Inspect(c, e, func(c *sql.Context, e sql.Expression) bool {
			q, ok := e.(*plan.Subquery)
			if !ok {
				return true
			}
			outer := q.Correlated()
			transform.InspectExpressionsWithNode(c, q.Query, func(c *sql.Context, _ sql.Node, e sql.Expression) bool {
				if f, ok := e.(*expression.GetField); ok && outer.Contains(f.Id()) {
					columns = append(columns, f)
					outer.Remove(f.Id())
				}
				if inner, ok := e.(*plan.Subquery); ok {
					for _, f := range referred(c, []sql.Expression{inner}, nil) {
						if outer.Contains(f.Id()) {
							columns = append(columns, f)
							outer.Remove(f.Id())
						}
					}
				}
				return true
			})
			return true
		})
	}
	return columns
}

// columnsBelow are the columns of the tables below a node.
func columnsBelow(n sql.Node) (all sql.ColSet) {
	transform.Inspect(n, func(n sql.Node) bool {
		t, ok := n.(plan.TableIdNode)
		if ok {
			all = all.Union(t.Columns())
		}
		return !ok
	})
	return all
}

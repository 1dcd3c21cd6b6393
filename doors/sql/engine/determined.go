package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/analyzer/analyzererrors"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// The library compares the expressions of a grouped SELECT as texts, and refuses with 1055 and 1140 a good many that sql_mode's ONLY_FULL_GROUP_BY allows:
// subqueries, functions without columns, and aggregates whose text it writes in two ways. Such a refusal is judged again by the columns that the groups
// determine (MySQL 8.0 Reference Manual, "Detection of Functional Dependence").

// judgedTwice has the library's rule refuse what the second judgement refuses too.
func judgedTwice(first analyzer.RuleFunc) analyzer.RuleFunc {
	return func(c *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		out, same, err := first(c, a, n, scope, sel, flags)
		refused := analyzererrors.ErrValidationGroupBy.Is(err) || analyzererrors.ErrValidationGroupByOrderBy.Is(err) || sql.ErrNonAggregatedColumnWithoutGroupBy.Is(err)
		if err != nil && refused && allDetermined(c, n) {
			return n, transform.SameTree, nil
		}
		return out, same, err
	}
}

// allDetermined reports whether each grouping of a plan determines what the nodes above it show and sort by.
func allDetermined(c *sql.Context, n sql.Node) bool {
	ok := true
	var above []sql.Node // from the nearest root of a SELECT down
	var walk func(sql.Node)
	walk = func(n sql.Node) {
		switch x := n.(type) {
		case *plan.Project, *plan.Sort, *plan.Having, *plan.Distinct, *plan.Limit, *plan.Offset, *plan.TopN:
			above = append(above, n)
			walk(n.Children()[0])
			above = above[:len(above)-1]
			return
		case *plan.GroupBy:
			ok = ok && determines(c, x, above)
		}
		outer := above
		above = nil
		for _, child := range n.Children() {
			walk(child)
		}
		if o, is := n.(sql.OpaqueNode); is && o.Opaque() {
			if q, is := n.(*plan.SubqueryAlias); is && len(n.Children()) == 0 {
				walk(q.Child)
			}
		}
		if x, is := n.(sql.Expressioner); is {
			for _, e := range x.Expressions() {
				sql.Inspect(c, e, func(_ *sql.Context, e sql.Expression) bool {
					if q, is := e.(*plan.Subquery); is {
						walk(q.Query)
					}
					return true
				})
			}
		}
		above = outer
	}
	walk(n)
	return ok
}

// determines reports whether a grouping determines what is above it.
func determines(c *sql.Context, g *plan.GroupBy, above []sql.Node) bool {
	d := &determined{texts: map[string]bool{}, named: map[sql.ColumnId]sql.Expression{}}
	d.from(c, g)
	for _, n := range above {
		if p, ok := n.(*plan.Project); ok {
			d.names(p.Projections)
		}
	}
	shown := false
	for _, n := range above { // the first projection is what the client sees: those below it carry columns that HAVING reads inside aggregates
		switch x := n.(type) {
		case *plan.Project:
			for _, e := range x.Projections {
				if !shown && !d.by(c, e) {
					return false
				}
			}
			shown = true
		case *plan.Sort:
			for _, s := range x.SortConditions {
				if len(g.GroupByExprs) > 0 && !d.by(c, s.Expr) {
					return false
				}
			}
		}
	}
	return shown
}

// determined is what the groups of one grouping determine.
type determined struct {
	columns sql.ColSet
	inside  sql.ColSet // columns of the tables that are grouped: others are of a query around, and constant
	texts   map[string]bool
	named   map[sql.ColumnId]sql.Expression // what stands behind an alias
}

func (d *determined) names(all []sql.Expression) {
	for _, e := range all {
		if a, ok := e.(*expression.Alias); ok {
			d.named[a.Id()] = a.Child
		}
	}
}

// from finds the columns that a grouping determines: its keys, what a whole primary key determines, and what is equal to either.
func (d *determined) from(c *sql.Context, g *plan.GroupBy) {
	for _, e := range g.SelectDeps {
		if a, ok := e.(sql.Aggregation); ok {
			d.columns.Add(a.Id())
			d.texts[strings.ToLower(a.String())] = true
		}
	}
	for _, e := range g.GroupByExprs {
		d.texts[strings.ToLower(e.String())] = true
		if a, ok := e.(*expression.Alias); ok {
			d.columns.Add(a.Id())
			d.texts[strings.ToLower(a.Child.String())] = true
			e = a.Child
		}
		if f, ok := e.(*expression.GetField); ok {
			d.columns.Add(f.Id())
		}
	}
	var keys, wholes []sql.ColSet
	var pairs [][2]sql.ColumnId
	transform.Inspect(g.Child, func(n sql.Node) bool {
		switch x := n.(type) {
		case *plan.Project:
			d.names(x.Projections)
			for _, e := range x.Projections {
				if a, ok := e.(*expression.Alias); ok {
					d.inside.Add(a.Id())
				}
			}
		case *plan.Filter:
			pairs = append(pairs, d.equal(x.Expression)...)
		case *plan.JoinNode:
			pairs = append(pairs, d.equal(x.Filter)...)
		}
		if t, ok := n.(plan.TableIdNode); ok {
			d.inside = d.inside.Union(t.Columns())
			if key := primaryOf(c, t); !key.Empty() {
				keys, wholes = append(keys, key), append(wholes, t.Columns())
			}
			_, alias := n.(*plan.TableAlias)
			return alias
		}
		return true
	})
	for id := range d.named { // any order: each is looked at until nothing is added
		if f, ok := d.named[id].(*expression.GetField); ok {
			pairs = append(pairs, [2]sql.ColumnId{f.Id(), id})
		}
	}
	for more := true; more; {
		more = false
		for i, key := range keys {
			if key.SubsetOf(d.columns) && !wholes[i].SubsetOf(d.columns) {
				d.columns, more = d.columns.Union(wholes[i]), true
			}
		}
		for _, p := range pairs {
			if d.columns.Contains(p[0]) != d.columns.Contains(p[1]) {
				d.columns.Add(p[0])
				d.columns.Add(p[1])
				more = true
			}
		}
	}
}

// equal are the pairs of columns that a condition has be equal. A column that is equal to a constant is determined at once.
func (d *determined) equal(e sql.Expression) (pairs [][2]sql.ColumnId) {
	switch x := e.(type) {
	case *expression.And:
		return append(d.equal(x.LeftChild), d.equal(x.RightChild)...)
	case *expression.Equals:
		a, aField := x.Left().(*expression.GetField)
		b, bField := x.Right().(*expression.GetField)
		_, aConstant := x.Left().(*expression.Literal)
		_, bConstant := x.Right().(*expression.Literal)
		switch {
		case aField && bField:
			pairs = append(pairs, [2]sql.ColumnId{a.Id(), b.Id()})
		case aField && bConstant:
			d.columns.Add(a.Id())
		case bField && aConstant:
			d.columns.Add(b.Id())
		}
	}
	return pairs
}

// primaryOf are the columns of a table's primary key.
func primaryOf(c *sql.Context, t plan.TableIdNode) (key sql.ColSet) {
	first, ok := t.Columns().Next(1)
	schema := t.Schema(c)
	if _, derived := t.(*plan.SubqueryAlias); !ok || derived || t.Columns().Len() != len(schema) {
		return key
	}
	for i, column := range schema {
		if column.PrimaryKey {
			key.Add(first + sql.ColumnId(i))
		}
	}
	return key
}

// by reports whether the groups determine an expression.
func (d *determined) by(c *sql.Context, e sql.Expression) bool {
	if d.texts[strings.ToLower(e.String())] {
		return true
	}
	switch x := e.(type) {
	case sql.Aggregation:
		return true
	case *expression.GetField:
		if child, ok := d.named[x.Id()]; ok && !d.columns.Contains(x.Id()) {
			return d.by(c, child)
		}
		return d.columns.Contains(x.Id()) || !d.inside.Contains(x.Id()) && x.Table() != ""
	case *plan.Subquery:
		ok := true
		x.Correlated().ForEach(func(id sql.ColumnId) {
			child, named := d.named[id]
			ok = ok && (d.columns.Contains(id) || !d.inside.Contains(id) || named && d.by(c, child))
		})
		return ok
	}
	for _, child := range e.Children() {
		if !d.by(c, child) {
			return false
		}
	}
	return true
}

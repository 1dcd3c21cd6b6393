package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// conditions are those of a statement, for EXPLAIN. Tables are known by the names that they have in the statement: two of one name, in a subquery and
// around it, share their conditions.
type conditions struct{ all []condition }

// condition is one that is joined to the others by AND.
type condition struct {
	tables map[string]bool            // that it names
	serves map[string]map[string]bool // by table: columns by whose index its rows can be found
	equals map[string]string          // by table: the column that it compares with one value, and with nothing else
}

// node takes in the conditions of a plan that was not optimized yet.
func (k *conditions) node(c *sql.Context, n sql.Node) {
	transform.InspectWithOpaque(c, n, func(c *sql.Context, n sql.Node) bool {
		switch a := n.(type) {
		case *plan.Filter:
			k.add(c, a.Expression)
		case *plan.JoinNode:
			k.add(c, a.Filter)
		case *plan.InsertInto:
			k.node(c, a.Source)
		}
		if e, ok := n.(sql.Expressioner); ok {
			for _, e := range e.Expressions() {
				sql.Inspect(c, e, func(c *sql.Context, e sql.Expression) bool {
					if q, ok := e.(*plan.Subquery); ok {
						k.node(c, q.Query)
					}
					return true
				})
			}
		}
		return true
	})
}

func (k *conditions) add(c *sql.Context, e sql.Expression) {
	if e == nil {
		return
	}
	for _, e := range expression.SplitConjunction(c, e) {
		one := condition{tables: map[string]bool{}, serves: map[string]map[string]bool{}, equals: map[string]string{}}
		sql.Inspect(c, e, func(_ *sql.Context, e sql.Expression) bool {
			if f, ok := e.(*expression.GetField); ok {
				one.tables[strings.ToLower(f.Table())] = true
			}
			return true
		})
		one.find(e)
		k.all = append(k.all, one)
	}
}

// serve reports whether rows of a table can be found by an index that begins with a column.
func (k *conditions) serve(table, column string) bool {
	for _, one := range k.all {
		if one.serves[strings.ToLower(table)][strings.ToLower(column)] {
			return true
		}
	}
	return false
}

// find finds the columns that a condition compares.
func (k *condition) find(e sql.Expression) {
	switch a := e.(type) {
	case *expression.Equals:
		k.compared(a.Left(), true)
		k.compared(a.Right(), true)
	case *expression.NullSafeEquals:
		k.compared(a.Left(), true)
		k.compared(a.Right(), true)
	case *expression.IsNull:
		k.compared(a.Child, true)
	case *expression.GreaterThan, *expression.GreaterThanOrEqual, *expression.LessThan, *expression.LessThanOrEqual:
		for _, side := range e.Children() {
			k.compared(side, false)
		}
	case *expression.Between:
		k.compared(a.Val, false)
	case *expression.InTuple:
		k.compared(a.Left(), false)
	case *plan.InSubquery:
		k.compared(a.LeftChild, false)
	case *expression.Like:
		if l, ok := a.RightChild.(*expression.Literal); ok {
			if text, ok := l.Value().(string); ok && text != "" && text[0] != '%' && text[0] != '_' {
				k.compared(a.LeftChild, false)
			}
		}
	case *expression.Not: // IS NOT NULL
		if null, ok := a.Child.(*expression.IsNull); ok {
			k.compared(null.Child, false)
		}
	case *expression.Or: // each side has to find its rows
		left, right := condition{serves: map[string]map[string]bool{}}, condition{serves: map[string]map[string]bool{}}
		left.find(a.LeftChild)
		right.find(a.RightChild)
		for table := range left.serves { // any order: a set is made
			if right.serves[table] == nil {
				continue
			}
			for _, side := range []condition{left, right} {
				for column := range side.serves[table] { // any order: a set is made
					k.serve(table, column)
				}
			}
		}
	}
}

func (k *condition) compared(e sql.Expression, equal bool) {
	f, ok := e.(*expression.GetField)
	if !ok {
		return
	}
	table, column := strings.ToLower(f.Table()), strings.ToLower(f.Name())
	k.serve(table, column)
	if equal && k.equals != nil {
		k.equals[table] = column
	}
}

func (k *condition) serve(table, column string) {
	if k.serves[table] == nil {
		k.serves[table] = map[string]bool{}
	}
	k.serves[table][column] = true
}

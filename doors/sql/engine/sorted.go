package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// sorted has an ORDER BY name the columns before its own in an index, where the condition gives each of them one value: `WHERE w = 1 ORDER BY o`
// becomes `ORDER BY w, o`. The order is the same. The planner drops a sort only if its columns are the first of an index, and without the first ones it
// would read all rows, and lock them, to return the smallest. It comes before the planner.
func sorted(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		s, ok := n.(*plan.Sort)
		if !ok {
			return n, transform.SameTree, nil
		}
		by, err := byIndex(c, s)
		if err != nil || by == nil {
			return n, transform.SameTree, err
		}
		return plan.NewSort(by, s.Child), transform.NewTree, nil
	})
	return n, err
}

// byIndex is the order that an index has and that comes to the same as a sort's. Nil: there is none, or the sort says it already.
func byIndex(c *sql.Context, s *plan.Sort) (sql.SortConditions, error) {
	f, ok := s.Child.(*plan.Filter)
	if !ok || len(s.SortConditions) == 0 {
		return nil, nil
	}
	table := f.Child
	if alias, ok := table.(*plan.TableAlias); ok {
		table = alias.Child
	}
	t, ok := table.(*plan.ResolvedTable)
	if !ok {
		return nil, nil
	}
	indexed, ok := t.UnderlyingTable().(sql.IndexAddressableTable)
	if !ok {
		return nil, nil
	}
	for i := range s.SortConditions {
		if _, ok := s.SortConditions[i].Expr.(*expression.GetField); !ok || s.SortConditions[i].Order != s.SortConditions[0].Order {
			return nil, nil
		}
	}
	single := singleValued(c, f.Expression)
	if len(single) == 0 {
		return nil, nil
	}
	indexes, err := indexed.GetIndexes(c)
	if err != nil {
		return nil, err
	}
	for _, index := range indexes {
		if len(index.PrefixLengths()) == 0 {
			if by := alongIndex(s.SortConditions, single, index.Expressions()); by != nil {
				return by, nil
			}
		}
	}
	return nil, nil
}

// alongIndex is a sort with columns of one value put where an index of such columns has them. Nil: the index has another order, or none was put.
func alongIndex(sort sql.SortConditions, single map[string]*expression.GetField, index []string) sql.SortConditions {
	by, put, next := sql.SortConditions{}, false, 0
	for _, column := range index {
		name := column[strings.LastIndexByte(column, '.')+1:]
		for next < len(sort) && !isColumn(sort[next].Expr, name) && single[fieldName(sort[next].Expr)] != nil {
			next++ // it orders nothing
		}
		if next == len(sort) {
			break
		}
		if isColumn(sort[next].Expr, name) {
			by = append(by, sort[next])
			next++
			continue
		}
		field := single[strings.ToLower(name)]
		if field == nil {
			return nil
		}
		one := sort[0]
		one.Expr = field
		by, put = append(by, one), true
	}
	if next < len(sort) || !put {
		return nil
	}
	return by
}

func fieldName(e sql.Expression) string {
	if f, ok := e.(*expression.GetField); ok {
		return strings.ToLower(f.Name())
	}
	return ""
}

func isColumn(e sql.Expression, name string) bool { return strings.EqualFold(fieldName(e), name) }

// singleValued are the columns, by their names in lower case, of which a condition leaves one value, as an index orders them.
func singleValued(c *sql.Context, condition sql.Expression) map[string]*expression.GetField {
	all := map[string]*expression.GetField{}
	for _, e := range expression.SplitConjunction(c, condition) {
		eq, ok := e.(*expression.Equals)
		if !ok {
			continue
		}
		field, ok := eq.Left().(*expression.GetField)
		value := eq.Right()
		if !ok {
			if field, ok = eq.Right().(*expression.GetField); !ok {
				continue
			}
			value = eq.Left()
		}
		if leavesOne(field.Type(c), value, value.Type(c)) {
			all[strings.ToLower(field.Name())] = field
		}
	}
	return all
}

// leavesOne reports whether a column equals a constant in one value only. A text equals a number, and a BIGINT a floating one, in several.
func leavesOne(column sql.Type, value sql.Expression, t sql.Type) bool {
	switch value.(type) {
	case *expression.Literal, *parameter:
	default:
		return false
	}
	switch {
	case types.IsInteger(column), types.IsDecimal(column):
		return types.IsInteger(t) || types.IsDecimal(t)
	case types.IsTextOnly(column):
		return types.IsTextOnly(t)
	}
	return false
}

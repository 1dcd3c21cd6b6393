package engine

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// ordered has a plan not sort what an index gives in that order already: behind columns that have one value each, its entries are in the order of its next
// columns, and of the primary key. The library knows that of an index's first columns alone. It is more than a matter of speed: a sort reads every row before
// it gives the first one, and a statement that locks what it reads locks all of them, where LIMIT 1 asks for one.
func ordered(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.NodeWithOpaque(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		var by sql.SortConditions
		switch n := n.(type) {
		case *plan.Sort:
			by = n.SortConditions
		case *plan.TopN:
			by = n.SortConditions
		default:
			return n, transform.SameTree, nil
		}
		child, ok, err := sortedBy(c, n.Children()[0], by, "")
		if err != nil || !ok {
			return n, transform.SameTree, err
		}
		if top, is := n.(*plan.TopN); is {
			return plan.NewLimit(top.Limit, child).WithCalcFoundRows(top.CalcFoundRows), transform.NewTree, nil
		}
		return child, transform.NewTree, nil
	})
	return n, err
}

// sortedBy returns a plan that gives its rows in an order; ok false: there is none. alias is what the table is called above; "": by its name.
func sortedBy(c *sql.Context, n sql.Node, by sql.SortConditions, alias string) (sql.Node, bool, error) {
	switch n := n.(type) {
	case *plan.Filter, *plan.Project:
		return sortedBelow(c, n, by, alias)
	case *plan.TableAlias:
		return sortedBelow(c, n, by, n.Name())
	case *plan.IndexedTableAccess:
		x, ok := n.Index().(*index)
		if !ok || !n.IsStatic() {
			return nil, false, nil
		}
		lookup, in, err := n.GetLookup(c, nil)
		ranges, ok := lookup.Ranges.(sql.MySQLRangeCollection)
		if err != nil || !in || !ok || len(ranges) != 1 {
			return nil, false, err
		}
		if alias == "" {
			alias = n.Name()
		}
		reverse := by[0].Order == sql.Descending
		if !x.orders(ranges[0], by, alias) {
			return nil, false, nil
		}
		if lookup.IsReverse == reverse {
			return n, true, nil
		}
		lookup = sql.NewIndexLookup(lookup.Index, ranges, lookup.IsPointLookup, lookup.IsEmptyRange, lookup.IsSpatialLookup, reverse)
		turned, err := plan.NewStaticIndexedAccessForTableNode(c, n.TableNode, lookup)
		return turned, err == nil, err
	}
	return nil, false, nil
}

func sortedBelow(c *sql.Context, n sql.Node, by sql.SortConditions, alias string) (sql.Node, bool, error) {
	was := n.Children()[0]
	child, ok, err := sortedBy(c, was, by, alias)
	if err != nil || !ok || child == was {
		return n, ok, err
	}
	n, err = n.WithChildren(c, child)
	return n, err == nil, err
}

// orders reports whether the entries of a range are in an order, forwards or backwards.
func (x *index) orders(r sql.MySQLRange, by sql.SortConditions, alias string) bool {
	order := slices.Clone(x.key)
	if x.id != 0 && !x.unique { // else NULL decides whether the row's key follows
		order = append(order, x.t.def.primary...)
	}
	single := 0
	for single < len(r) && single < len(x.key) && x.isPoint(single, r[single]) {
		single++
	}
	at := single
	for _, s := range by {
		f, ok := s.Expr.(*expression.GetField)
		if !ok || !strings.EqualFold(f.Table(), alias) || s.Order != by[0].Order {
			return false
		}
		column := x.t.def.columnNamed(f.Name())
		has := func(k keyPart) bool { return k.column == column && k.prefix == 0 }
		if slices.ContainsFunc(order[:at], has) { // it has one value, or is in order already
			continue
		}
		if at >= len(order) || !has(order[at]) {
			return false
		}
		at++
	}
	return single > 0
}

// isPoint reports whether the range of a column is a value of the column's own kind, so that the filter above lets one key pass. Numbers that are compared
// with texts have many.
func (x *index) isPoint(i int, r sql.MySQLRangeColumnExpr) bool {
	low, is := r.LowerBound.(sql.Below)
	high, too := r.UpperBound.(sql.Above)
	if !is || !too {
		return false
	}
	if t := x.t.schema.Schema[x.key[i].column].Type; types.IsText(t) {
		a, is := low.Key.(string)
		b, too := high.Key.(string)
		return is && too && a == b
	} else if !types.IsInteger(t) {
		return false
	}
	a, is := integer(low.Key)
	b, too := integer(high.Key)
	return is && too && a == b
}

package engine

import (
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// mostLimit is the largest LIMIT that the planner gets: it adds OFFSET to it, and mappers write 18446744073709551615 for "no limit".
const mostLimit = 1 << 61

// ordinals has ORDER BY of a SELECT DISTINCT name what it sorts by. The planner sorts the distinct rows, which have no column of a table any more, by the
// expression that a number stands for.
func ordinals(a *sqlparser.Select) {
	if a.QueryOpts.Distinct {
		byName(a.OrderBy, a.SelectExprs)
	}
}

// ordinalsOf does so for a set operation, whose rows the planner would sort by an expression of its first SELECT: NULL and 1 sort nothing.
func ordinalsOf(s *sqlparser.SetOp) {
	var first sqlparser.SelectStatement = s
	for {
		switch x := first.(type) {
		case *sqlparser.SetOp:
			first = x.Left
			continue
		case *sqlparser.ParenSelect:
			first = x.Select
			continue
		case *sqlparser.Select:
			byName(s.OrderBy, x.SelectExprs)
		}
		return
	}
}

// byName puts names of columns of a result in place of their numbers, where they stand for expressions.
func byName(order sqlparser.OrderBy, exprs sqlparser.SelectExprs) {
	for _, o := range order {
		v, ok := o.Expr.(*sqlparser.SQLVal)
		if !ok || v.Type != sqlparser.IntVal {
			continue
		}
		n, err := strconv.Atoi(string(v.Val))
		if err != nil || n < 1 || n > len(exprs) {
			continue
		}
		for _, e := range exprs[:n] {
			if _, ok := e.(*sqlparser.AliasedExpr); !ok { // a * has columns that are not known here
				return
			}
		}
		e := exprs[n-1].(*sqlparser.AliasedExpr)
		if _, column := e.Expr.(*sqlparser.ColName); column {
			continue
		}
		if e.As.IsEmpty() {
			e.As = sqlparser.NewColIdent(e.InputExpression) // the heading stays
		}
		if only(exprs, e.As) {
			o.Expr = &sqlparser.ColName{Name: e.As}
		}
	}
}

// only reports whether one column of a result has this name.
func only(all sqlparser.SelectExprs, name sqlparser.ColIdent) bool {
	n := 0
	for _, e := range all {
		a, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			return false
		}
		c, column := a.Expr.(*sqlparser.ColName)
		if a.As.Equal(name) || a.As.IsEmpty() && column && c.Name.Equal(name) {
			n++
		}
	}
	return n == 1
}

// limited bounds the rows of a LIMIT by mostLimit.
func limited(l *sqlparser.Limit) {
	if l == nil {
		return
	}
	for _, e := range []*sqlparser.Expr{&l.Rowcount, &l.Offset} {
		v, ok := (*e).(*sqlparser.SQLVal)
		if !ok || v.Type != sqlparser.IntVal {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimLeft(string(v.Val), "0"), 10, 64); err == nil && n > mostLimit {
			*e = sqlparser.NewIntVal([]byte(strconv.Itoa(mostLimit)))
		}
	}
}

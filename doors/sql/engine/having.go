package engine

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// The library looks the columns of an aggregate in HAVING up by their names alone: of two joined tables with an id each it knows the first, and says of
// the other that there is no such table. A statement that fails so is planned with its HAVING as the WHERE of a SELECT around the grouped one.

// boundAround binds a statement whose HAVING the library does not understand. ok false: there is nothing to write in another way, or it does not help.
func boundAround(c *sql.Context, b *planbuilder.Builder, text string) (n sql.Node, flags *sql.QueryFlags, ok bool) {
	st, _, err := sessionOf(c).e.parse(sql.LoadSqlMode(c), text) // sessions share the tree that there is, so it does not change
	if err != nil {
		return nil, nil, false
	}
	ast := st.ast
	if x, is := ast.(*sqlparser.Explain); is {
		ast = x.Statement
	}
	some := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		a, is := n.(*sqlparser.Select)
		if is && a.Having != nil && around(a) {
			some = true
		}
		return true, nil
	}, ast)
	if !some {
		return nil, nil, false
	}
	n, flags, err = b.BindOnly(ast, text, nil)
	return n, flags, err == nil
}

// around makes a grouped SELECT with HAVING one with WHERE around the grouped one. False: it stays as it is.
func around(a *sqlparser.Select) bool {
	if len(a.Window) > 0 || a.Into != nil {
		return false
	}
	inner := *a
	inner.With, inner.Having, inner.OrderBy, inner.Limit, inner.QueryOpts = nil, nil, nil, nil, sqlparser.QueryOpts{}
	inner.SelectExprs = nil
	h := &hoisted{shown: map[string]bool{}, hidden: map[string]string{}}
	outer := sqlparser.SelectExprs{}
	for i, e := range a.SelectExprs {
		x, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			return false
		}
		name, heading := x.As, x.As
		if name.IsEmpty() {
			name, heading = sqlparser.NewColIdent(fmt.Sprintf("holdfast:%d", i)), sqlparser.NewColIdent(x.InputExpression)
			if column, ok := x.Expr.(*sqlparser.ColName); ok {
				heading = column.Name
			}
		}
		if h.shown[name.Lowered()] {
			return false
		}
		h.shown[name.Lowered()] = true
		inner.SelectExprs = append(inner.SelectExprs, &sqlparser.AliasedExpr{Expr: x.Expr, As: name})
		outer = append(outer, &sqlparser.AliasedExpr{Expr: &sqlparser.ColName{Name: name}, As: heading})
	}
	h.in(reflect.ValueOf(&a.Having.Expr).Elem())
	before := len(h.exprs)
	for _, o := range a.OrderBy {
		h.in(reflect.ValueOf(&o.Expr).Elem())
	}
	if h.refused || a.QueryOpts.Distinct && len(h.exprs) > before {
		return false
	}
	inner.SelectExprs = append(inner.SelectExprs, h.exprs...)
	where := sqlparser.NewWhere(sqlparser.WhereStr, a.Having.Expr)
	*a = sqlparser.Select{With: a.With, Limit: a.Limit, Where: where, Lock: &sqlparser.Lock{}, OrderBy: a.OrderBy, SelectExprs: outer, QueryOpts: a.QueryOpts,
		From: sqlparser.TableExprs{&sqlparser.AliasedTableExpr{Expr: &sqlparser.Subquery{Select: &inner}, As: sqlparser.NewTableIdent("holdfast:grouped")}}}
	return true
}

// hoisted are what HAVING and ORDER BY refer to, as columns of the grouped SELECT.
type hoisted struct {
	shown   map[string]bool   // names of the columns that the client sees
	hidden  map[string]string // names of the other columns, by the text of what they hold
	exprs   sqlparser.SelectExprs
	refused bool // a subquery, or a window
}

// in puts the names of columns in place of aggregates and of the columns of tables.
func (h *hoisted) in(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		if v.Type() == exprType && v.CanSet() {
			switch x := v.Interface().(type) {
			case *sqlparser.Subquery, *sqlparser.ExistsExpr:
				h.refused = true
				return
			case *sqlparser.ColName:
				if !x.Qualifier.IsEmpty() || !h.shown[x.Name.Lowered()] {
					v.Set(reflect.ValueOf(h.column(x)))
				}
				return
			case *sqlparser.GroupConcatExpr:
				v.Set(reflect.ValueOf(h.column(x)))
				return
			case *sqlparser.FuncExpr:
				if x.Over != nil {
					h.refused = true
					return
				}
				if aggregates[x.Name.Lowered()] {
					v.Set(reflect.ValueOf(h.column(x)))
					return
				}
			}
		}
		h.in(v.Elem())
	case reflect.Pointer:
		if !v.IsNil() {
			h.in(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				h.in(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				h.in(v.Index(i))
			}
		}
	}
}

// column is a column of the grouped SELECT that holds an expression.
func (h *hoisted) column(e sqlparser.Expr) *sqlparser.ColName {
	text := strings.ToLower(sqlparser.String(e))
	name := h.hidden[text]
	if name == "" {
		name = fmt.Sprintf("holdfast:hidden:%d", len(h.hidden))
		h.hidden[text] = name
		h.exprs = append(h.exprs, &sqlparser.AliasedExpr{Expr: e, As: sqlparser.NewColIdent(name)})
	}
	return &sqlparser.ColName{Name: sqlparser.NewColIdent(name)}
}

// aggregates are the functions over the rows of a group.
var aggregates = set("any_value", "avg", "bit_and", "bit_or", "bit_xor", "count", "json_arrayagg", "json_objectagg", "max", "min", "std", "stddev", "stddev_pop",
	"stddev_samp", "sum", "var_pop", "var_samp", "variance")

package engine

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// selectedRows is the name that the rows of INSERT … SELECT have where VALUES() refers to them.
const selectedRows = "holdfast:rows"

// selectedValues has VALUES() in INSERT … SELECT … ON DUPLICATE KEY UPDATE name a column of the rows that are selected. The library knows the columns of
// literal rows alone. False: the statement does not say the column, or refers to other tables of the SELECT as well, which a derived table would hide.
func selectedValues(a *sqlparser.Insert, rows sqlparser.SelectStatement) bool {
	some, others := false, false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch x := n.(type) {
		case *sqlparser.ValuesFuncExpr:
			some = true
			return false, nil
		case *sqlparser.ColName:
			others = others || !x.Qualifier.Name.IsEmpty() && !strings.EqualFold(x.Qualifier.Name.String(), a.Table.Name.String())
		}
		return true, nil
	}, sqlparser.AssignmentExprs(a.OnDup))
	if !some {
		return true
	}
	if others || len(a.Columns) == 0 {
		return false
	}
	derived := &sqlparser.Subquery{Select: rows}
	exprs := sqlparser.SelectExprs{}
	for i := range a.Columns {
		name := sqlparser.NewColIdent(fmt.Sprintf("column:%d", i))
		derived.Columns = append(derived.Columns, name)
		exprs = append(exprs, &sqlparser.AliasedExpr{Expr: &sqlparser.ColName{Name: name, Qualifier: sqlparser.TableName{Name: sqlparser.NewTableIdent(selectedRows)}}})
	}
	known := true
	var in func(reflect.Value)
	in = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			if v.IsNil() {
				return
			}
			x, values := v.Interface().(*sqlparser.ValuesFuncExpr)
			if v.Type() != exprType || !values {
				in(v.Elem())
				return
			}
			for i, column := range a.Columns {
				if column.Equal(x.Name.Name) {
					v.Set(reflect.ValueOf(&sqlparser.ColName{Name: derived.Columns[i], Qualifier: sqlparser.TableName{Name: sqlparser.NewTableIdent(selectedRows)}}))
					return
				}
			}
			known = false
		case reflect.Pointer:
			if !v.IsNil() {
				in(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					in(v.Field(i))
				}
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() != reflect.Uint8 {
				for i := range v.Len() {
					in(v.Index(i))
				}
			}
		}
	}
	in(reflect.ValueOf(&a.OnDup).Elem())
	a.Rows = &sqlparser.Select{SelectExprs: exprs, Lock: &sqlparser.Lock{},
		From: sqlparser.TableExprs{&sqlparser.AliasedTableExpr{Expr: derived, As: sqlparser.NewTableIdent(selectedRows)}}}
	return known
}

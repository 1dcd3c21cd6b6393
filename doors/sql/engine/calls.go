package engine

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// calls has a statement call functions where the parser has forms of its own: an interval that is added, CAST to a date, a time or an integer, ~, and TIMESTAMPADD.
// The planner would make the library's expressions of them. It goes through a statement by reflection, and only through one that has such a form.
func calls(n sqlparser.Statement) { callsIn(reflect.ValueOf(n)) }

var exprType = reflect.TypeFor[sqlparser.Expr]()

func callsIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		callsIn(v.Elem())
		if v.Type() != exprType || !v.CanSet() {
			return
		}
		if made := called(v.Interface().(sqlparser.Expr)); made != nil {
			v.Set(reflect.ValueOf(made))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			callsIn(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				callsIn(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			callsIn(v.Index(i))
		}
	}
}

// called is the call for a form of the parser's. Nil: it is none.
func called(e sqlparser.Expr) sqlparser.Expr {
	call := func(name string, args ...sqlparser.Expr) sqlparser.Expr {
		f := &sqlparser.FuncExpr{Name: sqlparser.NewColIdent(name)}
		for _, a := range args {
			f.Exprs = append(f.Exprs, &sqlparser.AliasedExpr{Expr: a})
		}
		return f
	}
	switch x := e.(type) {
	case *sqlparser.BinaryExpr:
		name := ""
		switch x.Operator {
		case sqlparser.PlusStr:
			name = "date_add"
		case sqlparser.MinusStr:
			name = "date_sub"
		default:
			return nil
		}
		if by, ok := x.Right.(*sqlparser.IntervalExpr); ok {
			return call(name, x.Left, by)
		}
		if by, ok := x.Left.(*sqlparser.IntervalExpr); ok && name == "date_add" {
			return call(name, x.Right, by)
		}
	case *sqlparser.UnaryExpr:
		if x.Operator == sqlparser.TildaStr {
			return call(bitNot, x.Expr)
		}
	case *sqlparser.TimestampFuncExpr:
		if x.Name == "timestampadd" {
			return call("date_add", x.Expr2, &sqlparser.IntervalExpr{Expr: x.Expr1, Unit: x.Unit})
		}
	case *sqlparser.ConvertExpr:
		if x.Type == nil {
			return nil
		}
		digits := sqlparser.NewIntVal([]byte("0"))
		if x.Type.Length != nil {
			n, err := strconv.Atoi(string(x.Type.Length.Val))
			if err != nil || n > mostDigits {
				return nil // the planner says what is wrong
			}
			digits = x.Type.Length
		}
		switch {
		case castsTo(x, "date"):
			return call("date", x.Expr)
		case castsTo(x, "datetime"):
			return call(castDatetime, x.Expr, digits)
		case castsTo(x, "time"):
			return call(castTime, x.Expr, digits)
		case castsTo(x, "signed"):
			return call(castSigned, x.Expr)
		case castsTo(x, "unsigned"):
			return call(castUnsigned, x.Expr)
		}
	}
	return nil
}

// castsTo reports whether a CAST or CONVERT is to a type.
func castsTo(x *sqlparser.ConvertExpr, name string) bool {
	return x.Type != nil && strings.EqualFold(x.Type.Type, name)
}

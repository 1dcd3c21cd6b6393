package engine

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// The library converts a value that is stored as it converts values anywhere. MySQL has rules of its own for it: how a text becomes a number or a
// moment, how it rounds, and what is an error. So each value that a statement stores goes through an expression of ours, behind which the
// library finds nothing left to convert.

// assigned is a value on its way into a column.
type assigned struct {
	expression.UnaryExpressionStub
	column  string
	typ     sql.Type
	digits  int  // behind the point of a TIME
	hex     bool // bytes are a literal such as 0x10, which is a number for a column of numbers
	lenient bool // the statement goes on with the nearest value and a warning
	first   bool // the first of its row
}

var _ sql.Expression = (*assigned)(nil)

func (a *assigned) String() string             { return a.Child.String() }
func (a *assigned) Type(*sql.Context) sql.Type { return a.typ }

func (a *assigned) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *a
	n.Child = children[0]
	return &n, nil
}

// Eval returns the value as the column's type has it. Errors: MySQL's, as *wire.Error.
func (a *assigned) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	if s, ok := ctx.Session.(*Session); ok && a.first {
		s.row++
	}
	v, err := evalPlain(ctx, a.Child, r)
	if err != nil || v == nil {
		return nil, err
	}
	from := a.Child.Type(ctx)
	if types.IsEnum(from) && !types.IsEnum(a.typ) || types.IsSet(from) && !types.IsSet(a.typ) {
		if types.IsTextOnly(a.typ) || types.IsBinaryType(a.typ) || types.IsJSON(a.typ) {
			if v, _, err = types.ConvertToCollatedString(ctx, v, from); err != nil {
				return nil, err
			}
		}
	}
	c, problem := a.convert(ctx, v, from)
	if problem == nil {
		return c, nil
	}
	if s, ok := ctx.Session.(*Session); ok && !types.IsJSON(a.typ) {
		problem.Message += fmt.Sprintf(" at row %d", s.row)
	}
	if !a.lenient && sql.LoadSqlMode(ctx).Strict() || types.IsJSON(a.typ) {
		return nil, problem
	}
	ctx.Warn(int(problem.Code), "%s", problem.Message)
	return c, nil
}

func (a *assigned) convert(ctx *sql.Context, v any, from sql.Type) (any, *wire.Error) {
	t := a.typ
	switch {
	case types.IsYear(t):
		return a.year(v)
	case types.IsBit(t):
		return a.bit(v, from)
	case types.IsDecimal(t):
		return a.decimal(v, from)
	case types.IsFloat(t):
		return a.float(v, from)
	case types.IsInteger(t):
		return a.integer(v, from)
	case types.IsTime(t):
		return a.moment(ctx, v, from)
	case types.IsTimespan(t):
		return a.time(v)
	case types.IsEnum(t):
		return a.enum(v, from)
	case types.IsSet(t):
		return a.set(v, from)
	case types.IsJSON(t):
		return a.json(v, from)
	case types.IsTextOnly(t):
		return a.text(v, from)
	case types.IsBinaryType(t):
		if _, ok := v.([]byte); !ok {
			return textValue(v, from), nil // the library judges its length
		}
	}
	return v, nil
}

func (a *assigned) outOfRange() *wire.Error {
	return wire.Errorf(1264, "Out of range value for column '%s'", a.column)
}

func (a *assigned) truncated() *wire.Error {
	return wire.Errorf(1265, "Data truncated for column '%s'", a.column)
}

func (a *assigned) tooLong() *wire.Error {
	return wire.Errorf(1406, "Data too long for column '%s'", a.column)
}

func (a *assigned) incorrect(code uint16, kind string, v any) *wire.Error {
	text, ok := v.(string)
	if b, bytes := v.([]byte); bytes {
		text, ok = string(b), true
	}
	if !ok {
		text = textValue(v, nil).(string)
	}
	return wire.Errorf(code, "Incorrect %s value: '%s' for column '%s'", kind, text, a.column)
}

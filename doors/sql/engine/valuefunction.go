package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// valueFunction is a function of ours that depends on the values of its arguments alone. Of a NULL it is NULL.
type valueFunction struct {
	name string
	args []sql.Expression
	typ  sql.Type
	free bool // arguments behind the first may be NULL
	// of makes the value. None of the arguments' values is NULL.
	of func(ctx *sql.Context, f *valueFunction, values []any) (any, error)
}

var _ sql.FunctionExpression = (*valueFunction)(nil)
var _ sql.CollationCoercible = (*valueFunction)(nil)

// FunctionName implements sql.FunctionExpression.
func (f *valueFunction) FunctionName() string { return f.name }

// Description implements sql.FunctionExpression.
func (f *valueFunction) Description() string { return "makes a value of values." }

func (f *valueFunction) String() string {
	all := make([]string, len(f.args))
	for i, a := range f.args {
		all[i] = a.String()
	}
	switch f.name {
	case castSigned:
		return "cast(" + all[0] + " as signed)"
	case castUnsigned:
		return "cast(" + all[0] + " as unsigned)"
	case bitNot:
		return "~" + all[0]
	case sqlparser.BitAndStr, sqlparser.BitOrStr, sqlparser.BitXorStr, sqlparser.ShiftLeftStr, sqlparser.ShiftRightStr:
		return "(" + all[0] + " " + f.name + " " + all[1] + ")"
	}
	return f.name + "(" + strings.Join(all, ",") + ")"
}

func (f *valueFunction) Type(*sql.Context) sql.Type   { return f.typ }
func (f *valueFunction) IsNullable(*sql.Context) bool { return true }
func (f *valueFunction) Resolved() bool               { return expression.ExpressionsResolved(f.args...) }
func (f *valueFunction) Children() []sql.Expression   { return f.args }

// CollationCoercibility implements sql.CollationCoercible.
func (f *valueFunction) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	if x, ok := f.typ.(sql.TypeWithCollation); ok && types.IsText(f.typ) {
		return x.Collation(), byte(coercible)
	}
	return sql.Collation_binary, byte(numbered)
}

// WithChildren implements sql.Expression.
func (f *valueFunction) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *f
	n.args = children
	return &n, nil
}

// Eval implements sql.Expression.
func (f *valueFunction) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	values := make([]any, len(f.args))
	for i, a := range f.args {
		v, err := evalPlain(ctx, a, r)
		if err != nil || v == nil && (i == 0 || !f.free) {
			return nil, err
		}
		values[i] = v
	}
	return f.of(ctx, f, values)
}

// number is an argument's value as a number.
func (f *valueFunction) number(ctx *sql.Context, values []any, i int) numberRead {
	t := f.args[i].Type(ctx)
	n, _ := numeric(f.args[i], values[i], t)
	if s, ok := values[i].(string); ok && types.IsText(t) && (n.rest || strings.TrimSpace(s) == "") {
		ctx.Warn(errWrongMoment, "Truncated incorrect DOUBLE value: '%s'", s)
	}
	return n
}

// whole is an argument's value as an integer: exact numbers round halves away from zero, others to the even number.
func (f *valueFunction) whole(ctx *sql.Context, values []any, i int) whole {
	t := f.args[i].Type(ctx)
	switch x := values[i].(type) {
	case float32:
		return wholeOfFloat(float64(x))
	case float64:
		return wholeOfFloat(x)
	case uint64:
		return whole{size: x}
	case string:
		if types.IsText(t) {
			return wholeOfText(ctx, x)
		}
	case []byte:
		if _, literal := f.args[i].(*expression.Literal); types.IsText(t) && !literal {
			return wholeOfText(ctx, string(x))
		}
	}
	if n, ok := integer(values[i]); ok {
		return wholeOfInt(n)
	}
	n, _ := numeric(f.args[i], values[i], t)
	return wholeOfDecimal(n.decimal())
}

// wholeOfText is the integer at the beginning of a text. The rest of the text does not count, and the client is warned.
func wholeOfText(ctx *sql.Context, s string) (w whole) {
	rest := strings.TrimLeft(s, " \t\r\n\v\f")
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		w.negative = rest[0] == '-'
		rest = rest[1:]
	}
	i := 0
	for ; i < len(rest) && isDigit(rest[i]); i++ {
		digit := uint64(rest[i] - '0')
		if w.size > (1<<64-1-digit)/10 {
			w.over = true
		}
		w.size = w.size*10 + digit
	}
	if w.over {
		w.size = 1<<64 - 1
	}
	if i == 0 || strings.TrimRight(rest[i:], " \t\r\n\v\f") != "" {
		ctx.Warn(errWrongMoment, "Truncated incorrect INTEGER value: '%s'", s)
	}
	return w
}

// bits are the 64 bits of an integer. A number with more becomes the nearest that has 64.
func (w whole) bits() uint64 {
	if w.negative {
		n, _ := w.signed(64)
		return uint64(n)
	}
	n, _ := w.unsigned(64)
	return n
}

// ofValues returns a function by its name, the number of its arguments, and what makes its type and its value.
func ofValues(name string, least, most int, typ func(*sql.Context, []sql.Expression) sql.Type, of func(*sql.Context, *valueFunction, []any) (any, error)) sql.FunctionN {
	return sql.FunctionN{Name: name, Fn: func(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) < least || len(args) > most {
			return nil, wrongArguments(name, least, len(args))
		}
		return &valueFunction{name: name, args: args, typ: typ(c, args), of: of}, nil
	}}
}

// always is the type of a function that has one.
func always(t sql.Type) func(*sql.Context, []sql.Expression) sql.Type {
	return func(*sql.Context, []sql.Expression) sql.Type { return t }
}

package engine

import (
	"math"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// rounded is ROUND, TRUNCATE, FLOOR or CEIL. The library rounds approximate numbers as exact ones, and has 64 bits for every result.
type rounded struct {
	name string
	args []sql.Expression
	typ  sql.Type
}

var _ sql.FunctionExpression = (*rounded)(nil)
var _ sql.CollationCoercible = (*rounded)(nil)

// FunctionName implements sql.FunctionExpression.
func (f *rounded) FunctionName() string { return f.name }

// Description implements sql.FunctionExpression.
func (f *rounded) Description() string { return "rounds a number." }

func (f *rounded) String() string {
	all := make([]string, len(f.args))
	for i, a := range f.args {
		all[i] = a.String()
	}
	return f.name + "(" + strings.Join(all, ",") + ")"
}

func (f *rounded) Type(*sql.Context) sql.Type   { return f.typ }
func (f *rounded) IsNullable(*sql.Context) bool { return true }
func (f *rounded) Resolved() bool               { return expression.ExpressionsResolved(f.args...) }
func (f *rounded) Children() []sql.Expression   { return f.args }

// CollationCoercibility implements sql.CollationCoercible.
func (f *rounded) CollationCoercibility(*sql.Context) (sql.CollationID, byte) {
	return sql.Collation_binary, byte(numbered)
}

// WithChildren implements sql.Expression.
func (f *rounded) WithChildren(c *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *f
	n.args = children
	return &n, nil
}

// numberFunction returns a function of numbers by its name.
func numberFunction(name string) sql.CreateFuncNArgs {
	return func(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		places := name == "round" || name == "truncate"
		switch {
		case len(args) == 1 && name != "truncate", len(args) == 2 && places:
		default:
			return nil, wrongArguments(name, 1, len(args))
		}
		f := &rounded{name: name, args: args}
		t := args[0].Type(c)
		scale := 0
		switch {
		case types.IsTime(t) || types.IsTimespan(t):
			scale = digitsOf(c, args[0])
			if t = types.Int64; scale > 0 {
				t = types.MustCreateDecimalType(20, uint8(scale))
			}
		case types.IsYear(t), types.IsBit(t):
			t = types.Uint64
		}
		switch {
		case types.IsDecimal(t):
			d := t.(sql.DecimalType)
			whole := int(d.Precision()) - int(d.Scale())
			most := int(d.Scale())
			switch {
			case !places:
				most = 0
			case len(args) == 1:
				most = 0
			default:
				if n, ok := constantPlaces(c, args[1]); ok {
					most = max(0, min(most, n))
				}
			}
			switch {
			case !places && whole < 18:
				f.typ = types.Int64
			default:
				f.typ = types.MustCreateDecimalType(uint8(min(max(whole+1+most, 1), types.DecimalTypeMaxPrecision)), uint8(most))
			}
		case types.IsInteger(t) && types.IsUnsigned(t):
			f.typ = types.Uint64
		case types.IsInteger(t):
			f.typ = types.Int64
		default:
			f.typ = types.Float64
		}
		return f, nil
	}
}

func constantPlaces(c *sql.Context, e sql.Expression) (int, bool) {
	l, ok := constant(c, e)
	if !ok {
		return 0, false
	}
	n, ok := integer(l.Value())
	return int(max(min(n, 1000), -1000)), ok
}

// Eval implements sql.Expression.
func (f *rounded) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	v, err := evalPlain(ctx, f.args[0], r)
	if err != nil || v == nil {
		return nil, err
	}
	places := 0
	if len(f.args) == 2 {
		p, err := evalPlain(ctx, f.args[1], r)
		if err != nil || p == nil {
			return nil, err
		}
		n, _ := numeric(f.args[1], p, f.args[1].Type(ctx))
		w, _ := wholeOfDecimal(n.decimal()).signed(64)
		places = int(max(min(w, 1000), -1000))
	}
	from := f.args[0].Type(ctx)
	n, _ := numeric(f.args[0], v, from)
	if types.IsFloat(f.typ) {
		x, _ := n.float()
		if s, ok := v.(string); ok && (n.rest || n.text == "") {
			ctx.Warn(errWrongMoment, "Truncated incorrect DOUBLE value: '%s'", s)
		}
		switch f.name {
		case "floor":
			return math.Floor(x), nil
		case "ceil":
			return math.Ceil(x), nil
		}
		return roundFloat(x, places, f.name == "truncate"), nil
	}
	d := n.decimal()
	scale := 0
	if t, ok := f.typ.(sql.DecimalType); ok && types.IsDecimal(f.typ) {
		scale = int(t.Scale())
	}
	how := *rounding
	switch f.name {
	case "floor":
		how.Rounding, places = apd.RoundFloor, 0
	case "ceil":
		how.Rounding, places = apd.RoundCeiling, 0
	case "truncate":
		how.Rounding = apd.RoundDown
	}
	var sum apd.Decimal
	if _, err := how.Quantize(&sum, d, int32(-min(places, scale))); err != nil {
		return nil, err
	}
	if places < 0 || sum.Exponent > 0 {
		if _, err := rounding.Quantize(&sum, &sum, 0); err != nil {
			return nil, err
		}
	}
	if sum.IsZero() {
		sum.Negative = false
	}
	switch {
	case types.IsDecimal(f.typ):
		return &sum, nil
	case types.IsUnsigned(f.typ):
		n, within := wholeOfDecimal(&sum).unsigned(64)
		if !within {
			return nil, sql.ErrValueOutOfRange.New(sum.String(), "BIGINT UNSIGNED")
		}
		return n, nil
	}
	whole, within := wholeOfDecimal(&sum).signed(64)
	if !within {
		return nil, sql.ErrValueOutOfRange.New(sum.String(), "BIGINT")
	}
	return whole, nil
}

// roundFloat rounds an approximate number to so many places behind its point: halves to the even digit, as MySQL's my_double_round.
func roundFloat(x float64, places int, down bool) float64 {
	unit := math.Pow(10, math.Abs(float64(places)))
	switch {
	case math.IsInf(unit, 0) && places < 0:
		return 0
	case math.IsInf(unit, 0):
		return x
	}
	whole := math.RoundToEven
	if down {
		whole = math.Trunc
	}
	if places < 0 {
		return whole(x/unit) * unit
	}
	if math.IsInf(x*unit, 0) {
		return x
	}
	return whole(x*unit) / unit
}

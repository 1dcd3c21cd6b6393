package engine

import (
	"math"
	"math/bits"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// ofIntegers is a sum, a difference or a product of integers. One of them unsigned makes the result unsigned. A result that is out of range is MySQL's 1690:
// the library leaves out bits. Nil: the operands are of other types.
func ofIntegers(c *sql.Context, x *expression.Arithmetic) sql.Expression {
	args := x.Children()
	t, u := args[0].Type(c), args[1].Type(c)
	if !types.IsInteger(t) || !types.IsInteger(u) || x.Op != sqlparser.PlusStr && x.Op != sqlparser.MinusStr && x.Op != sqlparser.MultStr {
		return nil
	}
	f := &integers{valueFunction{name: x.Op, args: args, typ: types.Int64}}
	if types.IsUnsigned(t) || types.IsUnsigned(u) {
		f.typ = types.Uint64
		if x.Op == sqlparser.MinusStr && sql.LoadSqlMode(c).ModeEnabled("NO_UNSIGNED_SUBTRACTION") {
			f.typ = types.Int64
		}
	}
	return f
}

// integers is an operation on two integers.
type integers struct{ valueFunction }

func (x *integers) String() string {
	return "(" + x.args[0].String() + " " + x.name + " " + x.args[1].String() + ")"
}

// WithChildren implements sql.Expression.
func (x *integers) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *x
	n.args = children
	return &n, nil
}

// Eval implements sql.Expression.
func (x *integers) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	var operands [2]whole
	values := make([]any, 2)
	for i, a := range x.args {
		v, err := evalPlain(ctx, a, r)
		if err != nil || v == nil {
			return nil, err
		}
		if b, ok := v.(bool); ok {
			v = int64(0)
			if b {
				v = int64(1)
			}
		}
		values[i] = v
		operands[i] = x.whole(ctx, values, i)
	}
	sum := combined(x.name, operands[0], operands[1])
	if x.typ == types.Uint64 {
		if n, within := sum.unsigned(64); within {
			return n, nil
		}
	} else if n, within := sum.signed(64); within {
		return n, nil
	}
	kind := "BIGINT"
	if x.typ == types.Uint64 {
		kind = "BIGINT UNSIGNED"
	}
	return nil, wire.Errorf(1690, "%s value is out of range in '%s'", kind, x.shown())
}

// combined is a sum, a difference or a product.
func combined(op string, a, b whole) (w whole) {
	if op == sqlparser.MultStr {
		over, size := bits.Mul64(a.size, b.size)
		w = whole{negative: a.negative != b.negative && size != 0, size: size, over: over != 0 || a.over || b.over}
	} else {
		if op == sqlparser.MinusStr && b.size != 0 {
			b.negative = !b.negative
		}
		if a.negative == b.negative {
			size, over := bits.Add64(a.size, b.size, 0)
			w = whole{negative: a.negative, size: size, over: over != 0 || a.over || b.over}
		} else if a.size >= b.size {
			w = whole{negative: a.negative && a.size != b.size, size: a.size - b.size, over: a.over || b.over}
		} else {
			w = whole{negative: b.negative, size: b.size - a.size, over: a.over || b.over}
		}
	}
	if w.over {
		w.size = math.MaxUint64
	}
	return w
}

// shown is the operation as MySQL's error names it.
func (x *integers) shown() string {
	return "(" + operandShown(x.args[0]) + " " + x.name + " " + operandShown(x.args[1]) + ")"
}

func operandShown(e sql.Expression) string {
	switch o := e.(type) {
	case *expression.GetField:
		names := []string{}
		for _, n := range []string{o.Database(), o.Table(), o.Name()} {
			if n != "" {
				names = append(names, "`"+n+"`")
			}
		}
		return strings.Join(names, ".")
	case *integers:
		return o.shown()
	}
	return e.String()
}

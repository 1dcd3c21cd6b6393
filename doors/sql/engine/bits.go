package engine

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// The library computes bit operators of numbers of two types as DOUBLE, has no ~, and makes integers of 64 bits the nearest ones of another sign where
// CAST keeps their bits.

// Names that only the door gives a call.
const (
	bitNot       = "holdfast_not"
	castSigned   = "holdfast_signed"
	castUnsigned = "holdfast_unsigned"
)

func init() {
	functions[bitNot] = ofValues(bitNot, 1, 1, always(types.Uint64), func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
		return ^f.whole(ctx, values, 0).bits(), nil
	})
	functions[castSigned] = sql.FunctionN{Name: castSigned, Fn: castInteger(castSigned, expression.ConvertToSigned, types.Int64)}
	functions[castUnsigned] = sql.FunctionN{Name: castUnsigned, Fn: castInteger(castUnsigned, expression.ConvertToUnsigned, types.Uint64)}
}

// castInteger is CAST to SIGNED or UNSIGNED. Of other types than numbers and texts it is the library's.
func castInteger(name, to string, typ sql.Type) sql.CreateFuncNArgs {
	return func(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) != 1 {
			return nil, wrongArguments(name, 1, len(args))
		}
		t := args[0].Type(c)
		if !types.IsInteger(t) && !types.IsFloat(t) && !types.IsDecimal(t) && (!types.IsTextOnly(t) || types.IsEnum(t) || types.IsSet(t)) {
			return expression.NewConvert(args[0], to), nil
		}
		return &valueFunction{name: name, args: args, typ: typ, of: func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
			w := f.whole(ctx, values, 0)
			_, text := values[0].(string)
			bits := w.bits()
			switch {
			case text && w.negative && typ == types.Uint64:
				ctx.Warn(1105, "Cast to unsigned converted negative integer to its positive complement")
			case text && !w.negative && typ == types.Int64 && int64(bits) < 0:
				ctx.Warn(1105, "Cast to signed converted positive out-of-range integer to its negative complement")
			case types.IsDecimal(t) && typ == types.Int64, types.IsFloat(t): // the nearest, and not the same bits
				n, within := w.signed(64)
				if !within && types.IsDecimal(t) {
					ctx.Warn(errWrongMoment, "Truncated incorrect DECIMAL value: '%v'", values[0])
				}
				bits = uint64(n)
			}
			if typ == types.Uint64 {
				return bits, nil
			}
			return int64(bits), nil
		}}, nil
	}
}

// ofBits is a bit operator. Error: 1235, of two strings of bytes, whose bits MySQL combines as a string.
func ofBits(c *sql.Context, x *expression.BitOp) (sql.Expression, error) {
	strings := true
	for _, child := range x.Children() {
		_, literal := child.(*expression.Literal)
		strings = strings && !literal && types.IsBinaryType(child.Type(c))
	}
	if strings {
		return nil, refused("bit operators of strings of bytes")
	}
	return &valueFunction{name: x.Op, args: x.Children(), typ: types.Uint64, of: func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
		a, b := f.whole(ctx, values, 0).bits(), f.whole(ctx, values, 1).bits()
		switch f.name {
		case sqlparser.BitAndStr:
			return a & b, nil
		case sqlparser.BitOrStr:
			return a | b, nil
		case sqlparser.BitXorStr:
			return a ^ b, nil
		case sqlparser.ShiftLeftStr:
			return a << b, nil
		}
		return a >> b, nil
	}}, nil
}

package engine

import (
	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The library adds integers and decimals up as DOUBLE. MySQL's SUM and AVG of exact types are exact, and so are these.

// Function implements sql.FunctionProvider: it comes before the library's own functions.
func (p provider) Function(_ *sql.Context, _, name string) (sql.Function, bool) {
	switch name {
	case "sum":
		return sql.Function1{Name: "sum", Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression { return newExact(ctx, e, false) }}, true
	case "avg":
		return sql.Function1{Name: "avg", Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression { return newExact(ctx, e, true) }}, true
	case "std", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp":
		return sql.FunctionN{Name: name, Fn: newSpread(name)}, true
	case "nth_value":
		return sql.FunctionN{Name: name, Fn: newNthValue}, true
	case "cume_dist":
		return sql.Function0{Name: name, Fn: newCumeDist}, true
	case "current_user":
		return sql.NewFunction0(name, newAccountName), true
	}
	f, ok := functions[name]
	return f, ok
}

// exact is SUM or AVG of an exact type. The rest, which does not depend on the numbers, is the library's.
type exact struct {
	sql.Aggregation
	child sql.Expression
	avg   bool
	typ   sql.DecimalType
}

// newExact returns SUM or AVG: the library's, where the type is not exact.
func newExact(ctx *sql.Context, e sql.Expression, avg bool) sql.Expression {
	var library sql.Aggregation = aggregation.NewSum(e)
	if avg {
		library = aggregation.NewAvg(e)
	}
	t, ok := exactType(e.Type(ctx), avg)
	if !ok {
		return library
	}
	return &exact{Aggregation: library, child: e, avg: avg, typ: t}
}

// exactType is MySQL's type of SUM and AVG. false: the type is not exact, or is not known yet.
func exactType(t sql.Type, avg bool) (sql.DecimalType, bool) {
	precision, scale := 0, 0
	switch {
	case types.IsDecimal(t):
		d := t.(sql.DecimalType)
		precision, scale = int(d.Precision()), int(d.Scale())
	case types.IsInteger(t):
		precision = 20
	default:
		return nil, false
	}
	if avg {
		precision, scale = precision+4, min(scale+4, types.DecimalTypeMaxScale)
	} else {
		precision += 22
	}
	d, err := types.CreateDecimalType(uint8(min(precision, types.DecimalTypeMaxPrecision)), uint8(scale))
	return d, err == nil
}

func (x *exact) with(a sql.Aggregation, child sql.Expression) *exact {
	return &exact{Aggregation: a, child: child, avg: x.avg, typ: x.typ}
}

// Type implements sql.Expression.
func (x *exact) Type(*sql.Context) sql.Type { return x.typ }

// IsNullable implements sql.Expression: nothing adds up to NULL.
func (x *exact) IsNullable(*sql.Context) bool { return true }

// WithChildren implements sql.Expression.
func (x *exact) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := x.Aggregation.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return x.with(e.(sql.Aggregation), children[0]), nil
}

// WithId implements sql.IdExpression.
func (x *exact) WithId(id sql.ColumnId) sql.IdExpression {
	return x.with(x.Aggregation.WithId(id).(sql.Aggregation), x.child)
}

// WithWindow implements sql.WindowAdaptableExpression.
func (x *exact) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return x.with(x.Aggregation.WithWindow(ctx, w).(sql.Aggregation), x.child)
}

// NewBuffer implements sql.Aggregation.
func (x *exact) NewBuffer(*sql.Context) (sql.AggregationBuffer, error) { return &exactSum{of: x}, nil }

// NewWindowFunction implements sql.WindowAdaptableExpression.
func (x *exact) NewWindowFunction(ctx *sql.Context) (sql.WindowFunction, error) {
	w, err := x.Aggregation.NewWindowFunction(ctx)
	return &exactWindow{WindowFunction: w, of: x}, err
}

// exactSum adds up the values of a group.
type exactSum struct {
	of    *exact
	sum   apd.Decimal
	rows  int64
	seen  map[string]bool // of SUM(DISTINCT …); nil: all count
	bytes int             // of seen
}

// Update implements sql.AggregationBuffer.
func (s *exactSum) Update(ctx *sql.Context, r sql.Row) error {
	child := s.of.child
	if d, ok := child.(*expression.DistinctExpression); ok {
		child = d.Child
		if s.seen == nil {
			s.seen = map[string]bool{}
		}
	}
	v, err := child.Eval(ctx, r)
	if err != nil || v == nil {
		return err
	}
	n, _, err := types.InternalDecimalType.Convert(ctx, v)
	if err != nil {
		return err
	}
	d, ok := n.(*apd.Decimal)
	if !ok {
		return errValue(s.of.typ, n)
	}
	if s.seen != nil {
		var reduced apd.Decimal
		reduced.Reduce(d)
		if key := reduced.String(); s.seen[key] {
			return nil
		} else {
			s.seen[key] = true
			s.bytes += len(key) + entryBytes
			if err := sessionOf(ctx).kept.add(len(key) + entryBytes); err != nil {
				return err
			}
		}
	}
	s.rows++
	_, err = wide.Add(&s.sum, &s.sum, d)
	return err
}

// wide has more digits than MySQL's largest DECIMAL.
var wide = apd.BaseContext.WithPrecision(100)

// Eval implements sql.AggregationBuffer.
func (s *exactSum) Eval(*sql.Context) (any, error) {
	if s.rows == 0 {
		return nil, nil
	}
	n := new(apd.Decimal).Set(&s.sum)
	if s.of.avg {
		if _, err := wide.Quo(n, n, apd.New(s.rows, 0)); err != nil {
			return nil, err
		}
	}
	_, err := wide.Quantize(n, n, -int32(s.of.typ.Scale())) // half up, as MySQL rounds
	return n, err
}

// Dispose implements sql.Disposable.
func (s *exactSum) Dispose(ctx *sql.Context) {
	sessionOf(ctx).kept.give(s.bytes)
	s.bytes = 0
}

// exactWindow adds up the values of a window's frame.
type exactWindow struct {
	sql.WindowFunction
	of *exact
}

// Compute implements sql.WindowFunction.
func (w *exactWindow) Compute(ctx *sql.Context, i sql.WindowInterval, rows sql.WindowBuffer) (any, error) {
	s := &exactSum{of: w.of}
	for _, r := range rows[i.Start:i.End] {
		if err := s.Update(ctx, r); err != nil {
			return nil, err
		}
	}
	defer s.Dispose(ctx)
	return s.Eval(ctx)
}

package engine

import (
	"math"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The library rounds the standard deviation and the variance of integers to the integers' own type.

// spread is STDDEV, VARIANCE or one of their kind. The rest, which does not depend on the numbers, is the library's.
type spread struct {
	sql.Aggregation
	child  sql.Expression
	root   bool // the standard deviation
	sample bool // divided by one less than the rows
}

// newSpread returns a function of the spread by its name. Error: 1235, of DISTINCT.
func newSpread(name string) sql.CreateFuncNArgs {
	return func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) != 1 {
			return nil, wrongArguments(name, 1, len(args))
		}
		if _, ok := args[0].(*expression.DistinctExpression); ok {
			return nil, refused(strings.ToUpper(name) + "(DISTINCT)")
		}
		x := &spread{child: args[0], root: strings.HasPrefix(name, "std"), sample: strings.HasSuffix(name, "_samp")}
		switch {
		case x.root && x.sample:
			x.Aggregation = aggregation.NewStdDevSamp(args[0])
		case x.root:
			x.Aggregation = aggregation.NewStdDevPop(args[0])
		case x.sample:
			x.Aggregation = aggregation.NewVarSamp(args[0])
		default:
			x.Aggregation = aggregation.NewVarPop(args[0])
		}
		return x, nil
	}
}

func (x *spread) with(a sql.Aggregation, child sql.Expression) *spread {
	return &spread{Aggregation: a, child: child, root: x.root, sample: x.sample}
}

// Type implements sql.Expression.
func (x *spread) Type(*sql.Context) sql.Type { return types.Float64 }

// IsNullable implements sql.Expression: nothing has no spread.
func (x *spread) IsNullable(*sql.Context) bool { return true }

// WithChildren implements sql.Expression.
func (x *spread) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := x.Aggregation.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return x.with(e.(sql.Aggregation), children[0]), nil
}

// WithId implements sql.IdExpression.
func (x *spread) WithId(id sql.ColumnId) sql.IdExpression {
	return x.with(x.Aggregation.WithId(id).(sql.Aggregation), x.child)
}

// WithWindow implements sql.WindowAdaptableExpression.
func (x *spread) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return x.with(x.Aggregation.WithWindow(ctx, w).(sql.Aggregation), x.child)
}

// NewBuffer implements sql.Aggregation.
func (x *spread) NewBuffer(*sql.Context) (sql.AggregationBuffer, error) {
	return &spreadSum{of: x}, nil
}

// NewWindowFunction implements sql.WindowAdaptableExpression.
func (x *spread) NewWindowFunction(ctx *sql.Context) (sql.WindowFunction, error) {
	w, err := x.Aggregation.NewWindowFunction(ctx)
	return &framed{WindowFunction: w, compute: func(ctx *sql.Context, rows sql.WindowBuffer) (any, error) {
		s := &spreadSum{of: x}
		for _, r := range rows {
			if err := s.Update(ctx, r); err != nil {
				return nil, err
			}
		}
		return s.Eval(ctx)
	}}, err
}

// spreadSum is the recurrence of MySQL, by Welford.
type spreadSum struct {
	of         *spread
	rows       float64
	mean, sums float64 // of the numbers, and of the squares of what they differ from it by
}

// Update implements sql.AggregationBuffer.
func (s *spreadSum) Update(ctx *sql.Context, r sql.Row) error {
	v, err := evalPlain(ctx, s.of.child, r)
	if err != nil || v == nil {
		return err
	}
	n, _ := numeric(s.of.child, v, s.of.child.Type(ctx))
	f, _ := n.float()
	s.rows++
	from := s.mean
	s.mean += (f - from) / s.rows
	s.sums += (f - from) * (f - s.mean)
	return nil
}

// Eval implements sql.AggregationBuffer.
func (s *spreadSum) Eval(*sql.Context) (any, error) {
	by := s.rows
	if s.of.sample {
		by--
	}
	if by <= 0 {
		return nil, nil
	}
	if s.of.root {
		return math.Sqrt(s.sums / by), nil
	}
	return s.sums / by, nil
}

// Dispose implements sql.Disposable.
func (s *spreadSum) Dispose(*sql.Context) {}

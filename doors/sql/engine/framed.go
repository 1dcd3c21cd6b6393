package engine

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation/window"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

func init() {
	known := planbuilder.IsWindowFunc
	planbuilder.IsWindowFunc = func(c *sql.Context, name string) (bool, error) {
		if name == "nth_value" || name == "cume_dist" {
			return true, nil
		}
		return known(c, name)
	}
}

// framed computes a window function from the rows of its frame.
type framed struct {
	sql.WindowFunction // the library's, which says what the frame is
	compute            func(ctx *sql.Context, rows sql.WindowBuffer) (any, error)
}

// StartPartition implements sql.WindowFunction.
func (w *framed) StartPartition(*sql.Context, sql.WindowInterval, sql.WindowBuffer) error { return nil }

// Compute implements sql.WindowFunction.
func (w *framed) Compute(ctx *sql.Context, i sql.WindowInterval, rows sql.WindowBuffer) (any, error) {
	return w.compute(ctx, rows[i.Start:max(i.Start, i.End)])
}

// nthValue is NTH_VALUE: of the library's FIRST_VALUE, with another row of the frame.
type nthValue struct {
	*window.FirstValue
	n sql.Expression // constant
}

// newNthValue returns NTH_VALUE. The planner drops an error of a window function: what is wrong with the number is said when it runs.
func newNthValue(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	if len(args) != 2 {
		return nil, wrongArguments("nth_value", 2, len(args))
	}
	return &nthValue{FirstValue: window.NewFirstValue(c, args[0]).(*window.FirstValue), n: args[1]}, nil
}

func (x *nthValue) String() string {
	return fmt.Sprintf("nth_value(%s,%s", x.n, strings.TrimPrefix(x.FirstValue.String(), "first_value("))
}

// FunctionName implements sql.FunctionExpression.
func (x *nthValue) FunctionName() string { return "NTH_VALUE" }

// IsNullable implements sql.Expression: a frame may have fewer rows.
func (x *nthValue) IsNullable(*sql.Context) bool { return true }

// WithId implements sql.IdExpression.
func (x *nthValue) WithId(id sql.ColumnId) sql.IdExpression {
	return &nthValue{FirstValue: x.FirstValue.WithId(id).(*window.FirstValue), n: x.n}
}

// WithWindow implements sql.WindowAdaptableExpression.
func (x *nthValue) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &nthValue{FirstValue: x.FirstValue.WithWindow(ctx, w).(*window.FirstValue), n: x.n}
}

// WithChildren implements sql.Expression.
func (x *nthValue) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := x.FirstValue.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &nthValue{FirstValue: e.(*window.FirstValue), n: x.n}, nil
}

// NewWindowFunction implements sql.WindowAdaptableExpression.
func (x *nthValue) NewWindowFunction(ctx *sql.Context) (sql.WindowFunction, error) {
	n := int64(0)
	if v, err := evalPlain(ctx, x.n, nil); err != nil {
		return nil, err
	} else if n, _ = integer(v); n < 1 {
		return nil, wire.Errorf(1210, "Incorrect arguments to nth_value")
	}
	w, err := x.FirstValue.NewWindowFunction(ctx)
	return &framed{WindowFunction: w, compute: func(ctx *sql.Context, rows sql.WindowBuffer) (any, error) {
		if int64(len(rows)) < n {
			return nil, nil
		}
		return x.Child.Eval(ctx, rows[n-1])
	}}, err
}

// cumeDist is CUME_DIST: of the library's PERCENT_RANK, with another number.
type cumeDist struct{ *window.PercentRank }

func newCumeDist(c *sql.Context) sql.Expression {
	return &cumeDist{window.NewPercentRank(c).(*window.PercentRank)}
}

func (x *cumeDist) String() string {
	return "cume_dist(" + strings.TrimPrefix(x.PercentRank.String(), "percent_rank(")
}

// FunctionName implements sql.FunctionExpression.
func (x *cumeDist) FunctionName() string { return "CUME_DIST" }

// WithId implements sql.IdExpression.
func (x *cumeDist) WithId(id sql.ColumnId) sql.IdExpression {
	return &cumeDist{x.PercentRank.WithId(id).(*window.PercentRank)}
}

// WithWindow implements sql.WindowAdaptableExpression.
func (x *cumeDist) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &cumeDist{x.PercentRank.WithWindow(ctx, w).(*window.PercentRank)}
}

// WithChildren implements sql.Expression.
func (x *cumeDist) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := x.PercentRank.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &cumeDist{e.(*window.PercentRank)}, nil
}

// NewWindowFunction implements sql.WindowAdaptableExpression.
func (x *cumeDist) NewWindowFunction(ctx *sql.Context) (sql.WindowFunction, error) {
	w, err := x.PercentRank.NewWindowFunction(ctx)
	return &share{WindowFunction: w}, err
}

// share is the part of a partition that stands before the end of a row's peers.
type share struct {
	sql.WindowFunction
	of sql.WindowInterval
}

// StartPartition implements sql.WindowFunction.
func (s *share) StartPartition(_ *sql.Context, i sql.WindowInterval, _ sql.WindowBuffer) error {
	s.of = i
	return nil
}

// Compute implements sql.WindowFunction.
func (s *share) Compute(_ *sql.Context, i sql.WindowInterval, _ sql.WindowBuffer) (any, error) {
	return float64(i.End-s.of.Start) / float64(s.of.End-s.of.Start), nil
}

// ranked are the window functions that know no frame.
var ranked = set("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead")

// overPeers is a window function with an order and no frame: its frame ends with the last row that is equal in the order. The library takes all of the
// partition for MAX and MIN, and goes by the first key of the order for others.
type overPeers struct{ sql.WindowAdaptableExpression }

// newOverPeers returns the function with MySQL's frame. ok false: its own is right.
func newOverPeers(w sql.WindowAdaptableExpression) (sql.WindowAdaptableExpression, bool) {
	f, function := w.(sql.FunctionExpression)
	if d := w.Window(); d == nil || len(d.OrderBy) == 0 || d.Frame != nil || function && ranked[strings.ToLower(f.FunctionName())] {
		return w, false
	}
	return &overPeers{w}, true
}

// WithId implements sql.IdExpression.
func (x *overPeers) WithId(id sql.ColumnId) sql.IdExpression {
	return &overPeers{x.WindowAdaptableExpression.WithId(id).(sql.WindowAdaptableExpression)}
}

// WithWindow implements sql.WindowAdaptableExpression.
func (x *overPeers) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &overPeers{x.WindowAdaptableExpression.WithWindow(ctx, w)}
}

// WithChildren implements sql.Expression.
func (x *overPeers) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := x.WindowAdaptableExpression.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &overPeers{e.(sql.WindowAdaptableExpression)}, nil
}

// NewWindowFunction implements sql.WindowAdaptableExpression.
func (x *overPeers) NewWindowFunction(ctx *sql.Context) (sql.WindowFunction, error) {
	w, err := x.WindowAdaptableExpression.NewWindowFunction(ctx)
	return &untilPeers{WindowFunction: w, order: x.Window().OrderBy.ToExpressions()}, err
}

// untilPeers computes a function over the rows from the beginning of the partition to the last that is equal in the order.
type untilPeers struct {
	sql.WindowFunction
	order []sql.Expression
}

// DefaultFramer implements sql.WindowFunction.
func (w *untilPeers) DefaultFramer() sql.WindowFramer {
	return &peersFramer{WindowFramer: aggregation.NewPeerGroupFramer(w.order)}
}

// peersFramer is the library's frame of equal rows, from the beginning of the partition.
type peersFramer struct {
	sql.WindowFramer
	from int
}

// NewFramer implements sql.WindowFramer.
func (f *peersFramer) NewFramer(i sql.WindowInterval) (sql.WindowFramer, error) {
	inner, err := f.WindowFramer.NewFramer(i)
	return &peersFramer{WindowFramer: inner, from: i.Start}, err
}

// Next implements sql.WindowFramer.
func (f *peersFramer) Next(ctx *sql.Context, rows sql.WindowBuffer) (sql.WindowInterval, error) {
	i, err := f.WindowFramer.Next(ctx, rows)
	i.Start = f.from
	return i, err
}

// FirstIdx implements sql.WindowFramer.
func (f *peersFramer) FirstIdx() int { return f.from }

// Interval implements sql.WindowFramer.
func (f *peersFramer) Interval() (sql.WindowInterval, error) {
	i, err := f.WindowFramer.Interval()
	i.Start = f.from
	return i, err
}

package engine

import (
	"math"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/vitess/go/vt/proto/query"
)

// A number may lie beyond those that a column can have, or between two of them. No row is equal to it. A comparison with it becomes one with the column's least
// or greatest number, or with the one below it, which an index finds: or the statement would read every row, and lock it.

// reach is where a number lies among those of a column.
type reach int

const (
	within  reach = iota // the column can have it, or is none of numbers
	below                // all of the column's
	over                 // all of the column's
	between              // two of the column's that are next to each other
)

// limits are the least and the greatest number of a column.
type limits struct{ least, most any }

// limitsOf returns a type's limits. ok false: it is no type of whole numbers, nor DECIMAL.
func limitsOf(t sql.Type) (l limits, ok bool) {
	if d, is := t.(sql.DecimalType); is {
		digits := new(apd.BigInt).Exp(apd.NewBigInt(10), apd.NewBigInt(int64(d.Precision())), nil)
		most := apd.NewWithBigInt(digits.Sub(digits, apd.NewBigInt(1)), -int32(d.Scale()))
		least := new(apd.Decimal).Set(most)
		least.Negative = true
		return limits{least, most}, true
	}
	switch t.Type() {
	case query.Type_INT8:
		return limits{int64(math.MinInt8), int64(math.MaxInt8)}, true
	case query.Type_INT16:
		return limits{int64(math.MinInt16), int64(math.MaxInt16)}, true
	case query.Type_INT24:
		return limits{int64(-1 << 23), int64(1<<23 - 1)}, true
	case query.Type_INT32:
		return limits{int64(math.MinInt32), int64(math.MaxInt32)}, true
	case query.Type_INT64:
		return limits{int64(math.MinInt64), int64(math.MaxInt64)}, true
	case query.Type_UINT8:
		return limits{uint64(0), uint64(math.MaxUint8)}, true
	case query.Type_UINT16:
		return limits{uint64(0), uint64(math.MaxUint16)}, true
	case query.Type_UINT24:
		return limits{uint64(0), uint64(1<<24 - 1)}, true
	case query.Type_UINT32:
		return limits{uint64(0), uint64(math.MaxUint32)}, true
	case query.Type_UINT64:
		return limits{uint64(0), uint64(math.MaxUint64)}, true
	}
	return l, false
}

// reachOf returns where a value lies among the numbers of a type. floor: of one that lies between two, the lower of these. Columns are compared with numbers
// that have an exponent as such: a limit that rounds to the number is equal to it.
func reachOf(t sql.Type, v any) (p reach, l limits, floor any) {
	l, ok := limitsOf(t)
	if !ok {
		return within, l, nil
	}
	if f, ok := floatOf(v); ok {
		switch {
		case f > approximate(l.most):
			return over, l, nil
		case f < approximate(l.least):
			return below, l, nil
		}
		return within, l, nil
	}
	d, ok := exactNumber(v)
	if !ok {
		return within, l, nil
	}
	least, _ := exactNumber(l.least) // a limit is a number
	most, _ := exactNumber(l.most)   // as above
	switch {
	case d.Cmp(most) > 0:
		return over, l, nil
	case d.Cmp(least) < 0:
		return below, l, nil
	}
	if of, ok := t.(sql.DecimalType); ok {
		rounded := new(apd.Decimal)
		c := apd.BaseContext.WithPrecision(200)
		c.Rounding = apd.RoundFloor
		if _, err := c.Quantize(rounded, d, -int32(of.Scale())); err == nil && rounded.Cmp(d) != 0 {
			return between, l, rounded
		}
	}
	return within, l, nil
}

func floatOf(v any) (float64, bool) {
	switch f := v.(type) {
	case float64:
		return f, true
	case float32:
		return float64(f), true
	}
	return 0, false
}

// approximate is a limit as numbers with an exponent are compared with it.
func approximate(limit any) float64 {
	d, _ := exactNumber(limit) // a limit is a number
	f, _ := d.Float64()        // it has an exponent that a float has
	return f
}

// limitless reports whether a number with an exponent is equal to a limit that rounds to it, and to others near it: no key stands for all of them.
func limitless(t sql.Type, v any) bool {
	f, ok := floatOf(v)
	if !ok {
		return false
	}
	l, ok := limitsOf(t)
	if !ok || f != approximate(l.most) && f != approximate(l.least) {
		return false
	}
	d := decimalOf(f)
	least, _ := exactNumber(l.least) // a limit is a number
	most, _ := exactNumber(l.most)   // as above
	return d.Cmp(least) != 0 && d.Cmp(most) != 0
}

// exactNumber is an exact number. ok false: the value is none.
func exactNumber(v any) (*apd.Decimal, bool) {
	switch n := v.(type) {
	case *apd.Decimal:
		return n, n.Form == apd.Finite
	case uint64:
		return apd.NewWithBigInt(new(apd.BigInt).SetUint64(n), 0), true
	case uint:
		return apd.NewWithBigInt(new(apd.BigInt).SetUint64(uint64(n)), 0), true
	}
	if n, ok := integer(v); ok {
		return apd.New(n, 0), true
	}
	return nil, false
}

// beyond returns a comparison of a column with constants that it cannot have as one with those that it can have. Nil: the column can have all of them, or the
// comparison is another one.
func beyond(c *sql.Context, op operator, operands []sql.Expression, column int, t sql.Type) sql.Expression {
	x := operands[column]
	switch {
	case op == opIn && column == 0:
		return beyondList(c, operands, t)
	case op == opBetween && column == 0:
		for _, o := range operands[1:] { // what is computed is left to the comparison as a whole
			if _, ok := o.(*expression.Literal); !ok {
				return nil
			}
		}
		from, to := beyondOne(c, opGreaterEqual, x, operands[1], t), beyondOne(c, opLessEqual, x, operands[2], t)
		if from == nil && to == nil {
			return nil
		}
		if from == nil {
			from = expression.NewGreaterThanOrEqual(x, operands[1])
		}
		if to == nil {
			to = expression.NewLessThanOrEqual(x, operands[2])
		}
		return expression.NewAnd(from, to)
	case op == opIn || op == opBetween:
		return nil
	case column == 0:
		return beyondOne(c, op, x, operands[1], t)
	}
	return beyondOne(c, turned[op], x, operands[0], t)
}

// turned are the operators with their sides changed.
var turned = map[operator]operator{opEqual: opEqual, opSame: opSame, opLess: opGreater, opLessEqual: opGreaterEqual, opGreater: opLess, opGreaterEqual: opLessEqual}

// beyondOne is beyond for a column on the left, and one constant.
func beyondOne(c *sql.Context, op operator, x, other sql.Expression, t sql.Type) sql.Expression {
	l, ok := other.(*expression.Literal)
	if !ok {
		return nil
	}
	p, limits, floor := reachOf(t, l.Value())
	none := expression.NewGreaterThan(x, limit(c, limits.most, t)) // NULL where the column is, as the comparison
	if p == within {
		return nil
	}
	up := op == opGreater || op == opGreaterEqual
	switch {
	case op == opEqual:
		return none
	case op == opSame:
		return expression.NewAnd(expression.NewNot(expression.NewIsNull(x)), none)
	case p == below && up:
		return expression.NewGreaterThanOrEqual(x, limit(c, limits.least, t))
	case p == below:
		return expression.NewLessThan(x, limit(c, limits.least, t))
	case p == over && up:
		return none
	case p == over:
		return expression.NewLessThanOrEqual(x, limit(c, limits.most, t))
	case up:
		return expression.NewGreaterThan(x, limit(c, floor, t))
	}
	return expression.NewLessThanOrEqual(x, limit(c, floor, t))
}

// limit is a number that a column can have, as its type keeps it.
func limit(c *sql.Context, v any, t sql.Type) sql.Expression {
	if own, in, err := t.Convert(c, v); err == nil && in == sql.InRange {
		v = own
	}
	return literal(v, t)
}

// beyondList leaves constants out of a list that the column cannot have.
func beyondList(c *sql.Context, operands []sql.Expression, t sql.Type) sql.Expression {
	var left []sql.Expression
	for _, o := range operands[1:] {
		if l, ok := o.(*expression.Literal); ok {
			if p, _, _ := reachOf(t, l.Value()); p != within {
				continue
			}
		}
		left = append(left, o)
	}
	switch {
	case len(left) == len(operands)-1:
		return nil
	case len(left) == 0:
		return beyondOne(c, opEqual, operands[0], operands[1], t)
	}
	return expression.NewInTuple(operands[0], expression.NewTuple(left...))
}

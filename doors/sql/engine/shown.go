package engine

import (
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// The library has one type of TIME, and its functions have one of DATETIME, with six digits each. How many digits an expression has is found where it
// is made (digitsWith), and carried beside the types to the columns of the result.

// undecided reports whether a type does not say how many digits its values have.
func (k *carrier) undecided(t sql.Type) bool {
	if types.IsTimespan(t) || t == types.Float64 {
		return true
	}
	d, ok := t.(sql.DatetimeType)
	return ok && types.IsTime(t) && d.Precision() == mostDigits
}

// digitsOf is how many digits an expression has. Of a DOUBLE it is as the protocol has it: unfixed where nothing rounds it.
func (k *carrier) digitsOf(e sql.Expression) int {
	known := func(f *expression.GetField) (int, bool) {
		n, ok := k.digits[f.Id()]
		return n, ok
	}
	if q, ok := e.(*plan.Subquery); ok {
		return k.columnDigits(q.Query, 0)
	}
	if e.Type(k.c) != types.Float64 {
		return digitsWith(k.c, e, known)
	}
	switch x := e.(type) {
	case *expression.Alias, *expression.Wrapper, *carried:
		return k.digitsOf(e.Children()[0])
	case *expression.GetField:
		if n, ok := known(x); ok {
			return n
		}
	case *rounded:
		if len(x.args) == 2 {
			if n, ok := constantPlaces(k.c, x.args[1]); ok && n < unfixed {
				return max(n, 0)
			}
		}
	}
	return unfixed
}

// unfixed is the number of digits of a DOUBLE with as many as it needs.
const unfixed = 31

// columnDigits is how many digits a column of a result has.
func (k *carrier) columnDigits(n sql.Node, i int) int {
	var all []sql.Expression
	switch x := n.(type) {
	case *plan.Project:
		all = x.Projections
	case *plan.GroupBy:
		all = x.SelectDeps
	case *plan.Window:
		all = x.SelectExprs
	case *plan.SetOp:
		side := func(n sql.Node) int {
			if s := n.Schema(k.c); i < len(s) && s[i].Type == types.Null {
				return 0
			}
			return k.columnDigits(n, i)
		}
		return max(side(x.Left()), side(x.Right()))
	case *plan.Distinct, *plan.Sort, *plan.Limit, *plan.Offset, *plan.TopN, *plan.Having, *plan.Filter, *plan.SubqueryAlias, *plan.Max1Row, *plan.TableAlias:
		return k.columnDigits(n.Children()[0], i)
	}
	if i < len(all) {
		return k.digitsOf(all[i])
	}
	schema := n.Schema(k.c)
	if i >= len(schema) || schema[i].Type == types.Float64 {
		return unfixed
	}
	return digitsWith(k.c, expression.NewGetFieldWithTable(i, 0, schema[i].Type, schema[i].DatabaseSource, schema[i].Source, schema[i].Name, true),
		func(*expression.GetField) (int, bool) { return 0, false })
}

// shown are the digits of a result's columns. Nil: their types say them.
func (k *carrier) shown(n sql.Node) []int {
	schema := n.Schema(k.c)
	var all []int
	for i, column := range schema {
		if !k.undecided(column.Type) {
			continue
		}
		if all == nil {
			all = make([]int, len(schema))
			for j := range all {
				all[j] = -1
			}
		}
		all[i] = k.columnDigits(n, i)
	}
	return all
}

// moments has an expression of texts take moments with the digits that they have, and a CAST to a number the number that MySQL makes of a moment.
func (k *carrier) moments(e sql.Expression) (sql.Expression, bool, error) {
	_, cast := e.(*expression.Convert)
	if child := e.Children(); cast && types.IsNumber(e.Type(k.c)) && (types.IsTime(child[0].Type(k.c)) || types.IsTimespan(child[0].Type(k.c))) {
		n := k.digitsOf(child[0])
		m := &shownMoment{digits: n, typ: types.MustCreateDecimalType(uint8(20+n), uint8(n)), number: true}
		m.Child = child[0]
		made, err := e.WithChildren(k.c, m)
		return made, true, err
	}
	f, function := e.(sql.FunctionExpression)
	if !types.IsText(e.Type(k.c)) && (!function || ofAny[strings.ToLower(f.FunctionName())]) {
		return e, false, nil
	}
	children, some := append([]sql.Expression{}, e.Children()...), false
	for i, child := range children {
		t := child.Type(k.c)
		if !types.IsTime(t) && !types.IsTimespan(t) {
			continue
		}
		n := k.digitsOf(child)
		m := &shownMoment{digits: n, date: types.IsDateType(t), typ: types.CreateLongText(k.c.GetCollation())}
		m.Child = child
		children[i], some = m, true
	}
	if !some {
		return e, false, nil
	}
	made, err := e.WithChildren(k.c, children...)
	return made, true, err
}

// ofAny are the functions of ofMembers that return one of their arguments.
var ofAny = set("coalesce", "ifnull", "nullif", "if", "greatest", "least", "elt")

// numbers has arithmetic take moments as the numbers that MySQL makes of them: the library takes a TIME for 0 and a DATE for a moment.
func (k *carrier) numbers(e sql.Expression) (sql.Expression, bool, error) {
	children, some := append([]sql.Expression{}, e.Children()...), false
	for i, child := range children {
		t := child.Type(k.c)
		if _, interval := child.(*expression.Interval); interval || !types.IsTime(t) && !types.IsTimespan(t) {
			continue
		}
		m := &shownMoment{digits: k.digitsOf(child), typ: types.Int64, number: true}
		if m.digits > 0 {
			m.typ = types.MustCreateDecimalType(uint8(20+m.digits), uint8(m.digits))
		}
		m.Child = child
		children[i], some = m, true
	}
	if !some {
		return e, false, nil
	}
	made, err := e.WithChildren(k.c, children...)
	return made, true, err
}

// shownMoment is a moment or a duration as a text with its digits, or as a number.
type shownMoment struct {
	expression.UnaryExpressionStub
	digits int
	date   bool
	number bool
	typ    sql.Type
}

var _ sql.Expression = (*shownMoment)(nil)

func (m *shownMoment) String() string             { return m.Child.String() }
func (m *shownMoment) Type(*sql.Context) sql.Type { return m.typ }

// WithChildren implements sql.Expression.
func (m *shownMoment) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *m
	n.Child = children[0]
	return &n, nil
}

// Eval implements sql.Expression.
func (m *shownMoment) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	v, err := evalPlain(ctx, m.Child, r)
	if err != nil || v == nil {
		return nil, err
	}
	switch x := v.(type) {
	case time.Time:
		if m.number {
			return m.asNumber(numberOfMoment(x, m.Child.Type(ctx)))
		}
		w, kind := momentOf(x), wire.DateTime
		if m.date {
			kind = wire.Date
		}
		return string(w.AppendText(nil, kind, byte(m.digits))), nil
	case types.Timespan:
		if m.number {
			return m.asNumber(numberOfTime(x))
		}
		w := durationOf(x)
		return string(w.AppendText(nil, wire.Time, byte(m.digits))), nil
	}
	return textOfValue(v, m.Child.Type(ctx)), nil
}

// asNumber is a moment's number in the type of the expression.
func (m *shownMoment) asNumber(d *apd.Decimal) (any, error) {
	if types.IsDecimal(m.typ) {
		var n apd.Decimal
		_, err := rounding.Quantize(&n, d, int32(-m.digits))
		return &n, err
	}
	n, _ := wholeOfDecimal(d).signed(64)
	return n, nil
}

// shownIn is the moment that a column of a set operation's side is made of, where the library has both sides as texts. Nil: it is none.
func shownIn(n sql.Node, i int) *shownMoment {
	p, ok := n.(*plan.Project)
	if !ok || i >= len(p.Projections) {
		return nil
	}
	e := p.Projections[i]
	for {
		switch x := e.(type) {
		case *expression.Alias, *carried, *expression.Convert:
			e = x.Children()[0]
		case *shownMoment:
			return x
		default:
			return nil
		}
	}
}

// alike has both sides of a set operation show their moments with the same parts. They were made for this statement alone.
func alike(a, b *shownMoment) {
	if a == nil || b == nil {
		return
	}
	n, date := max(a.digits, b.digits), a.date && b.date
	a.digits, a.date = n, date
	b.digits, b.date = n, date
}

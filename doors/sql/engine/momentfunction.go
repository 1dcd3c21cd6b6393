package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// The library gives a date and an interval a time of day, has one precision of DATETIME in functions, and reads no date in a number. So the functions
// that make dates and times are ours. The planner gets them by their names, and the parser's own forms of them become calls of these names (calls).

// Names that only the door gives a call.
const (
	castDatetime = "holdfast_datetime" // of a value and a number of digits
	castTime     = "holdfast_time"
)

// momentFunction makes a date or a time. Its type is known when the statement is planned, and stays.
type momentFunction struct {
	name   string
	args   []sql.Expression
	typ    sql.Type
	digits int
	sign   int    // of an interval
	unit   string // of it
	inner  sql.Expression
}

var _ sql.FunctionExpression = (*momentFunction)(nil)
var _ sql.CollationCoercible = (*momentFunction)(nil)

// FunctionName implements sql.FunctionExpression.
func (f *momentFunction) FunctionName() string { return f.name }

// Description implements sql.FunctionExpression.
func (f *momentFunction) Description() string { return "makes a date or a time." }

func (f *momentFunction) String() string {
	all := make([]string, len(f.args))
	for i, a := range f.args {
		all[i] = a.String()
	}
	return f.name + "(" + strings.Join(all, ",") + f.unit + ")"
}

func (f *momentFunction) Type(*sql.Context) sql.Type   { return f.typ }
func (f *momentFunction) IsNullable(*sql.Context) bool { return true }
func (f *momentFunction) Resolved() bool               { return expression.ExpressionsResolved(f.args...) }
func (f *momentFunction) Children() []sql.Expression   { return f.args }

// CollationCoercibility implements sql.CollationCoercible.
func (f *momentFunction) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	if types.IsText(f.typ) {
		return ctx.GetCollation(), byte(coercible)
	}
	return sql.Collation_binary, byte(numbered)
}

// WithChildren implements sql.Expression.
func (f *momentFunction) WithChildren(c *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *f
	n.args = children
	if f.inner != nil {
		inner, err := f.inner.WithChildren(c, children...)
		if err != nil {
			return nil, err
		}
		n.inner = inner
	}
	return &n, nil
}

func datetimeOf(digits int) sql.Type { return types.MustCreateDatetimeType(sqltypes.Datetime, digits) }

// functions are those that replace the library's, by name.
var functions = map[string]sql.Function{}

func init() {
	for _, f := range []sql.FunctionN{
		{Name: "date_add", Fn: intervalFunction("date_add", 1)}, {Name: "date_sub", Fn: intervalFunction("date_sub", -1)},
		{Name: "adddate", Fn: intervalFunction("adddate", 1)}, {Name: "subdate", Fn: intervalFunction("subdate", -1)},
		{Name: "date", Fn: dateFunction("date")}, {Name: "last_day", Fn: dateFunction("last_day")},
		{Name: "timestamp", Fn: datetimeFunction}, {Name: castDatetime, Fn: castFunction(castDatetime)}, {Name: castTime, Fn: castFunction(castTime)},
		{Name: "time", Fn: timeFunction}, {Name: "timediff", Fn: timeDifference}, {Name: "str_to_date", Fn: formattedMoment},
		{Name: "hour", Fn: partFunction("hour")}, {Name: "minute", Fn: partFunction("minute")}, {Name: "second", Fn: partFunction("second")},
		{Name: "time_to_sec", Fn: partFunction("time_to_sec")}, {Name: "microsecond", Fn: partFunction("microsecond")},
		{Name: "from_unixtime", Fn: momentOfSeconds},
		{Name: "round", Fn: numberFunction("round")}, {Name: "truncate", Fn: numberFunction("truncate")},
		{Name: "floor", Fn: numberFunction("floor")}, {Name: "ceil", Fn: numberFunction("ceil")}, {Name: "ceiling", Fn: numberFunction("ceil")},
	} {
		functions[f.Name] = f
	}
}

func wrongArguments(name string, want, got int) error {
	return sql.ErrInvalidArgumentNumber.New(strings.ToUpper(name), want, got)
}

func dateFunction(name string) sql.CreateFuncNArgs {
	return func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) != 1 {
			return nil, wrongArguments(name, 1, len(args))
		}
		return &momentFunction{name: name, args: args, typ: types.Date}, nil
	}
}

func datetimeFunction(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	switch len(args) {
	case 1:
		digits := digitsOf(c, args[0])
		return &momentFunction{name: "timestamp", args: args, typ: datetimeOf(digits), digits: digits}, nil
	case 2:
		return nil, refused("TIMESTAMP() of two values")
	}
	return nil, wrongArguments("timestamp", 1, len(args))
}

func castFunction(name string) sql.CreateFuncNArgs {
	return func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		n, ok := args[1].(*expression.Literal)
		digits, number := integer(n.Value())
		if !ok || !number {
			return nil, wrongArguments(name, 2, len(args))
		}
		f := &momentFunction{name: name, args: args[:1], typ: types.Time, digits: int(digits)}
		if name == castDatetime {
			f.typ = datetimeOf(f.digits)
		}
		return f, nil
	}
}

func timeFunction(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	if len(args) != 1 {
		return nil, wrongArguments("time", 1, len(args))
	}
	return &momentFunction{name: "time", args: args, typ: types.Time, digits: digitsOf(c, args[0])}, nil
}

// partFunction is a part of a TIME, which the library takes for a time of day, and does not find in texts. Of a DATE or DATETIME it is the library's.
func partFunction(name string) sql.CreateFuncNArgs {
	return func(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) != 1 {
			return nil, wrongArguments(name, 1, len(args))
		}
		if !types.IsTime(args[0].Type(c)) {
			return &momentFunction{name: name, args: args, typ: types.Int64, digits: mostDigits}, nil
		}
		switch name {
		case "microsecond":
			return function.NewMicrosecond(c, args[0]), nil
		case "hour":
			return function.NewHour(c, args[0]), nil
		case "minute":
			return function.NewMinute(c, args[0]), nil
		case "second":
			return function.NewSecond(c, args[0]), nil
		}
		return function.NewTimeToSec(c, args[0]), nil
	}
}

func timeDifference(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	if len(args) != 2 {
		return nil, wrongArguments("timediff", 2, len(args))
	}
	return &momentFunction{name: "timediff", args: args, typ: types.Time, digits: max(digitsOf(c, args[0]), digitsOf(c, args[1])),
		inner: function.NewTimeDiff(c, args[0], args[1])}, nil
}

// formattedMoment is STR_TO_DATE. Its type is what its format has.
func formattedMoment(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	if len(args) != 2 {
		return nil, wrongArguments("str_to_date", 2, len(args))
	}
	f := &momentFunction{name: "str_to_date", args: args, typ: types.DatetimeMaxPrecision, digits: mostDigits, inner: function.NewStrToDate(c, args[0], args[1])}
	l, ok := args[1].(*expression.Literal)
	if !ok {
		return f, nil
	}
	format, _ := l.Value().(string)
	date, clock, micro := false, false, false
	for i := 0; i+1 < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		switch {
		case strings.IndexByte("MVUXYWabcjmvuxyw", format[i]) >= 0 || format[i] == 'd' || format[i] == 'D' || format[i] == 'e':
			date = true
		case format[i] == 'f':
			clock, micro = true, true
		case strings.IndexByte("HISThiklprs", format[i]) >= 0:
			clock = true
		}
	}
	if f.digits = 0; micro { // the library takes .5 for five microseconds
		return nil, refused("%f in STR_TO_DATE")
	}
	switch {
	case date && clock:
		f.typ = datetimeOf(f.digits)
	case clock:
		f.typ = types.Time
	default:
		f.typ = types.Date
	}
	return f, nil
}

// momentOfSeconds is FROM_UNIXTIME.
func momentOfSeconds(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	inner, err := function.NewFromUnixtime(c, args...)
	if err != nil || len(args) != 1 {
		return inner, err
	}
	digits := digitsOf(c, args[0])
	return &momentFunction{name: "from_unixtime", args: args, typ: datetimeOf(digits), digits: digits, inner: inner}, nil
}

package engine

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// picks are the functions that return one of their arguments.
var picks = set("coalesce", "ifnull", "greatest", "least")

func init() {
	for name, library := range map[string]sql.CreateFuncNArgs{"greatest": function.NewGreatest, "least": function.NewLeast} {
		functions[name] = sql.FunctionN{Name: name, Fn: func(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			if f := picked(c, name, args, func(e sql.Expression) int { return digitsOf(c, e) }); f != nil { // the library knows no TIME
				return f, nil
			}
			return library(c, args...)
		}}
	}
}

// picked is a function that returns one of its arguments where all of them are dates, or all of them times: so is its value. The library makes a text of
// some. digits says how many an argument has. Nil: the arguments are of other types too.
func picked(c *sql.Context, name string, args []sql.Expression, digits func(sql.Expression) int) sql.Expression {
	if !picks[name] {
		return nil
	}
	dates, moments, times, most := 0, 0, 0, 0
	for _, a := range args {
		switch t := a.Type(c); {
		case t == types.Null:
			continue
		case types.IsTimespan(t):
			times++
		case types.IsDateType(t):
			dates++
		case types.IsTime(t):
			moments++
		default:
			return nil
		}
		most = max(most, digits(a))
	}
	f := &momentFunction{name: name, args: args, digits: most}
	switch {
	case times > 0 && dates+moments == 0:
		f.typ = types.Time
	case moments > 0 && times == 0:
		f.typ = datetimeOf(most)
	case dates > 0 && times == 0:
		f.typ, f.digits = types.Date, 0
	default:
		return nil
	}
	return f
}

// pick evaluates a function that returns one of its arguments.
func (f *momentFunction) pick(ctx *sql.Context, r sql.Row) (any, error) {
	first := f.name == "coalesce" || f.name == "ifnull"
	var best any
	for _, a := range f.args {
		v, err := evalPlain(ctx, a, r)
		if err != nil {
			return nil, err
		}
		if v != nil {
			v, err = f.as(ctx, v, a.Type(ctx))
		}
		switch {
		case err != nil:
			return nil, err
		case first && v != nil:
			return v, nil
		case first:
			continue
		case v == nil:
			return nil, nil
		case best == nil:
			best = v
			continue
		}
		cmp := 0
		switch x := v.(type) {
		case time.Time:
			cmp = x.Compare(best.(time.Time))
		case types.Timespan:
			cmp = compareInts(int64(x), int64(best.(types.Timespan)))
		}
		if cmp > 0 && f.name == "greatest" || cmp < 0 && f.name == "least" {
			best = v
		}
	}
	return best, nil
}

// as is a date or a time of an argument: a literal's is a text.
func (f *momentFunction) as(ctx *sql.Context, v any, from sql.Type) (any, error) {
	switch v.(type) {
	case time.Time, types.Timespan:
		return v, nil
	}
	if types.IsTimespan(f.typ) {
		return f.time(ctx, v, from)
	}
	t, _, ok := f.moment(ctx, v, from)
	if !ok {
		return nil, nil
	}
	return t, nil
}

// extracted is EXTRACT, which the library takes out of no time in a text, and whose weeks begin on Monday there.
func (k *carrier) extracted(x *function.Extract) (sql.Expression, bool, error) {
	args := x.Children()
	l, ok := args[0].(*expression.Literal)
	if !ok || len(args) != 2 {
		return x, false, nil
	}
	unit, _ := l.Value().(string)
	unit = strings.ToLower(unit)
	if unit == "week" {
		made, err := functions["week"].NewInstance(k.c, args[1:])
		return made, true, err
	}
	part, _, _ := strings.Cut(unit, "_")
	t := args[1].Type(k.c)
	if part != "hour" && part != "minute" && part != "second" && part != "microsecond" || types.IsTime(t) || types.IsTimespan(t) {
		return x, false, nil
	}
	as := &momentFunction{name: castTime, args: args[1:], typ: types.Time, digits: mostDigits}
	made, err := x.WithChildren(k.c, args[0], as)
	return made, true, err
}

package engine

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Parts of MySQL's modes of WEEK.
const (
	fromMonday  = 1 // a week begins on Monday
	ofWeekYear  = 2 // the days before a year's first week are of the last week of the year before
	wholeInYear = 4 // a year's first week is the first that begins in it; without it, the first that has more than three days in it
)

func init() {
	for _, f := range []sql.FunctionN{
		ofValues("week", 1, 2, always(types.Int64), func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
			t, mode, ok := f.ofWeek(ctx, values)
			if !ok {
				return nil, nil
			}
			_, week := weekOf(t, mode)
			return int64(week), nil
		}),
		ofValues("weekofyear", 1, 1, always(types.Int64), func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
			t, _, ok := f.ofWeek(ctx, values)
			if !ok {
				return nil, nil
			}
			_, week := weekOf(t, fromMonday|ofWeekYear)
			return int64(week), nil
		}),
		ofValues("yearweek", 1, 2, always(types.Int64), func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
			t, mode, ok := f.ofWeek(ctx, values)
			if !ok {
				return nil, nil
			}
			if len(values) == 1 {
				mode = wholeInYear // with any default_week_format
			}
			year, week := weekOf(t, mode|ofWeekYear)
			return int64(year*100 + week), nil
		}),
		ofValues("makedate", 2, 2, always(types.Date), func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
			year, _ := f.whole(ctx, values, 0).signed(64)
			day, _ := f.whole(ctx, values, 1).signed(64)
			switch {
			case year < 0 || year > 9999 || day <= 0 || day > 9999*366:
				return nil, nil
			case year < 70:
				year += 2000
			case year < 100:
				year += 1900
			}
			t := time.Date(int(year), 1, int(day), 0, 0, 0, 0, time.UTC)
			if t.Year() > 9999 {
				return nil, nil
			}
			return t, nil
		}),
		ofValues("maketime", 3, 3, always(types.Time), func(ctx *sql.Context, f *valueFunction, values []any) (any, error) {
			hour, minute := f.whole(ctx, values, 0), f.whole(ctx, values, 1)
			second := f.number(ctx, values, 2).decimal()
			micros, err := second.Float64()
			if err != nil || minute.negative || minute.over || minute.size > 59 || second.Negative || micros >= 60 {
				return nil, nil
			}
			of := *second
			of.Exponent += 6
			sum := wholeOfDecimal(&of).size
			const most = 838*3600*1_000_000 + 59*60*1_000_000 + 59*1_000_000
			if hour.over || hour.size > 838 || hour.size*3600_000_000+minute.size*60_000_000+sum > most {
				ctx.Warn(errWrongMoment, "Truncated incorrect time value: '%v:%02d:%02d'", values[0], minute.size, sum/1_000_000)
				sum = most
			} else {
				sum += hour.size*3600_000_000 + minute.size*60_000_000
			}
			if hour.negative {
				return types.Timespan(-int64(sum)), nil
			}
			return types.Timespan(int64(sum)), nil
		}),
	} {
		functions[f.Name] = f
	}
	for _, name := range []string{"week", "yearweek"} {
		make := functions[name].(sql.FunctionN)
		functions[name] = sql.FunctionN{Name: name, Fn: func(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := make.Fn(c, args...)
			if f, ok := e.(*valueFunction); ok {
				f.free = true
			}
			return e, err
		}}
	}
}

// ofWeek are the day and the mode of a function of weeks. ok false: the first argument is no date.
func (f *valueFunction) ofWeek(ctx *sql.Context, values []any) (t time.Time, mode int, ok bool) {
	if t, _, ok = (&momentFunction{}).moment(ctx, values[0], f.args[0].Type(ctx)); !ok {
		return t, 0, false
	}
	if len(values) > 1 && values[1] == nil {
		return t, weekMode(0), true
	}
	if len(values) > 1 {
		return t, weekMode(f.whole(ctx, values, 1).bits()), true
	}
	v, _ := ctx.GetSessionVariable(ctx, "default_week_format")
	n, _ := integer(v)
	return t, weekMode(uint64(n)), true
}

// weekMode are the parts of a mode that a client has written.
func weekMode(n uint64) int {
	mode := int(n & 7)
	if mode&fromMonday == 0 {
		mode ^= wholeInYear
	}
	return mode
}

// weekOf is the week that a day is in, and the year that the week is of. Week 0 has the days before the first week of the day's own year.
func weekOf(t time.Time, mode int) (year, week int) {
	day := t.YearDay() - 1 // from the first of January of the year
	year = t.Year()
	first := int(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Weekday()) // 0: the day that a week begins on
	if mode&fromMonday != 0 {
		first = (first + 6) % 7
	}
	late := func() bool { // the year begins in the last week of the year before
		if mode&wholeInYear != 0 {
			return first != 0
		}
		return first >= 4
	}
	if day < 7-first {
		if mode&ofWeekYear == 0 && late() {
			return year, 0
		}
		if late() {
			year--
			days := daysOf(year)
			day += days
			first = (first + 53*7 - days) % 7
		}
	}
	if late() {
		day -= 7 - first
	} else {
		day += first
	}
	if mode&ofWeekYear != 0 && day >= 52*7 {
		if first = (first + daysOf(year)) % 7; !late() {
			return year + 1, 1
		}
	}
	return year, day/7 + 1
}

func daysOf(year int) int { return time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC).YearDay() }

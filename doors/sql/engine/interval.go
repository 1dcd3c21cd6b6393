package engine

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// intervalFunction returns the function that adds an interval to a date or a time, or takes it away. Its type is by MySQL 8.0: a DATE stays a DATE by
// whole days, and a text stays a text.
func intervalFunction(name string, sign int) sql.CreateFuncNArgs {
	return func(c *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) != 2 {
			return nil, wrongArguments(name, 2, len(args))
		}
		by, ok := args[1].(*expression.Interval)
		if !ok {
			by = expression.NewInterval(args[1], "DAY")
		}
		f := &momentFunction{name: name, args: []sql.Expression{args[0], by.Child}, sign: sign, unit: by.Unit}
		unit := by.Unit
		days := dayUnit(unit)
		digits := 0
		switch {
		case strings.HasSuffix(unit, "MICROSECOND"):
			digits = mostDigits
		case unit == "SECOND":
			digits = digitsOf(c, by.Child)
		}
		switch t := args[0].Type(c); {
		case types.IsDateType(t) && days:
			f.typ = types.Date
		case types.IsDateType(t):
			f.digits = digits
			f.typ = datetimeOf(digits)
		case types.IsTime(t), types.IsTimespan(t) && (days || strings.HasPrefix(unit, "DAY_")):
			f.digits = max(digits, digitsOf(c, args[0]))
			f.typ = datetimeOf(f.digits)
		case types.IsTimespan(t):
			f.digits, f.typ = max(digits, digitsOf(c, args[0])), types.Time
		default:
			f.typ = types.CreateLongText(c.GetCollation())
		}
		return f, nil
	}
}

// dayUnit reports whether an interval has whole days, months or years.
func dayUnit(unit string) bool {
	switch unit {
	case "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "YEAR_MONTH":
		return true
	}
	return false
}

// moved is a moment and an interval. false: the calendar ends before.
func moved(t time.Time, d expression.TimeDelta, sign int) (time.Time, bool) {
	const most = 400_000_000 // days, more than the calendar has
	for _, n := range []int64{d.Years, d.Months, d.Days} {
		if n > most || n < -most {
			return t, false
		}
	}
	if d.Years != 0 || d.Months != 0 {
		months := int64(t.Year())*12 + int64(t.Month()) - 1 + int64(sign)*(d.Years*12+d.Months)
		if months < 0 || months >= 120_000 {
			return t, false
		}
		year, month := int(months/12), time.Month(months%12)+1
		day := min(t.Day(), time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day())
		t = time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	}
	for _, part := range []struct {
		n, day int64
		unit   time.Duration
	}{{d.Days, 1, 24 * time.Hour}, {d.Hours, 24, time.Hour}, {d.Minutes, 24 * 60, time.Minute},
		{d.Seconds, 86400, time.Second}, {d.Microseconds, 86400_000_000, time.Microsecond}} {
		days, rest := part.n/part.day, part.n%part.day
		if days > most || days < -most {
			return t, false
		}
		t = t.AddDate(0, 0, sign*int(days)).Add(time.Duration(sign) * time.Duration(rest) * part.unit)
		if t.Year() < 0 || t.Year() > 9999 {
			return t, false
		}
	}
	return t, true
}

// deltaOf reads an interval. ok false: it is NULL, or its text has too many numbers.
func deltaOf(ctx *sql.Context, by sql.Expression, unit string, r sql.Row) (d expression.TimeDelta, ok bool, err error) {
	v, err := evalPlain(ctx, by, r)
	if err != nil || v == nil {
		return d, false, err
	}
	t := by.Type(ctx)
	fields := map[string]*int64{"YEAR": &d.Years, "MONTH": &d.Months, "DAY": &d.Days, "HOUR": &d.Hours, "MINUTE": &d.Minutes, "SECOND": &d.Seconds,
		"MICROSECOND": &d.Microseconds}
	first, last, several := strings.Cut(unit, "_")
	if !several {
		n, _ := numeric(by, v, t)
		number := n.decimal()
		if unit == "SECOND" {
			if d.Seconds, d.Microseconds, ok = splitNumber(number); !ok {
				return d, false, nil
			}
			return d, true, nil
		}
		w := wholeOfDecimal(number)
		switch v.(type) {
		case string, []byte:
			whole, _, ok := splitNumber(number) // of a text what stands before its point counts
			w = wholeOfInt(whole)
			w.over = !ok
		case float32, float64:
			f, _ := n.float()
			w = wholeOfFloat(f)
		}
		whole, within := w.signed(64)
		if !within || whole > math.MaxInt64/8 || whole < -math.MaxInt64/8 {
			ctx.Warn(1441, "Datetime function: datetime field overflow")
			return d, false, nil
		}
		switch unit {
		case "WEEK":
			d.Days = whole * 7
		case "QUARTER":
			d.Months = whole * 3
		default:
			*fields[unit] = whole
		}
		return d, true, nil
	}
	order := []string{"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND"}
	from, to := 0, 0
	for i, name := range order {
		if name == first {
			from = i
		}
		if name == last {
			to = i
		}
	}
	text, _ := textValue(v, t).(string)
	if b, isBytes := v.([]byte); isBytes {
		text = string(b)
	}
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	sign := int64(1)
	if strings.HasPrefix(text, "-") {
		sign = -1
	}
	var numbers []int64
	width := 0
	for text != "" {
		i := 0
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		if i > 0 {
			n, err := strconv.ParseInt(text[:i], 10, 64)
			if err != nil || n > math.MaxInt64/1_000_000/8 {
				return d, false, nil
			}
			numbers, width = append(numbers, n), i
		} else {
			i = 1
		}
		text = text[i:]
	}
	if len(numbers) > to-from+1 {
		return d, false, nil
	}
	if last == "MICROSECOND" && len(numbers) > 0 && width < mostDigits { // .5 is half a second
		for ; width < mostDigits; width++ {
			numbers[len(numbers)-1] *= 10
		}
	}
	for i, n := range numbers {
		*fields[order[to-len(numbers)+1+i]] = sign * n
	}
	return d, true, nil
}

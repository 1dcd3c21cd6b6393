package engine

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Eval implements sql.Expression.
func (f *momentFunction) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	if picks[f.name] {
		return f.pick(ctx, r)
	}
	if f.inner != nil {
		for _, a := range f.args {
			if v, err := a.Eval(ctx, r); err != nil || v == nil {
				return nil, err
			}
		}
		v, err := evalPlain(ctx, f.inner, r)
		if err != nil || v == nil {
			return nil, err
		}
		return f.fit(ctx, v)
	}
	v, err := evalPlain(ctx, f.args[0], r)
	if err != nil || v == nil {
		return nil, err
	}
	from := f.args[0].Type(ctx)
	if types.IsEnum(from) || types.IsSet(from) {
		v, from = memberText(ctx, v, from, types.LongText)
	}
	switch f.name {
	case "date", "last_day":
		t, _, ok := f.moment(ctx, v, from)
		if !ok {
			return nil, nil
		}
		if f.name == "last_day" {
			t = time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC)
		}
		return dayOf(t), nil
	case "timestamp", castDatetime:
		t, _, ok := f.moment(ctx, v, from)
		if !ok {
			return nil, nil
		}
		if t = roundMoment(t, f.digits); t.Year() > 9999 {
			return nil, nil
		}
		return t, nil
	case "time", castTime:
		return f.time(ctx, v, from)
	case "hour", "minute", "second", "time_to_sec", "microsecond":
		t, isTime := v.(types.Timespan)
		if !isTime {
			read, err := f.time(ctx, v, from)
			if err != nil || read == nil {
				return nil, err
			}
			t, _ = read.(types.Timespan)
		}
		if f.name == "microsecond" {
			micros := int64(t) % 1_000_000
			return max(micros, -micros), nil
		}
		seconds := int64(t) / 1_000_000
		if f.name == "time_to_sec" {
			return seconds, nil
		}
		seconds = max(seconds, -seconds)
		return map[string]int64{"hour": seconds / 3600, "minute": seconds / 60 % 60, "second": seconds % 60}[f.name], nil
	}
	d, ok, err := deltaOf(ctx, f.args[1], f.unit, r)
	if err != nil || !ok {
		return nil, err
	}
	if types.IsTimespan(f.typ) {
		n, _ := v.(types.Timespan)
		sum := int64(n) + int64(f.sign)*(((d.Days*24+d.Hours)*60+d.Minutes)*60+d.Seconds)*1_000_000 + int64(f.sign)*d.Microseconds
		if sum > mostTime || sum < -mostTime {
			ctx.Warn(1441, "Datetime function: time field overflow")
			return nil, nil
		}
		return types.Timespan(sum), nil
	}
	t, dateOnly, ok := f.moment(ctx, v, from)
	if !ok {
		return nil, nil
	}
	if t, ok = moved(t, d, f.sign); !ok {
		ctx.Warn(1441, "Datetime function: datetime field overflow")
		return nil, nil
	}
	switch {
	case !types.IsText(f.typ):
		return t, nil
	case dateOnly && dayUnit(f.unit):
		return t.Format(sql.DateLayout), nil
	case t.Nanosecond() != 0:
		return t.Format("2006-01-02 15:04:05.000000"), nil
	}
	return t.Format("2006-01-02 15:04:05"), nil
}

// fit gives the library's value the function's type.
func (f *momentFunction) fit(ctx *sql.Context, v any) (any, error) {
	switch x := v.(type) {
	case time.Time:
		switch {
		case types.IsDateType(f.typ):
			return dayOf(x), nil
		case types.IsTimespan(f.typ):
			return types.Timespan(clockMicros(x.Hour(), x.Minute(), x.Second(), x.Nanosecond()/1000)), nil
		}
		return roundMoment(x, f.digits), nil
	case types.Timespan:
		if types.IsTimespan(f.typ) {
			return x, nil
		}
	}
	if types.IsTimespan(f.typ) {
		return f.time(ctx, v, types.LongText)
	}
	t, _, ok := f.moment(ctx, v, types.LongText)
	if !ok {
		return nil, nil
	}
	if types.IsDateType(f.typ) {
		t = dayOf(t)
	}
	return t, nil
}

// mostMoment is more than the longest text of a moment, in bytes.
const mostMoment = 64

// moment reads a moment in a value. dateOnly: it has no time of day. ok false: it has none, and the client is warned.
func (f *momentFunction) moment(ctx *sql.Context, v any, from sql.Type) (t time.Time, dateOnly, ok bool) {
	a := &assigned{typ: types.DatetimeMaxPrecision, digits: mostDigits}
	switch x := v.(type) {
	case time.Time:
		if x.Equal(types.ZeroTime) {
			break
		}
		return x, types.IsDateType(from), true
	case string, []byte:
		s := textOfValue(x, from)
		if b, isBytes := x.([]byte); isBytes {
			s = string(b)
		}
		m, clean := readMoment(s)
		if t, ok := m.valid(); clean && ok {
			return t, m.hour|m.minute|m.second|m.micro == 0 && !strings.ContainsAny(s, ":T") && len(strings.TrimSpace(s)) <= len("2024-01-31"), true
		}
		for end := min(len(s), mostMoment) - 1; end > 0 && !clean; end-- { // what stands before something else
			if m, clean = readMoment(s[:end]); !clean {
				continue
			}
			if t, ok := m.valid(); ok {
				ctx.Warn(errWrongMoment, "Truncated incorrect datetime value: '%s'", s)
				return t, !strings.ContainsAny(s[:end], ":T"), true
			}
		}
	default:
		c, problem := a.moment(ctx, v, from)
		if t, isTime := c.(time.Time); isTime && problem == nil {
			return t, t.Equal(dayOf(t)), true
		}
	}
	text, _ := textValue(v, from).(string)
	ctx.Warn(errWrongMoment, "Incorrect datetime value: '%s'", text)
	return time.Time{}, false, false
}

// time reads a duration in a value.
func (f *momentFunction) time(ctx *sql.Context, v any, from sql.Type) (any, error) {
	if t, ok := v.(time.Time); ok && t.Equal(types.ZeroTime) {
		return types.Timespan(0), nil
	}
	a := &assigned{typ: types.Time, digits: mostDigits}
	if s, ok := v.(string); ok && types.IsTime(from) { // a literal such as DATE '2024-01-31'
		if t, _, ok := f.moment(ctx, s, from); ok {
			v = t
		}
	}
	n, ok := a.micros(v)
	if !ok {
		text, _ := textValue(v, from).(string)
		ctx.Warn(errWrongMoment, "Truncated incorrect time value: '%s'", text)
		end := 0
		for end < len(text) && (isDigit(text[end]) || text[end] == ':' || text[end] == '.' || text[end] == '-' && end == 0) {
			end++
		}
		if n, ok = readTime(text[:end]); !ok || types.IsNumber(from) {
			return nil, nil
		}
	}
	t, within := roundTime(n, f.digits)
	if !within {
		text, _ := textValue(v, from).(string)
		ctx.Warn(errWrongMoment, "Truncated incorrect time value: '%s'", text)
		if types.IsNumber(from) {
			return nil, nil
		}
	}
	return t, nil
}

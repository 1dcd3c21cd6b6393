package engine

import (
	"math"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// numberOfMoment is a moment as a number such as 20240229123456.
func numberOfMoment(t time.Time, from sql.Type) *apd.Decimal {
	n := int64(t.Year())*1e4 + int64(t.Month())*100 + int64(t.Day())
	if !types.IsDateType(from) {
		n = n*1e6 + int64(t.Hour())*1e4 + int64(t.Minute())*100 + int64(t.Second())
		if micro := int64(t.Nanosecond() / 1000); micro != 0 {
			c := apd.NewBigInt(n) // with six digits more it has more than 64 bits
			c.Mul(c, apd.NewBigInt(1_000_000))
			c.Add(c, apd.NewBigInt(micro))
			return apd.NewWithBigInt(c, -6)
		}
	}
	return apd.New(n, 0)
}

// numberOfTime is a duration as a number such as 123456.
func numberOfTime(t types.Timespan) *apd.Decimal {
	m := durationOf(t)
	n := (int64(m.Day)*24+int64(m.Hour))*1e4 + int64(m.Minute)*100 + int64(m.Second)
	n = n*1e6 + int64(m.Micro)
	if m.Negative {
		n = -n
	}
	return apd.New(n, -6)
}

func (a *assigned) moment(ctx *sql.Context, v any, from sql.Type) (any, *wire.Error) {
	kind, digits := "datetime", 6
	if d, ok := a.typ.(sql.DatetimeType); ok {
		digits = d.Precision()
	}
	if types.IsDateType(a.typ) {
		kind, digits = "date", 0
	}
	wrong := func() (any, *wire.Error) { return types.ZeroTime, a.incorrect(errWrongMoment, kind, v) }
	var t time.Time
	switch n := v.(type) {
	case time.Time:
		if n.Equal(types.ZeroTime) {
			return wrong()
		}
		t = n
	case types.Timespan: // a time of today
		t = dayOf(ctx.QueryTime()).Add(time.Duration(n) * time.Microsecond)
	case string, []byte:
		s, _ := textValue(n, nil).(string)
		if b, ok := n.([]byte); ok {
			s = string(b)
		}
		m, ok := readMoment(s)
		if !ok {
			return wrong()
		}
		if t, ok = m.valid(); !ok {
			return wrong()
		}
	default:
		d, problem := (&assigned{column: a.column, typ: types.InternalDecimalType}).decimal(v, from)
		number, ok := d.(*apd.Decimal)
		if problem != nil || !ok {
			return wrong()
		}
		whole, micro, ok := splitNumber(number)
		if !ok {
			return wrong()
		}
		m, ok := momentOfNumber(whole)
		if !ok || whole < 0 || micro < 0 {
			return wrong()
		}
		m.micro = int(micro)
		m.carry()
		if t, ok = m.valid(); !ok {
			return wrong()
		}
	}
	if kind == "date" {
		if t = roundMoment(t, 0); t.Year() > 9999 {
			return wrong()
		}
		return dayOf(t), nil
	}
	if t = roundMoment(t, digits); t.Year() > 9999 {
		return wrong()
	}
	if types.IsTimestampType(a.typ) && (t.Unix() < 1 || t.Unix() > math.MaxInt32) {
		return wrong()
	}
	return t, nil
}

// dayOf is the day of a moment.
func dayOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// splitNumber divides a number into its integer and its microseconds. false: it is too large.
func splitNumber(d *apd.Decimal) (n, micro int64, ok bool) {
	var whole, part apd.Decimal
	var r apd.Decimal
	if _, err := rounding.Quantize(&r, d, -6); err != nil {
		return 0, 0, false
	}
	r.Modf(&whole, &part)
	n, err := whole.Int64()
	if err != nil {
		return 0, 0, false
	}
	if part.IsZero() {
		return n, 0, true
	}
	part.Exponent += 6
	micro, err = part.Int64()
	return n, micro, err == nil
}

func (a *assigned) time(v any) (any, *wire.Error) {
	n, ok := a.micros(v)
	if !ok {
		return types.Timespan(0), a.incorrect(errWrongMoment, "time", v)
	}
	t, in := roundTime(n, a.digits)
	if !in {
		return t, a.incorrect(errWrongMoment, "time", v)
	}
	return t, nil
}

// micros returns a value as a duration in microseconds, which may be more than a TIME. false: it is none, as a whole.
func (a *assigned) micros(v any) (int64, bool) {
	switch x := v.(type) {
	case types.Timespan:
		return int64(x), true
	case time.Time:
		return clockMicros(x.Hour(), x.Minute(), x.Second(), x.Nanosecond()/1000), true
	case string:
		return readTime(x)
	case []byte:
		return readTime(string(x))
	}
	d, problem := (&assigned{column: a.column, typ: types.InternalDecimalType}).decimal(v, nil)
	number, ok := d.(*apd.Decimal)
	if problem != nil || !ok {
		return 0, false
	}
	whole, micro, ok := splitNumber(number)
	if !ok {
		return 0, false
	}
	return timeOfNumber(whole, micro)
}

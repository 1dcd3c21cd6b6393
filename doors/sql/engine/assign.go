package engine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// The library converts a value that is stored as it converts values anywhere. MySQL has rules of its own for it: how a text becomes a number or a
// moment, how it rounds, and what is an error. So each value that a statement stores goes through an expression of ours, behind which the
// library finds nothing left to convert.

// assigned is a value on its way into a column.
type assigned struct {
	expression.UnaryExpressionStub
	column  string
	typ     sql.Type
	digits  int  // behind the point of a TIME
	hex     bool // bytes are a literal such as 0x10, which is a number for a column of numbers
	lenient bool // the statement goes on with the nearest value and a warning
	first   bool // the first of its row
}

var _ sql.Expression = (*assigned)(nil)

func (a *assigned) String() string             { return a.Child.String() }
func (a *assigned) Type(*sql.Context) sql.Type { return a.typ }

func (a *assigned) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	n := *a
	n.Child = children[0]
	return &n, nil
}

// Eval returns the value as the column's type has it. Errors: MySQL's, as *wire.Error.
func (a *assigned) Eval(ctx *sql.Context, r sql.Row) (any, error) {
	if s, ok := ctx.Session.(*Session); ok && a.first {
		s.row++
	}
	v, err := a.Child.Eval(ctx, r)
	if err != nil || v == nil {
		return nil, err
	}
	if w, ok := v.(sql.AnyWrapper); ok { // a large value that is read when it is needed
		if _, json := v.(sql.JSONWrapper); !json {
			if v, err = w.UnwrapAny(ctx); err != nil || v == nil {
				return nil, err
			}
		}
	}
	from := a.Child.Type(ctx)
	if types.IsEnum(from) && !types.IsEnum(a.typ) || types.IsSet(from) && !types.IsSet(a.typ) {
		if types.IsTextOnly(a.typ) || types.IsBinaryType(a.typ) || types.IsJSON(a.typ) {
			if v, _, err = types.ConvertToCollatedString(ctx, v, from); err != nil {
				return nil, err
			}
		}
	}
	c, problem := a.convert(ctx, v, from)
	if problem == nil {
		return c, nil
	}
	if s, ok := ctx.Session.(*Session); ok && !types.IsJSON(a.typ) {
		problem.Message += fmt.Sprintf(" at row %d", s.row)
	}
	if !a.lenient && sql.LoadSqlMode(ctx).Strict() || types.IsJSON(a.typ) {
		return nil, problem
	}
	ctx.Warn(int(problem.Code), "%s", problem.Message)
	return c, nil
}

func (a *assigned) convert(ctx *sql.Context, v any, from sql.Type) (any, *wire.Error) {
	t := a.typ
	switch {
	case types.IsYear(t):
		return a.year(v)
	case types.IsBit(t):
		return a.bit(v, from)
	case types.IsDecimal(t):
		return a.decimal(v, from)
	case types.IsFloat(t):
		return a.float(v, from)
	case types.IsInteger(t):
		return a.integer(v, from)
	case types.IsTime(t):
		return a.moment(ctx, v, from)
	case types.IsTimespan(t):
		return a.time(v)
	case types.IsEnum(t):
		return a.enum(v, from)
	case types.IsSet(t):
		return a.set(v, from)
	case types.IsJSON(t):
		return a.json(v, from)
	case types.IsTextOnly(t):
		return a.text(v, from)
	case types.IsBinaryType(t):
		if _, ok := v.([]byte); !ok {
			return textValue(v, from), nil // the library judges its length
		}
	}
	return v, nil
}

func (a *assigned) outOfRange() *wire.Error {
	return wire.Errorf(1264, "Out of range value for column '%s'", a.column)
}

func (a *assigned) truncated() *wire.Error {
	return wire.Errorf(1265, "Data truncated for column '%s'", a.column)
}

func (a *assigned) tooLong() *wire.Error {
	return wire.Errorf(1406, "Data too long for column '%s'", a.column)
}

func (a *assigned) incorrect(code uint16, kind string, v any) *wire.Error {
	text, ok := v.(string)
	if b, bytes := v.([]byte); bytes {
		text, ok = string(b), true
	}
	if !ok {
		text = textValue(v, nil).(string)
	}
	return wire.Errorf(code, "Incorrect %s value: '%s' for column '%s'", kind, text, a.column)
}

// textValue is a value as MySQL makes a text of it. Bytes stay bytes.
func textValue(v any, from sql.Type) any {
	switch n := v.(type) {
	case string, []byte:
		return n
	case bool:
		if n {
			return "1"
		}
		return "0"
	case float32:
		return floatText(float64(n), true)
	case float64:
		return floatText(n, false)
	case *apd.Decimal:
		return n.Text('f')
	case uint64:
		if types.IsBit(from) {
			b, err := from.SQL(nil, nil, n)
			if err == nil {
				return b.ToBytes()
			}
		}
		return strconv.FormatUint(n, 10)
	case uint:
		return strconv.FormatUint(uint64(n), 10)
	case time.Time:
		m := momentOf(n)
		kind, digits := wire.DateTime, byte(0)
		if d, ok := from.(sql.DatetimeType); ok {
			digits = byte(d.Precision())
			if types.IsDateType(from) {
				kind = wire.Date
			} else if m.Micro == 0 { // a literal without a fraction has the largest precision too
				digits = 0
			}
		}
		return string(m.AppendText(nil, kind, digits))
	case types.Timespan:
		return n.String()
	case int16:
		if types.IsYear(from) && n == 0 {
			return "0000"
		}
	case sql.JSONWrapper:
		return v
	}
	if n, ok := integer(v); ok {
		return strconv.FormatInt(n, 10)
	}
	return v
}

// textOfNumber returns the text of a value that is read as a number. false: the value is a number already.
func (a *assigned) textOfNumber(v any, from sql.Type) (string, bool) {
	switch s := v.(type) {
	case string:
		return s, true
	case []byte:
		if !a.hex {
			return string(s), true
		}
	case sql.JSONWrapper:
		if j, err := types.JsonToMySqlString(sql.NewEmptyContext(), s); err == nil {
			return strings.Trim(j, `"`), true
		}
	}
	return "", false
}

// whole returns a value as an integer. text: it is one, and the number in it has such a problem.
func (a *assigned) whole(v any, from sql.Type, kind string) (w whole, problem *wire.Error) {
	if s, ok := a.textOfNumber(v, from); ok {
		n := readNumber(s)
		switch {
		case n.text == "":
			return w, a.incorrect(1366, kind, v)
		case n.rest:
			problem = a.truncated()
		}
		return wholeOfDecimal(n.decimal()), problem
	}
	switch n := v.(type) {
	case []byte:
		s := n
		for len(s) > 0 && s[0] == 0 {
			s = s[1:]
		}
		if len(s) > 8 {
			return whole{size: math.MaxUint64, over: true}, nil
		}
		for _, c := range s {
			w.size = w.size<<8 | uint64(c)
		}
		return w, nil
	case bool:
		if n {
			w.size = 1
		}
		return w, nil
	case float32:
		return wholeOfFloat(float64(n)), nil
	case float64:
		return wholeOfFloat(n), nil
	case *apd.Decimal:
		return wholeOfDecimal(n), nil
	case uint64:
		return whole{size: n}, nil
	case uint:
		return whole{size: uint64(n)}, nil
	case time.Time:
		return wholeOfDecimal(numberOfMoment(n, from)), nil
	case types.Timespan:
		return wholeOfDecimal(numberOfTime(n)), nil
	}
	if n, ok := integer(v); ok {
		return wholeOfInt(n), nil
	}
	return w, a.incorrect(1366, kind, v)
}

// numberOfMoment is a moment as a number such as 20240229123456.
func numberOfMoment(t time.Time, from sql.Type) *apd.Decimal {
	n := int64(t.Year())*1e4 + int64(t.Month())*100 + int64(t.Day())
	if !types.IsDateType(from) {
		n = n*1e6 + int64(t.Hour())*1e4 + int64(t.Minute())*100 + int64(t.Second())
		if micro := int64(t.Nanosecond() / 1000); micro != 0 {
			return apd.New(n*1e6+micro, -6)
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

func (a *assigned) integer(v any, from sql.Type) (any, *wire.Error) {
	w, problem := a.whole(v, from, "integer")
	bits := bitsOf(a.typ)
	var c any
	in := false
	if types.IsUnsigned(a.typ) {
		c, in = w.unsigned(bits)
	} else {
		c, in = w.signed(bits)
	}
	if !in && problem == nil {
		problem = a.outOfRange()
	}
	return c, problem
}

// bitsOf is how many bits an integer type has.
func bitsOf(t sql.Type) int {
	switch t.Type() {
	case sqltypes.Int8, sqltypes.Uint8:
		return 8
	case sqltypes.Int16, sqltypes.Uint16:
		return 16
	case sqltypes.Int24, sqltypes.Uint24:
		return 24
	case sqltypes.Int32, sqltypes.Uint32:
		return 32
	}
	return 64
}

func (a *assigned) year(v any) (any, *wire.Error) {
	w, problem := a.whole(v, nil, "integer")
	text, isText := a.textOfNumber(v, nil)
	n, in := w.signed(32)
	switch {
	case !in || n < 0 || n >= 100 && n < 1901 || n > 2155:
		if problem == nil {
			problem = a.outOfRange()
		}
		return int16(0), problem
	case n == 0 && (!isText || len(strings.TrimSpace(text)) == 4):
	case n < 100:
		n = int64(century(int(n)))
	}
	return int16(n), problem
}

// bit reads the bytes of a text as a number, as all bytes.
func (a *assigned) bit(v any, from sql.Type) (any, *wire.Error) {
	b, ok := v.([]byte)
	if s, text := v.(string); text {
		b, ok = []byte(s), true
	}
	bits := int(a.typ.(types.BitType).NumberOfBits())
	var w whole
	if ok {
		bytes := assigned{column: a.column, hex: true}
		w, _ = bytes.whole(b, nil, "")
		if w.over {
			return uint64(math.MaxUint64) >> (64 - bits), a.tooLong()
		}
	} else {
		var problem *wire.Error
		if w, problem = a.whole(v, from, "integer"); problem != nil {
			return uint64(0), problem
		}
	}
	switch {
	case w.over:
		return uint64(math.MaxUint64) >> (64 - bits), a.outOfRange()
	case w.negative:
		w.size = -w.size // the bits of the two's complement
	}
	if w.size > uint64(math.MaxUint64)>>(64-bits) {
		return uint64(math.MaxUint64) >> (64 - bits), a.tooLong()
	}
	return w.size, nil
}

func (a *assigned) decimal(v any, from sql.Type) (any, *wire.Error) {
	t := a.typ.(sql.DecimalType)
	var d *apd.Decimal
	var problem *wire.Error
	if s, ok := a.textOfNumber(v, from); ok {
		n := readNumber(s)
		switch {
		case n.text == "":
			return apd.New(0, 0), a.incorrect(1366, "decimal", v)
		case n.rest:
			problem = a.truncated()
		}
		d = n.decimal()
	} else {
		switch n := v.(type) {
		case *apd.Decimal:
			d = n
		case float32:
			d = decimalOf(float64(n))
		case float64:
			d = decimalOf(n)
		case time.Time:
			d = numberOfMoment(n, from)
		case types.Timespan:
			d = numberOfTime(n)
		default:
			w, p := a.whole(v, from, "decimal")
			d, problem = new(apd.Decimal), p
			d.Coeff.SetUint64(w.size)
			d.Negative = w.negative
			if w.over {
				d.Exponent = mostExponent
			}
		}
	}
	precision, scale := int64(t.Precision()), int32(t.Scale())
	rounded := new(apd.Decimal)
	digits := d.NumDigits() + int64(d.Exponent) // before the point
	if d.IsZero() || digits < -int64(scale) {
		rounded.Exponent = -scale
		return rounded, problem
	}
	if digits <= precision {
		if _, err := rounding.Quantize(rounded, d, -scale); err != nil {
			return apd.New(0, -scale), a.outOfRange()
		}
	}
	if digits > precision || rounded.NumDigits() > precision {
		ten := apd.New(1, int32(precision))
		_, _ = rounding.Sub(rounded, ten, apd.New(1, 0)) // integers of at most 65 digits
		rounded.Exponent, rounded.Negative = -scale, d.Negative
		return rounded, a.outOfRange()
	}
	if rounded.IsZero() {
		rounded.Negative = false
	}
	return rounded, problem
}

func (a *assigned) float(v any, from sql.Type) (any, *wire.Error) {
	f, in := 0.0, true
	var problem *wire.Error
	if s, ok := a.textOfNumber(v, from); ok {
		n := readNumber(s)
		switch {
		case n.text == "":
			kind := "double"
			if a.typ == types.Float32 {
				kind = "float"
			}
			return a.single(0), a.incorrect(1366, kind, v)
		case n.rest:
			problem = a.truncated()
		}
		f, in = n.float()
	} else {
		switch n := v.(type) {
		case float32:
			f = float64(n)
		case float64:
			f = n
		case *apd.Decimal:
			f, in = numberRead{text: n.Text('e')}.float()
		case time.Time:
			f, in = numberRead{text: numberOfMoment(n, from).Text('f')}.float()
		case types.Timespan:
			f, in = numberRead{text: numberOfTime(n).Text('f')}.float()
		default:
			w, p := a.whole(v, from, "double")
			problem = p
			if f = float64(w.size); w.negative {
				f = -f
			}
			in = !w.over
		}
	}
	most := math.MaxFloat64
	if a.typ == types.Float32 {
		most = math.MaxFloat32
	}
	if a.typ == types.Float32 && math.Abs(f) > most && float64(float32(f)) != math.Copysign(math.Inf(1), f) {
		f = math.Copysign(most, f) // it is rounded to the largest
	}
	if !in || math.Abs(f) > most || math.IsNaN(f) {
		f = math.Copysign(most, f)
		if problem == nil {
			problem = a.outOfRange()
		}
	}
	return a.single(f), problem
}

func (a *assigned) single(f float64) any {
	if a.typ == types.Float32 {
		return float32(f)
	}
	return f
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

func (a *assigned) enum(v any, from sql.Type) (any, *wire.Error) {
	t := a.typ.(sql.EnumType)
	if types.IsEnum(from) {
		if other, ok := from.(sql.EnumType); ok {
			if n, ok := integer(v); ok {
				if n == 0 {
					return uint16(0), a.truncated()
				}
				s, ok := other.At(int(n))
				if !ok {
					return uint16(0), a.truncated()
				}
				v = s
			}
		}
	}
	if b, ok := v.([]byte); ok && !a.hex {
		v = string(b)
	}
	if s, ok := v.(string); ok {
		if n := t.IndexOf(strings.TrimRight(s, " ")); n > 0 {
			return uint16(n), nil
		}
		n := readNumber(s)
		if i, in := wholeOfDecimal(n.decimal()).unsigned(16); n.text != "" && !n.rest && in && i > 0 && i <= uint64(t.NumberOfElements()) {
			return uint16(i), nil
		}
		return uint16(0), a.truncated()
	}
	i, in := a.place(v, from).unsigned(16)
	if !in || i == 0 || i > uint64(t.NumberOfElements()) {
		return uint16(0), a.truncated()
	}
	return uint16(i), nil
}

// place is a number without what stands behind its point.
func (a *assigned) place(v any, from sql.Type) whole {
	switch n := v.(type) {
	case float32:
		v = math.Trunc(float64(n))
	case float64:
		v = math.Trunc(n)
	case *apd.Decimal:
		if f, err := n.Float64(); err == nil {
			v = math.Trunc(f)
		}
	}
	w, _ := a.whole(v, from, "integer")
	return w
}

func (a *assigned) set(v any, from sql.Type) (any, *wire.Error) {
	t := a.typ.(sql.SetType)
	all := uint64(math.MaxUint64) >> (64 - t.NumberOfElements())
	if types.IsSet(from) {
		if other, ok := from.(sql.SetType); ok {
			if n, ok := v.(uint64); ok {
				if s, err := other.BitsToString(n); err == nil {
					v = s
				}
			}
		}
	}
	if b, ok := v.([]byte); ok && !a.hex {
		v = string(b)
	}
	if s, ok := v.(string); ok {
		bits, problem := uint64(0), (*wire.Error)(nil)
		if s = strings.TrimRight(s, " "); s == "" {
			return bits, nil
		}
		members := t.(types.SetType).Values()
		collation := t.Collation()
		for name := range strings.SplitSeq(s, ",") {
			at := -1
			for i, m := range members {
				if sameText(collation, m, name) {
					at = i
					break
				}
			}
			if at < 0 {
				problem = a.truncated()
				continue
			}
			bits |= 1 << at
		}
		if problem != nil {
			if n, err := strconv.ParseUint(s, 10, 64); err == nil && n&^all == 0 {
				return n, nil
			}
		}
		return bits, problem
	}
	w := a.place(v, from)
	if w.negative && !w.over {
		w.size = -w.size
	}
	if w.over || w.size&^all != 0 {
		return w.size & all, a.truncated()
	}
	return w.size, nil
}

func (a *assigned) json(v any, from sql.Type) (any, *wire.Error) {
	switch s := v.(type) {
	case sql.JSONWrapper:
		return s, nil
	case string:
		j, err := row.ParseJSON(s)
		if err != nil {
			return nil, wire.Errorf(3140, "Invalid JSON text: \"%s\" in value for column '%s'.", err.Error(), a.column)
		}
		return j, nil
	case []byte:
		return nil, wire.Errorf(3144, "Cannot create a JSON value from a string with CHARACTER SET 'binary'.")
	}
	return nil, wire.Errorf(3140, "Invalid JSON text: \"not a JSON text, may need CAST\" at position 0 in value for column '%s'.", a.column)
}

func (a *assigned) text(v any, from sql.Type) (any, *wire.Error) {
	t, ok := a.typ.(sql.StringType)
	if !ok {
		return v, nil
	}
	latin := t.CharacterSet().MaxLength() == 1
	var s string
	switch x := textValue(v, from).(type) {
	case []byte:
		s = string(x)
		if latin {
			decoded, ok := t.CharacterSet().Encoder().Decode(x)
			if !ok {
				return "", a.incorrect(errWrongField, "string", x)
			}
			s = string(decoded)
		}
	case string:
		s = x
		if latin {
			if _, ok := t.CharacterSet().Encoder().Encode([]byte(x)); !ok {
				return string(t.CharacterSet().Encoder().EncodeReplaceUnknown([]byte(x))), a.incorrect(errWrongField, "string", x)
			}
		}
	default:
		return v, nil // of a kind that the library alone knows
	}
	if !utf8.ValidString(s) {
		return strings.ToValidUTF8(s, "?"), a.incorrect(errWrongField, "string", strings.ToValidUTF8(s, "?"))
	}
	if t.Type() == sqltypes.Text {
		if most := int(t.MaxByteLength()); len(s) > most {
			cut := s[:most]
			for !utf8.ValidString(cut) {
				cut = cut[:len(cut)-1]
			}
			return cut, a.tooLong()
		}
		return s, nil
	}
	most := int(t.MaxCharacterLength())
	var problem *wire.Error
	if len(s) > most && utf8.RuneCountInString(s) > most {
		cut, n := len(s), 0
		for i := range s {
			if n == most {
				cut = i
				break
			}
			n++
		}
		if strings.TrimRight(s[cut:], " ") != "" {
			problem = a.tooLong()
		}
		s = s[:cut]
	}
	if t.Type() == sqltypes.Char {
		s = strings.TrimRight(s, " ")
	}
	return s, problem
}

// assigning puts the values that a plan stores behind expressions that convert them.
func (s *Session) assigning(c *sql.Context, st *Statement, n sql.Node) (sql.Node, error) {
	lenient := ignores(st.ast)
	_, first := st.ast.(*sqlparser.Update) // ON DUPLICATE KEY UPDATE counts no row of its own
	n, _, err := transform.NodeExprs(c, n, func(c *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		set, ok := e.(*expression.SetField)
		if !ok {
			return e, transform.SameTree, nil
		}
		field, ok := set.LeftChild.(*expression.GetField)
		if !ok || !storable(set.RightChild) {
			return e, transform.SameTree, nil
		}
		_, literal := set.RightChild.(*expression.Literal)
		a := &assigned{column: field.Name(), typ: field.Type(c), digits: s.timeDigits(field.Table(), field.Name()), lenient: lenient,
			hex: literal && isHex(c, set.RightChild)}
		a.Child, a.first = set.RightChild, first
		first = false
		return expression.NewSetField(set.LeftChild, a), transform.NewTree, nil
	})
	if err != nil {
		return nil, err
	}
	n, _, err = transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		into, ok := n.(*plan.InsertInto)
		if !ok {
			return n, transform.SameTree, nil
		}
		project, ok := into.Source.(*plan.Project)
		schema := into.Destination.Schema(c)
		if !ok || len(project.Projections) != len(schema) {
			return nil, transform.SameTree, refused("INSERT of this kind")
		}
		first := true
		stored := func(i int, e sql.Expression, hex bool) sql.Expression {
			if !storable(e) {
				return e
			}
			a := &assigned{column: schema[i].Name, typ: schema[i].Type, digits: s.timeDigits(schema[i].Source, schema[i].Name), lenient: lenient, hex: hex,
				first: first}
			a.Child, first = e, false
			return a
		}
		values, isValues := project.Child.(*plan.Values)
		column := map[int]int{} // of the table, by the place in VALUES
		all := make([]sql.Expression, len(schema))
		for i, e := range project.Projections {
			field, ok := e.(*expression.GetField)
			if isValues && ok {
				column[field.Index()] = i
				all[i] = e
				continue
			}
			all[i] = stored(i, e, false)
		}
		source, err := project.WithExpressions(c, all...)
		if err != nil {
			return nil, transform.SameTree, err
		}
		if isValues { // the types of the client's own expressions are known here alone
			tuples := make([][]sql.Expression, len(values.ExpressionTuples))
			for n, tuple := range values.ExpressionTuples {
				tuples[n], first = make([]sql.Expression, len(tuple)), true
				for j, e := range tuple {
					tuples[n][j] = e
					if i, ok := column[j]; ok {
						_, literal := e.(*expression.Literal)
						tuples[n][j] = stored(i, e, literal && isHex(c, e))
					}
				}
			}
			changed := *values
			changed.ExpressionTuples = tuples
			source, err = source.WithChildren(c, &changed)
		}
		if err != nil {
			return nil, transform.SameTree, err
		}
		return into.WithSource(source), transform.NewTree, nil
	})
	return n, err
}

// ignores reports whether a statement is an INSERT IGNORE or UPDATE IGNORE.
func ignores(ast sqlparser.Statement) bool {
	switch a := ast.(type) {
	case *sqlparser.Insert:
		return a.Ignore != ""
	case *sqlparser.Update:
		return a.Ignore != ""
	}
	return false
}

// storable reports whether an expression is one of the client's values. The library looks for the others by their Go type.
func storable(e sql.Expression) bool {
	switch e := e.(type) {
	case *sql.ColumnDefaultValue, *expression.AutoIncrement, *assigned, nil:
		return false
	case *expression.Wrapper:
		return storable(e.Unwrap())
	}
	return true
}

// isHex reports whether an expression has the type of literals such as 0x10. Parameters have another one.
func isHex(c *sql.Context, e sql.Expression) bool { return e.Type(c) == types.LongBlob }

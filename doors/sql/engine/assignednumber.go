package engine

import (
	"math"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

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

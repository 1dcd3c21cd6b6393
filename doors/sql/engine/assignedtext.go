package engine

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

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

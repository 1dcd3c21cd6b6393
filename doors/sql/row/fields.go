package row

import (
	"encoding/binary"
	"math"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/internal/tuple"
)

// ValueKind says which Value a column's values are.
type ValueKind byte

// The kinds. Values of Stored columns are handed on as they are stored, and Decode alone makes something of them.
const (
	Stored ValueKind = iota
	Null
	Int
	Uint
	Float
	Text // utf8mb4
)

// Value is a value of a column without the engine's type around it.
type Value struct {
	Kind  ValueKind
	Int   int64
	Uint  uint64
	Bytes []byte // of a Text, and of what is Stored
}

// ValueKind returns the kind of a column's values, where they are not NULL.
func (l *Layout) ValueKind(column int) ValueKind {
	f := &l.fields[column]
	switch f.form {
	case formInt:
		return Int
	case formUint:
		if types.IsInteger(f.typ) { // and no BIT, SET or ENUM
			return Uint
		}
	case formFloat:
		return Float
	case formText:
		if t, ok := f.typ.(sql.StringType); ok && t.CharacterSet() == sql.CharacterSet_utf8mb4 {
			return Text
		}
	}
	return Stored
}

// Fields are the values of one stored row, found without making a Go value of each. They are good as long as the row's bytes are.
type Fields struct {
	l   *Layout
	row []byte
	at  []spot
}

// spot is where a value is in a row.
type spot struct {
	n        uint64 // of a varint
	from, to int    // its bytes, with the length before it
	body     int    // where they begin behind that length
	null     bool
}

// Splits reports whether Split and AppendValues know the rows of the layout. Decode and Append know those of all.
func (l *Layout) Splits() bool { return true }

// Split finds the values of a row. Error: ErrForm.
func (l *Layout) Split(value []byte, into *Fields) error {
	bits := (len(l.fields) + 7) / 8
	if len(value) < 1+bits || value[0] != version {
		return ErrForm
	}
	into.l, into.row = l, value
	if cap(into.at) < len(l.fields) {
		into.at = make([]spot, len(l.fields))
	}
	into.at = into.at[:len(l.fields)]
	nulls, at := value[1:1+bits], 1+bits
	for i := range l.fields {
		p := &into.at[i]
		if nulls[i/8]&(1<<(i%8)) != 0 {
			*p = spot{null: true}
			continue
		}
		*p = spot{from: at}
		b := value[at:]
		size := 0
		switch l.fields[i].form {
		case formFloat:
			size = 8
		case formDecimal:
			if len(b) == 0 {
				return ErrForm
			}
			if size = int(b[0]) - 0x80; size < 0 {
				size = -size
			}
			if size++; size > 1+mostDecimal {
				return ErrForm
			}
		default:
			if p.n, size = binary.Uvarint(b); size <= 0 {
				return ErrForm
			}
			switch l.fields[i].form {
			case formText, formBinary, formJSON:
				if p.n > uint64(len(b)-size) {
					return ErrForm
				}
				p.body = at + size
				size += int(p.n)
			}
		}
		if size > len(b) {
			return ErrForm
		}
		at += size
		p.to = at
	}
	if at != len(value) {
		return ErrForm
	}
	return nil
}

// Forget lets go of the row.
func (f *Fields) Forget() { f.row = nil }

// Null reports whether a value is NULL.
func (f *Fields) Null(column int) bool { return f.at[column].null }

// Int is the value of an Int column.
func (f *Fields) Int(column int) int64 {
	n := f.at[column].n
	return int64(n>>1) ^ -int64(n&1)
}

// Uint is the value of a Uint column.
func (f *Fields) Uint(column int) uint64 { return f.at[column].n }

// Float is the value of a Float column.
func (f *Fields) Float(column int) float64 {
	n := math.Float64frombits(binary.LittleEndian.Uint64(f.row[f.at[column].from:]))
	if f.l.fields[column].width == 32 {
		return float64(float32(n))
	}
	return n
}

// Text is the value of a Text column. It lies in the row.
func (f *Fields) Text(column int) []byte {
	p := &f.at[column]
	return f.row[p.body:p.to]
}

// Value returns a value. Its bytes lie in the row. A Float comes as it is stored.
func (f *Fields) Value(column int) Value {
	if f.at[column].null {
		return Value{Kind: Null}
	}
	switch kind := f.l.ValueKind(column); kind {
	case Int:
		return Value{Kind: kind, Int: f.Int(column)}
	case Uint:
		return Value{Kind: kind, Uint: f.Uint(column)}
	case Text:
		return Value{Kind: kind, Bytes: f.Text(column)}
	}
	return Value{Kind: Stored, Bytes: f.row[f.at[column].from:f.at[column].to]}
}

// AppendValues appends a row, as Append does. What is Stored is of a row of this layout. Error: ErrForm for a row of another length; ErrValue.
func (l *Layout) AppendValues(dst []byte, values []Value) ([]byte, error) {
	if len(values) != len(l.fields) {
		return dst, ErrForm
	}
	dst = append(dst, version)
	nulls := len(dst)
	for range (len(l.fields) + 7) / 8 {
		dst = append(dst, 0)
	}
	for i := range values {
		v := &values[i]
		switch form := l.fields[i].form; {
		case v.Kind == Null:
			dst[nulls+i/8] |= 1 << (i % 8)
		case v.Kind == Stored:
			dst = append(dst, v.Bytes...)
		case v.Kind == Int && form == formInt:
			dst = binary.AppendVarint(dst, v.Int)
		case v.Kind == Uint && form == formUint:
			dst = binary.AppendUvarint(dst, v.Uint)
		case v.Kind == Text && form == formText:
			dst = append(binary.AppendUvarint(dst, uint64(len(v.Bytes))), v.Bytes...)
		default:
			return dst, ErrValue
		}
	}
	return dst, nil
}

// Takes reports whether AppendValue makes keys of a column's values.
func (p *Part) Takes(k ValueKind) bool {
	return k == Int && p.form == formInt || k == Uint && p.form == formUint || k == Text && p.form == formText
}

// AppendValue appends a value as a field of a key, as AppendKey does. The value's kind is one that the part takes, or Null.
func (p *Part) AppendValue(dst []byte, v Value) []byte {
	switch v.Kind {
	case Int:
		return tuple.AppendInt(dst, v.Int)
	case Uint:
		return tuple.AppendUint(dst, v.Uint)
	case Text:
		return p.order.appendKey(dst, string(v.Bytes), p.prefix)
	}
	return tuple.AppendNull(dst)
}

// Spot is where the value of a Text column is in the row: its first byte, and how many there are.
func (f *Fields) Spot(column int) (at, size int) {
	p := &f.at[column]
	return p.body, p.to - p.body
}

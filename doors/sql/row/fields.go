package row

import (
	"encoding/binary"
	"math"
	"math/big"

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
	Text    // utf8mb4
	Decimal // its bytes as they are stored
	Moment  // a DATE, DATETIME or TIMESTAMP
)

// Value is a value of a column without the engine's type around it.
type Value struct {
	Kind  ValueKind
	Int   int64  // of an Int, and of a Moment: microseconds since 1970
	Uint  uint64 // of a Uint, and the bits of a Float that is no column's
	Bytes []byte // of a Text, a Decimal, and of what is Stored
}

// ZeroMicros is the Moment that stands for the date 0000-00-00.
var ZeroMicros = types.ZeroTime.UnixMicro()

// ValueKind returns the kind of a column's values, where they are not NULL.
func (l *Layout) ValueKind(column int) ValueKind { return l.fields[column].kind }

// kindOf returns the kind of a field's values.
func kindOf(f *field) ValueKind {
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
	case formDecimal:
		return Decimal
	case formTime:
		return Moment
	}
	return Stored
}

// Fields are the values of one stored row, found without making a Go value of each. They are good as long as the row's bytes are.
type Fields struct {
	l   *Layout
	row []byte
	at  []spot
}

// spot is where a value is.
type spot struct {
	n     uint64 // of a varint
	value []byte // with the length before it
	body  int    // where it begins behind that length
	from  int    // where value begins in the row; negative: it is not there, because the column came later than the row
	null  bool
}

// Split finds the values of a row. Error: ErrForm.
func (l *Layout) Split(value []byte, into *Fields) error {
	if len(value) == 0 {
		return ErrForm
	}
	into.l, into.row = l, value
	if cap(into.at) < len(l.fields) {
		into.at = make([]spot, len(l.fields))
	}
	into.at = into.at[:len(l.fields)]
	if l.places != nil {
		return l.splitPlaced(value, into)
	}
	bits := (len(l.fields) + 7) / 8
	if len(value) < 1+bits || value[0] != version {
		return ErrForm
	}
	nulls, at := value[1:1+bits], 1+bits
	for i := range l.fields {
		if nulls[i/8]&(1<<(i%8)) != 0 {
			into.at[i] = spot{null: true}
			continue
		}
		size, err := l.fields[i].find(value, at, &into.at[i])
		if err != nil {
			return err
		}
		at += size
	}
	if at != len(value) {
		return ErrForm
	}
	return nil
}

// splitPlaced is Split of a layout with places.
func (l *Layout) splitPlaced(value []byte, into *Fields) error {
	n, at := l.first, 1
	switch value[0] {
	case version:
	case placedVersion:
		count, size := binary.Uvarint(value[1:])
		if size <= 0 || count > uint64(len(l.places)) {
			return ErrForm
		}
		n, at = int(count), 1+size
	default:
		return ErrForm
	}
	bits := (n + 7) / 8
	if len(value)-at < bits {
		return ErrForm
	}
	nulls := value[at : at+bits]
	at += bits
	for i := range l.places {
		p := &l.places[i]
		switch {
		case i >= n && p.column < 0:
		case i >= n && p.initial == nil, i < n && p.column >= 0 && nulls[i/8]&(1<<(i%8)) != 0:
			into.at[p.column] = spot{null: true}
		case i >= n:
			if _, err := l.fields[p.column].find(p.initial, 0, &into.at[p.column]); err != nil {
				return err
			}
			into.at[p.column].from = -1
		case nulls[i/8]&(1<<(i%8)) != 0:
		case p.column < 0:
			rest, err := pass(p.kind, value[at:])
			if err != nil {
				return err
			}
			at = len(value) - len(rest)
		default:
			size, err := l.fields[p.column].find(value, at, &into.at[p.column])
			if err != nil {
				return err
			}
			at += size
		}
	}
	if at != len(value) {
		return ErrForm
	}
	return nil
}

// find finds the value that begins at a place of some bytes, and returns how many it takes.
func (f *field) find(value []byte, at int, p *spot) (size int, err error) {
	b := value[at:]
	*p = spot{from: at}
	switch f.form {
	case formFloat:
		size = 8
	case formDecimal:
		if size = decimalBytes(b); size == 0 {
			return 0, ErrForm
		}
	default:
		if p.n, size = binary.Uvarint(b); size <= 0 {
			return 0, ErrForm
		}
		switch f.form {
		case formText, formBinary, formJSON:
			if p.n > uint64(len(b)-size) {
				return 0, ErrForm
			}
			p.body = size
			size += int(p.n)
		}
	}
	if size > len(b) {
		return 0, ErrForm
	}
	p.value = b[:size]
	return size, nil
}

// Forget lets go of the row.
func (f *Fields) Forget() {
	f.row = nil
	clear(f.at)
}

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
	n := math.Float64frombits(binary.LittleEndian.Uint64(f.at[column].value))
	if f.l.fields[column].width == 32 {
		return float64(float32(n))
	}
	return n
}

// Text is the value of a Text column.
func (f *Fields) Text(column int) []byte {
	p := &f.at[column]
	return p.value[p.body:]
}

// Value returns a value. A Float comes as it is stored.
func (f *Fields) Value(column int) Value {
	if f.at[column].null {
		return Value{Kind: Null}
	}
	switch kind := f.l.fields[column].kind; kind {
	case Int, Moment:
		return Value{Kind: kind, Int: f.Int(column)}
	case Uint:
		return Value{Kind: kind, Uint: f.Uint(column)}
	case Text:
		return Value{Kind: kind, Bytes: f.Text(column)}
	case Decimal:
		return Value{Kind: kind, Bytes: f.at[column].value}
	}
	return Value{Kind: Stored, Bytes: f.at[column].value}
}

// Raw returns a value as it is stored, for AppendValues of the same layout.
func (f *Fields) Raw(column int) Value {
	if f.at[column].null {
		return Value{Kind: Null}
	}
	return Value{Kind: Stored, Bytes: f.at[column].value}
}

// Micros is the value of a Moment column, in microseconds since 1970.
func (f *Fields) Micros(column int) int64 { return f.Int(column) }

// Scaled is the value of a Decimal column as an integer in units of its last digit. ok false: it has more than 18 digits.
func (f *Fields) Scaled(column int) (n int64, ok bool) { return ScaledIn(f.at[column].value) }

// LargeScaled is Scaled of any value.
func (f *Fields) LargeScaled(column int) *big.Int {
	stored := f.at[column].value
	flip := byte(0)
	if stored[0] < 0x80 {
		flip = 0xff
	}
	digits := make([]byte, len(stored)-1)
	for i, c := range stored[1:] {
		digits[i] = c ^ flip
	}
	n := new(big.Int).SetBytes(digits)
	if flip != 0 {
		n.Neg(n)
	}
	return n
}

// AppendScaled appends an integer in units of the last digit of a Decimal column as a decimal.
func (l *Layout) AppendScaled(dst []byte, column int, n *big.Int) []byte {
	if n.Sign() < 0 {
		dst = append(dst, '-')
		n = new(big.Int).Neg(n)
	}
	return pointed(dst, n.Append(nil, 10), int(scale(l.fields[column].typ)))
}

// AppendDecimal appends the value of a Decimal column as its digits, with as many behind the point as the column has.
func (f *Fields) AppendDecimal(dst []byte, column int) []byte {
	return appendDigits(dst, f.at[column].value, int(scale(f.l.fields[column].typ)))
}

// AppendValues appends a row, as Append does. What is Stored is of a row of this layout. Error: ErrForm for a row of another length; ErrValue.
func (l *Layout) AppendValues(dst []byte, values []Value) ([]byte, error) {
	if len(values) != len(l.fields) {
		return dst, ErrForm
	}
	if l.places == nil {
		dst = append(dst, version)
		nulls := len(dst)
		for range (len(l.fields) + 7) / 8 {
			dst = append(dst, 0)
		}
		for i := range values {
			var err error
			if dst, err = l.fields[i].appendValue(dst, nulls, i, &values[i]); err != nil {
				return dst, err
			}
		}
		return dst, nil
	}
	dst = binary.AppendUvarint(append(dst, placedVersion), uint64(len(l.places)))
	nulls := len(dst)
	for range (len(l.places) + 7) / 8 {
		dst = append(dst, 0)
	}
	for i := range l.places {
		c := l.places[i].column
		if c < 0 {
			dst[nulls+i/8] |= 1 << (i % 8)
			continue
		}
		var err error
		if dst, err = l.fields[c].appendValue(dst, nulls, i, &values[c]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendValue appends a value, or has the bit of place i say that it is NULL.
func (f *field) appendValue(dst []byte, nulls, i int, v *Value) ([]byte, error) {
	switch {
	case v.Kind == Null:
		dst[nulls+i/8] |= 1 << (i % 8)
	case v.Kind == Stored, v.Kind == Decimal && f.form == formDecimal:
		dst = append(dst, v.Bytes...)
	case v.Kind == Int && f.form == formInt, v.Kind == Moment && f.form == formTime:
		dst = binary.AppendVarint(dst, v.Int)
	case v.Kind == Uint && f.form == formUint:
		dst = binary.AppendUvarint(dst, v.Uint)
	case v.Kind == Text && f.form == formText:
		dst = append(binary.AppendUvarint(dst, uint64(len(v.Bytes))), v.Bytes...)
	default:
		return dst, ErrValue
	}
	return dst, nil
}

// Takes reports whether AppendValue makes keys of a column's values.
func (p *Part) Takes(k ValueKind) bool {
	switch k {
	case Int:
		return p.form == formInt
	case Uint:
		return p.form == formUint
	case Text:
		return p.form == formText
	case Decimal:
		return p.form == formDecimal
	case Moment:
		return p.form == formTime
	}
	return false
}

// AppendValue appends a value as a field of a key, as AppendKey does. The value's kind is one that the part takes, or Null.
func (p *Part) AppendValue(dst []byte, v Value) []byte {
	switch v.Kind {
	case Int, Moment:
		return tuple.AppendInt(dst, v.Int)
	case Uint:
		return tuple.AppendUint(dst, v.Uint)
	case Text:
		return p.order.appendKey(dst, string(v.Bytes), p.prefix)
	case Decimal:
		return tuple.AppendBytes(dst, v.Bytes)
	}
	return tuple.AppendNull(dst)
}

// Spot is where the value of a Text column is in the row: its first byte, and how many there are. false: it is not in the row.
func (f *Fields) Spot(column int) (at, size int, ok bool) {
	p := &f.at[column]
	return p.from + p.body, len(p.value) - p.body, p.from >= 0
}

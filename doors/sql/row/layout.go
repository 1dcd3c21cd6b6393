package row

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// version is the first byte of a row that has the first places of its table, and placedVersion that of one that says how many it has.
const (
	version       = 1
	placedVersion = 2
)

var (
	// ErrType: the package stores no values of this type.
	ErrType = errors.New("values of this type cannot be stored")
	// ErrForm: the bytes are no row of this layout.
	ErrForm = errors.New("stored row is damaged, or was written under another definition")
	// ErrValue: the Go value is not one of its column's type.
	ErrValue = errors.New("value does not fit its column's type")
)

// form says how a value is written.
type form byte

const (
	formInt      form = 1 + iota // varint
	formUint                     // varint
	formFloat                    // 8 bytes
	formDecimal                  // as in keys
	formText                     // string, length before it
	formBinary                   // []byte, length before it
	formTime                     // varint, microseconds since 1970
	formDuration                 // varint, microseconds
	formYear                     // varint
	formJSON                     // text
)

// field is a column of a Layout.
type field struct {
	form form
	kind ValueKind
	typ  sql.Type
	// width is the Go type's bits: an engine that expects an int32 gets no int64.
	width byte
	// digits are those behind the point of a TIME.
	digits int
}

// Layout has the columns of a table in their order. It never changes, and any goroutine may use it.
type Layout struct {
	fields []field
	// places are those of a stored row, in their order. Nil: a row has its columns in the order of fields, and nothing else.
	places []place
	first  int // places of a row of the first version
}

// NewLayout returns the layout of columns of these types. digits tells those behind the point of a TIME by the column's place; nil: none has any.
// Error: ErrType.
func NewLayout(columns []sql.Type, digits func(int) int) (*Layout, error) {
	l := &Layout{fields: make([]field, len(columns))}
	for i, t := range columns {
		n := 0
		if digits != nil {
			n = digits(i)
		}
		f, err := newField(t, n)
		if err != nil {
			return nil, err
		}
		l.fields[i] = f
	}
	return l, nil
}

// newField decides how values of a type are written. Error: ErrType.
func newField(t sql.Type, digits int) (field, error) {
	f := field{typ: t, digits: digits}
	if err := f.decide(t); err != nil {
		return f, err
	}
	f.kind = kindOf(&f)
	return f, nil
}

func (f *field) decide(t sql.Type) error {
	switch {
	case types.IsGeometry(t):
		return fmt.Errorf("%w: %s", ErrType, t)
	case types.IsDecimal(t):
		f.form = formDecimal
	case types.IsFloat(t):
		f.form, f.width = formFloat, 64
		if t == types.Float32 {
			f.width = 32
		}
	case types.IsYear(t):
		f.form = formYear
	case types.IsInteger(t):
		f.form = formInt
		if types.IsUnsigned(t) {
			f.form = formUint
		}
		switch t {
		case types.Int8, types.Uint8, types.Boolean:
			f.width = 8
		case types.Int16, types.Uint16:
			f.width = 16
		case types.Int24, types.Uint24, types.Int32, types.Uint32:
			f.width = 32
		default:
			f.width = 64
		}
	case types.IsBit(t), types.IsSet(t):
		f.form, f.width = formUint, 64
	case types.IsEnum(t):
		f.form, f.width = formUint, 16
	case types.IsTime(t): // dates too
		f.form = formTime
	case types.IsTimespan(t):
		f.form = formDuration
	case types.IsJSON(t):
		f.form = formJSON
	case types.IsTextOnly(t):
		f.form = formText
	case types.IsTextBlob(t), types.IsBinaryType(t):
		f.form = formBinary
	default:
		return fmt.Errorf("%w: %s", ErrType, t)
	}
	return nil
}

// Append appends a row. Errors: ErrForm for a row of another length, ErrValue.
func (l *Layout) Append(ctx *sql.Context, dst []byte, values sql.Row) ([]byte, error) {
	if len(values) != len(l.fields) {
		return dst, fmt.Errorf("%w: %d values of %d", ErrForm, len(values), len(l.fields))
	}
	if l.places != nil {
		return l.appendPlaced(ctx, dst, values)
	}
	dst = append(dst, version)
	nulls := len(dst)
	for range (len(l.fields) + 7) / 8 {
		dst = append(dst, 0)
	}
	for i := range l.fields {
		if values[i] == nil {
			dst[nulls+i/8] |= 1 << (i % 8)
			continue
		}
		var err error
		if dst, err = l.fields[i].append(ctx, dst, values[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (f *field) append(ctx *sql.Context, dst []byte, v any) ([]byte, error) {
	v, err := plain(ctx, v)
	if err != nil {
		return dst, err
	}
	switch f.form {
	case formInt, formYear:
		n, ok := signed(v)
		if !ok {
			return dst, f.wrong(v)
		}
		return binary.AppendVarint(dst, n), nil
	case formUint:
		n, ok := unsigned(v)
		if !ok {
			return dst, f.wrong(v)
		}
		return binary.AppendUvarint(dst, n), nil
	case formFloat:
		n, ok := float(v)
		if !ok {
			return dst, f.wrong(v)
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(n)), nil
	case formDecimal:
		d, ok := v.(*apd.Decimal)
		if !ok {
			return dst, f.wrong(v)
		}
		return appendDecimal(dst, d, scale(f.typ))
	case formTime:
		t, ok := v.(time.Time)
		if !ok {
			return dst, f.wrong(v)
		}
		return binary.AppendVarint(dst, t.UnixMicro()), nil
	case formDuration:
		t, ok := v.(types.Timespan)
		if !ok {
			return dst, f.wrong(v)
		}
		return binary.AppendVarint(dst, f.rounded(t)), nil
	case formJSON:
		j, ok := v.(sql.JSONWrapper)
		if !ok {
			return dst, f.wrong(v)
		}
		text, err := types.JsonToMySqlString(ctx, j)
		if err != nil {
			return dst, err
		}
		return append(binary.AppendUvarint(dst, uint64(len(text))), text...), nil
	}
	switch s := v.(type) {
	case string:
		return append(binary.AppendUvarint(dst, uint64(len(s))), s...), nil
	case []byte:
		return append(binary.AppendUvarint(dst, uint64(len(s))), s...), nil
	}
	return dst, f.wrong(v)
}

func (f *field) wrong(v any) error { return fmt.Errorf("%w: %T for %s", ErrValue, v, f.typ) }

// plain takes a value out of the engine's wrapper for large ones.
func plain(ctx *sql.Context, v any) (any, error) {
	if w, ok := v.(sql.AnyWrapper); ok {
		if _, json := v.(sql.JSONWrapper); !json {
			return w.UnwrapAny(ctx)
		}
	}
	return v, nil
}

// Decode decodes a row. It has room for more values behind those of the columns. Texts are copied out of value. Error: ErrForm.
func (l *Layout) Decode(value []byte, more int) (sql.Row, error) {
	if l.places != nil {
		return l.decodePlaced(value, more)
	}
	bits := (len(l.fields) + 7) / 8
	if len(value) < 1+bits || value[0] != version {
		return nil, ErrForm
	}
	nulls, b := value[1:1+bits], value[1+bits:]
	r := make(sql.Row, len(l.fields), len(l.fields)+more)
	for i := range l.fields {
		if nulls[i/8]&(1<<(i%8)) != 0 {
			continue
		}
		var err error
		if r[i], b, err = l.fields[i].decode(b); err != nil {
			return nil, err
		}
	}
	if len(b) != 0 {
		return nil, ErrForm
	}
	return r, nil
}

func (f *field) decode(b []byte) (v any, rest []byte, err error) {
	switch f.form {
	case formInt, formYear, formTime, formDuration:
		n, size := binary.Varint(b)
		if size <= 0 {
			return nil, nil, ErrForm
		}
		return f.fromInt(n), b[size:], nil
	case formUint:
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, nil, ErrForm
		}
		return f.fromUint(n), b[size:], nil
	case formFloat:
		if len(b) < 8 {
			return nil, nil, ErrForm
		}
		n := math.Float64frombits(binary.LittleEndian.Uint64(b))
		if f.width == 32 {
			return float32(n), b[8:], nil
		}
		return n, b[8:], nil
	case formDecimal:
		return decodeDecimal(b, scale(f.typ))
	}
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, ErrForm
	}
	body, rest := b[size:size+int(n)], b[size+int(n):]
	switch f.form {
	case formBinary:
		return append([]byte{}, body...), rest, nil
	case formJSON:
		j, err := ParseJSON(string(body))
		if err != nil {
			return nil, nil, ErrForm
		}
		return j, rest, nil
	}
	return string(body), rest, nil
}

func (f *field) fromInt(n int64) any {
	switch {
	case f.form == formTime:
		return time.UnixMicro(n).UTC()
	case f.form == formDuration:
		return types.Timespan(n)
	case f.form == formYear:
		return int16(n)
	case f.width == 8:
		return int8(n)
	case f.width == 16:
		return int16(n)
	case f.width == 32:
		return int32(n)
	}
	return n
}

func (f *field) fromUint(n uint64) any {
	switch f.width {
	case 8:
		return uint8(n)
	case 16:
		return uint16(n)
	case 32:
		return uint32(n)
	}
	return n
}

func signed(v any) (int64, bool) {
	switch n := v.(type) {
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case int:
		return int64(n), true
	case bool:
		if n {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func unsigned(v any) (uint64, bool) {
	switch n := v.(type) {
	case uint8:
		return uint64(n), true
	case uint16:
		return uint64(n), true
	case uint32:
		return uint64(n), true
	case uint64:
		return n, true
	case uint:
		return uint64(n), true
	}
	n, ok := signed(v)
	return uint64(n), ok && n >= 0
}

func float(v any) (float64, bool) {
	switch n := v.(type) {
	case float32:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// rounded rounds a duration to the digits of its column, which the engine's type does not know. Halves are rounded away from zero, as MySQL does.
func (f *field) rounded(t types.Timespan) int64 {
	unit := int64(1_000_000)
	for range f.digits {
		unit /= 10
	}
	n := int64(t)
	switch rest := n % unit; {
	case 2*rest >= unit:
		return n - rest + unit
	case 2*rest <= -unit:
		return n - rest - unit
	default:
		return n - rest
	}
}

// scale is the number of digits behind a decimal's point.
func scale(t sql.Type) int32 { return int32(t.(sql.DecimalType).Scale()) }

// mostDecimal is how many bytes the digits of a decimal take at most.
const mostDecimal = 63

// appendDecimal appends a decimal so that the bytes sort as the numbers: a byte that says sign and length, then the digits as an integer of the
// column's scale, turned around for negative ones.
func appendDecimal(dst []byte, d *apd.Decimal, scale int32) ([]byte, error) {
	if d.Form != apd.Finite {
		return dst, ErrValue
	}
	n := new(big.Int).Set(d.Coeff.MathBigInt())
	switch move := d.Exponent + scale; {
	case move > 0:
		n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(move)), nil))
	case move < 0:
		rest := new(big.Int)
		n.QuoRem(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-move)), nil), rest)
		if rest.Sign() != 0 {
			return dst, fmt.Errorf("%w: %s has more digits than its column", ErrValue, d)
		}
	}
	b := n.Bytes()
	if len(b) > mostDecimal {
		return dst, ErrValue
	}
	if d.Negative && len(b) > 0 {
		dst = append(dst, byte(0x80-len(b)))
		for _, c := range b {
			dst = append(dst, ^c)
		}
		return dst, nil
	}
	return append(append(dst, byte(0x80+len(b))), b...), nil
}

// decimalBytes is how many bytes the decimal takes with which some bytes begin. 0: they begin with none.
func decimalBytes(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	n := int(b[0]) - 0x80
	if n < 0 {
		n = -n
	}
	if n > mostDecimal || len(b) < 1+n {
		return 0
	}
	return 1 + n
}

func decodeDecimal(b []byte, scale int32) (v any, rest []byte, err error) {
	size := decimalBytes(b)
	if size == 0 {
		return nil, nil, ErrForm
	}
	n, flip := size-1, byte(0)
	if b[0] < 0x80 {
		flip = 0xff
	}
	digits := make([]byte, n)
	for i, c := range b[1:size] {
		digits[i] = c ^ flip
	}
	if n > 0 && digits[0] == 0 {
		return nil, nil, ErrForm
	}
	d := &apd.Decimal{Negative: flip != 0, Exponent: -scale}
	d.Coeff.SetMathBigInt(new(big.Int).SetBytes(digits))
	return d, b[size:], nil
}

// DecimalValue is a stored decimal as a number. Error: ErrForm.
func (l *Layout) DecimalValue(column int, stored []byte) (*apd.Decimal, error) {
	v, rest, err := decodeDecimal(stored, scale(l.fields[column].typ))
	if err != nil || len(rest) != 0 {
		return nil, ErrForm
	}
	return v.(*apd.Decimal), nil
}

// Store returns a value of the column's own Go type as a Value. Error: ErrValue.
func (l *Layout) Store(column int, v any) (Value, error) {
	f := &l.fields[column]
	switch x := v.(type) {
	case *apd.Decimal:
		if f.form == formDecimal {
			b, err := appendDecimal(nil, x, scale(f.typ))
			return Value{Kind: Decimal, Bytes: b}, err
		}
	case time.Time:
		if f.form == formTime {
			return Value{Kind: Moment, Int: x.UnixMicro()}, nil
		}
	}
	return Value{}, f.wrong(v)
}

// mostFast is how many digits the integers have that ScaledOf works with: a sum of two of them is an int64.
const mostFast = 18

var powersOfTen = func() (all [mostFast + 1]int64) {
	all[0] = 1
	for i := 1; i < len(all); i++ {
		all[i] = 10 * all[i-1]
	}
	return all
}()

// ScaledOf is an approximate number as an integer in units of the last digit of a decimal with so many digits behind its point. Halves are rounded away from
// zero. What is rounded are the fewest digits that are read back as the same number. ok false: it has too many digits.
func ScaledOf(v float64, scale int) (n int64, ok bool) {
	var room [32]byte
	text := strconv.AppendFloat(room[:0], v, 'e', -1, 64)
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	exponent, at := 0, 0
	for ; at < len(text) && text[at] != 'e'; at++ {
		switch c := text[at]; {
		case c >= '0' && c <= '9':
			if n = n*10 + int64(c-'0'); at > 0 {
				exponent--
			}
		case c != '.': // no finite number
			return 0, false
		}
	}
	if at == len(text) {
		return 0, false
	}
	e, err := strconv.Atoi(string(text[at+1:]))
	if err != nil {
		return 0, false
	}
	switch move := exponent + e + scale; {
	case move >= 0:
		if move > mostFast || n > (powersOfTen[mostFast]-1)/powersOfTen[move] {
			return 0, n == 0
		}
		n *= powersOfTen[move]
	case move < -mostFast:
		n = 0
	default:
		unit := powersOfTen[-move]
		rest := n % unit
		if n /= unit; rest >= unit-rest {
			n++
		}
	}
	if n >= powersOfTen[mostFast] {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// StoredScaled is an integer in units of a decimal's last digit as it is stored. ok false: it has more digits than the decimal.
func StoredScaled(n int64, precision int) (stored []byte, ok bool) {
	u, negative := uint64(n), n < 0
	if negative {
		u = -u
	}
	if precision < mostFast && u >= uint64(powersOfTen[precision]) {
		return nil, false
	}
	size := (bits.Len64(u) + 7) / 8
	stored = make([]byte, 1+size)
	stored[0] = byte(0x80 + size)
	for i := size; i > 0; i-- {
		stored[i] = byte(u)
		u >>= 8
	}
	if negative {
		stored[0] = byte(0x80 - size)
		for i := range stored[1:] {
			stored[1+i] ^= 0xff
		}
	}
	return stored, true
}

// ScaledIn is a stored decimal as an integer in units of its last digit. ok false: it has more than 18 digits.
func ScaledIn(stored []byte) (n int64, ok bool) {
	size, flip := int(stored[0])-0x80, byte(0)
	if size < 0 {
		size, flip = -size, 0xff
	}
	if size > 8 {
		return 0, false
	}
	var u uint64
	for _, c := range stored[1 : 1+size] {
		u = u<<8 | uint64(c^flip)
	}
	if u >= uint64(powersOfTen[mostFast]) {
		return 0, false
	}
	if n = int64(u); flip != 0 {
		n = -n
	}
	return n, true
}

// UnitsOf is an integer in units of the last digit of a decimal. ok false: it has too many digits.
func UnitsOf(n int64, scale int) (units int64, ok bool) {
	if scale > mostFast || n > (powersOfTen[mostFast]-1)/powersOfTen[scale] || n < -(powersOfTen[mostFast]-1)/powersOfTen[scale] {
		return 0, false
	}
	return n * powersOfTen[scale], true
}

// mostExact is the largest integer up to which a DOUBLE has every one.
const mostExact = 1 << 53

// FloatOf is an integer in units of a decimal's last digit as the DOUBLE that is nearest. ok false: it has too many digits.
func FloatOf(n int64, scale int) (f float64, ok bool) {
	if n > mostExact || n < -mostExact || scale > mostFast {
		return 0, false
	}
	return float64(n) / float64(powersOfTen[scale]), true // both are exact, so the quotient is the nearest
}

// appendDigits appends the digits of a stored decimal, which has at least one before its point.
func appendDigits(dst, stored []byte, scale int) []byte {
	n, negative := int(stored[0])-0x80, false
	if n < 0 {
		n, negative = -n, true
	}
	if negative {
		dst = append(dst, '-')
	}
	if n > 8 {
		d, _, err := decodeDecimal(stored, int32(scale))
		if err != nil { // find has judged its form, but for zeros before the first digit
			return dst
		}
		whole := d.(*apd.Decimal)
		text := whole.Coeff.MathBigInt().Append(nil, 10)
		return pointed(dst, text, scale)
	}
	var u uint64
	for _, c := range stored[1 : 1+n] {
		if negative {
			c = ^c
		}
		u = u<<8 | uint64(c)
	}
	var room [20]byte
	return pointed(dst, strconv.AppendUint(room[:0], u, 10), scale)
}

// pointed appends digits with a point before the last so many.
func pointed(dst, digits []byte, scale int) []byte {
	if scale == 0 {
		return append(dst, digits...)
	}
	if before := len(digits) - scale; before > 0 {
		dst = append(append(dst, digits[:before]...), '.')
		return append(dst, digits[before:]...)
	}
	dst = append(dst, '0', '.')
	for range scale - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

package typetest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Types of the protocol.
const (
	typeTiny, typeShort, typeLong, typeFloat, typeDouble   = 0x01, 0x02, 0x03, 0x04, 0x05
	typeNull, typeTimestamp, typeLongLong, typeInt24       = 0x06, 0x07, 0x08, 0x09
	typeDate, typeTime, typeDateTime, typeYear, typeString = 0x0a, 0x0b, 0x0c, 0x0d, 0xfe
	typeDecimal, typeBlob                                  = 0xf6, 0xfc

	unsignedParam = 0x8000
)

// fields reads the parts of a packet. The first part that is not there makes it bad.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) take(n int) []byte {
	if n < 0 || n > len(f.b) {
		f.bad = true
		return make([]byte, 8)
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) byte() byte     { return f.take(1)[0] }
func (f *fields) uint16() uint16 { return binary.LittleEndian.Uint16(f.take(2)) }
func (f *fields) uint32() uint32 { return binary.LittleEndian.Uint32(f.take(4)) }
func (f *fields) uint64() uint64 { return binary.LittleEndian.Uint64(f.take(8)) }

// number reads a packed number.
func (f *fields) number() uint64 {
	switch c := f.byte(); c {
	case 0xfc:
		return uint64(f.uint16())
	case 0xfd:
		b := f.take(3)
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16
	case 0xfe:
		return f.uint64()
	default:
		return uint64(c)
	}
}

func (f *fields) text() string {
	n := f.number()
	if n > uint64(len(f.b)) {
		f.bad = true
		return ""
	}
	return string(f.take(int(n)))
}

// textRow reads a row of the text protocol.
func (f *fields) textRow(columns []column) ([]*string, error) {
	r := make([]*string, len(columns))
	for i := range r {
		if len(f.b) > 0 && f.b[0] == 0xfb {
			f.take(1)
			continue
		}
		s := f.text()
		r[i] = &s
	}
	if f.bad || len(f.b) > 0 {
		return nil, errForm
	}
	return r, nil
}

// binaryRow reads a row of the binary protocol.
func (f *fields) binaryRow(columns []column) ([]*string, error) {
	f.take(1)
	nulls := f.take((len(columns) + 9) / 8)
	r := make([]*string, len(columns))
	for i := range r {
		if nulls[(i+2)/8]&(1<<((i+2)%8)) != 0 {
			continue
		}
		s := f.value(columns[i])
		r[i] = &s
	}
	if f.bad || len(f.b) > 0 {
		return nil, errForm
	}
	return r, nil
}

func (f *fields) value(c column) string {
	integer := func(signed int64, plain uint64) string {
		if c.unsigned {
			return strconv.FormatUint(plain, 10)
		}
		return strconv.FormatInt(signed, 10)
	}
	switch c.kind {
	case typeTiny:
		v := f.byte()
		return integer(int64(int8(v)), uint64(v))
	case typeShort, typeYear:
		v := f.uint16()
		return integer(int64(int16(v)), uint64(v))
	case typeLong, typeInt24:
		v := f.uint32()
		return integer(int64(int32(v)), uint64(v))
	case typeLongLong:
		v := f.uint64()
		return integer(int64(v), v)
	case typeFloat:
		return strconv.FormatFloat(float64(math.Float32frombits(f.uint32())), 'g', -1, 32)
	case typeDouble:
		return strconv.FormatFloat(math.Float64frombits(f.uint64()), 'g', -1, 64)
	case typeDate, typeDateTime, typeTimestamp:
		return f.date(c.kind == typeDate)
	case typeTime:
		return f.time()
	}
	return f.text()
}

// date reads a date, with its time of day unless the column has none. Parts that the packet leaves out are 0.
func (f *fields) date(only bool) string {
	v := fields{b: append(append([]byte{}, f.take(int(f.byte()))...), make([]byte, 11)...)}
	s := fmt.Sprintf("%04d-%02d-%02d", v.uint16(), v.byte(), v.byte())
	if only {
		return s
	}
	return s + fmt.Sprintf(" %02d:%02d:%02d.%06d", v.byte(), v.byte(), v.byte(), v.uint32())
}

func (f *fields) time() string {
	v := fields{b: append(append([]byte{}, f.take(int(f.byte()))...), make([]byte, 12)...)}
	sign := ""
	if v.byte() != 0 {
		sign = "-"
	}
	days := v.uint32()
	return sign + fmt.Sprintf("%02d:%02d:%02d.%06d", days*24+uint32(v.byte()), v.byte(), v.byte(), v.uint32())
}

// param is a parameter with the type that the client says it has.
type param struct {
	kind uint16
	body []byte
}

// idParam is a row's number as a parameter.
func idParam(n int) param {
	return param{typeLongLong, binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

// parseParam reads a parameter as a case has it: its type, a blank, its value.
func parseParam(text string) (p param, err error) {
	kind, value, _ := strings.Cut(text, " ")
	if len(value) > 1 && value[0] == '\'' { // blanks at the end would be lost without quotes
		value = value[1 : len(value)-1]
	}
	counted := func(b []byte) []byte {
		if len(b) > 250 {
			return append([]byte{0xfc, byte(len(b)), byte(len(b) >> 8)}, b...)
		}
		return append([]byte{byte(len(b))}, b...)
	}
	var n int64
	var u uint64
	var v float64
	switch kind {
	case "null":
		return param{kind: typeNull}, nil
	case "tiny":
		n, err = strconv.ParseInt(value, 10, 8)
		return param{typeTiny, []byte{byte(n)}}, err
	case "int":
		n, err = strconv.ParseInt(value, 10, 64)
		return param{typeLongLong, binary.LittleEndian.AppendUint64(nil, uint64(n))}, err
	case "uint":
		u, err = strconv.ParseUint(value, 10, 64)
		return param{typeLongLong | unsignedParam, binary.LittleEndian.AppendUint64(nil, u)}, err
	case "float":
		v, err = strconv.ParseFloat(value, 32)
		return param{typeFloat, binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v)))}, err
	case "double":
		v, err = strconv.ParseFloat(value, 64)
		return param{typeDouble, binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))}, err
	case "decimal":
		return param{typeDecimal, counted([]byte(value))}, nil
	case "text":
		return param{typeString, counted([]byte(value))}, nil
	case "blob":
		b, err := hex.DecodeString(value)
		return param{typeBlob, counted(b)}, err
	case "date", "datetime":
		var year uint16
		var month, day, hour, minute, second byte
		var micro uint32
		if kind == "date" {
			_, err = fmt.Sscanf(value, "%d-%d-%d", &year, &month, &day)
			return param{typeDate, append(binary.LittleEndian.AppendUint16([]byte{4}, year), month, day)}, err
		}
		_, err = fmt.Sscanf(value, "%d-%d-%d %d:%d:%d.%06d", &year, &month, &day, &hour, &minute, &second, &micro)
		b := append(binary.LittleEndian.AppendUint16([]byte{11}, year), month, day, hour, minute, second)
		return param{typeDateTime, binary.LittleEndian.AppendUint32(b, micro)}, err
	case "time":
		var days, micro uint32
		var hour, minute, second, negative byte
		if value, negative = strings.TrimPrefix(value, "-"), 0; len(value) < len(text)-len("time ") {
			negative = 1
		}
		_, err = fmt.Sscanf(value, "%d %d:%d:%d.%06d", &days, &hour, &minute, &second, &micro)
		b := append(binary.LittleEndian.AppendUint32([]byte{12, negative}, days), hour, minute, second)
		return param{typeTime, binary.LittleEndian.AppendUint32(b, micro)}, err
	}
	return p, fmt.Errorf("unknown kind of parameter %q", kind)
}

// appendParams appends the parameters of COM_STMT_EXECUTE, with their types.
func appendParams(b []byte, params []param) []byte {
	nulls := make([]byte, (len(params)+7)/8)
	for i, p := range params {
		if p.kind == typeNull {
			nulls[i/8] |= 1 << (i % 8)
		}
	}
	b = append(append(b, nulls...), 1)
	for _, p := range params {
		b = binary.LittleEndian.AppendUint16(b, p.kind)
	}
	for _, p := range params {
		b = append(b, p.body...)
	}
	return b
}

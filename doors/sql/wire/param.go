package wire

import "math"

// Param is a parameter of a prepared statement. The field that counts is named by Kind.
type Param struct {
	Kind  Kind
	Type  Type // as the client sent it
	Int   int64
	Uint  uint64
	Float float64
	Bytes []byte // lies in the connection's buffer
	Time  Moment
}

// Kind says which field of a Param has its value.
type Kind byte

// The kinds of a parameter.
const (
	IsNull     Kind = iota
	IsInt           // Int
	IsUint          // Uint
	IsFloat         // Float, of 32 bits
	IsDouble        // Float
	IsBytes         // Bytes: texts, blobs, decimals
	IsDate          // Time, without a time of day
	IsDateTime      // Time
	IsTime          // Time, a duration
)

// Moment is a date with a time of day, or a duration. A duration has days instead of years and months, and a sign.
type Moment struct {
	Negative             bool
	Year                 uint16
	Month                byte
	Day                  uint32
	Hour, Minute, Second byte
	Micro                uint32
}

// statement is a prepared statement of a connection. An idle client may have many: what it does not need between two executions is not here.
type statement struct {
	prepared Prepared
	types    string  // of the parameters, two bytes each, as the client last sent them; "": never yet
	pieces   *pieces // that SEND_LONG_DATA has brought; nil: none
	count    uint16  // parameters
}

// pieces are parameters that come before the execution, piece by piece.
type pieces struct {
	of     map[int][]byte // by parameter
	failed error          // of SEND_LONG_DATA, which has no answer of its own
}

var errArguments = Errorf(ErrArguments, "Incorrect arguments to mysqld_stmt_execute")

// read takes the parameters of COM_STMT_EXECUTE into params, which has one for each. A client sends types with the first execution and when they
// change; in between, the types of the last time hold.
func (s *statement) read(f *fields, params []Param) error {
	if s.count == 0 {
		return nil
	}
	nulls := f.take((uint64(s.count) + 7) / 8)
	switch f.byte() {
	case 1:
		types := f.take(2 * uint64(s.count))
		if f.bad {
			return errArguments
		}
		if s.types != string(types) {
			s.types = string(types)
		}
	case 0:
	default:
		return errArguments
	}
	if f.bad || s.types == "" {
		return errArguments
	}
	for i := range params {
		p := &params[i]
		*p = Param{Type: Type(s.types[2*i])}
		if s.pieces != nil {
			if data, ok := s.pieces.of[i]; ok {
				p.Kind, p.Bytes = IsBytes, data
				continue
			}
		}
		if nulls[i/8]&(1<<(i%8)) != 0 {
			continue
		}
		if err := p.read(f, s.types[2*i+1]&0x80 != 0); err != nil {
			return err
		}
	}
	if f.bad {
		return errArguments
	}
	return nil
}

// read takes the value of a parameter whose type is known. Source: MySQL 8.0, "Binary Protocol Value".
func (p *Param) read(f *fields, unsigned bool) error {
	number := func(signed int64, plain uint64) {
		if unsigned {
			p.Kind, p.Uint = IsUint, plain
		} else {
			p.Kind, p.Int = IsInt, signed
		}
	}
	switch p.Type {
	case Null:
		p.Kind = IsNull
	case Tiny:
		v := f.byte()
		number(int64(int8(v)), uint64(v))
	case Short, Year:
		v := f.uint16()
		number(int64(int16(v)), uint64(v))
	case Long, Int24:
		v := f.uint32()
		number(int64(int32(v)), uint64(v))
	case LongLong:
		v := f.uint64()
		number(int64(v), v)
	case Float:
		p.Kind, p.Float = IsFloat, float64(math.Float32frombits(f.uint32()))
	case Double:
		p.Kind, p.Float = IsDouble, math.Float64frombits(f.uint64())
	case Date, DateTime, Timestamp:
		p.Kind = IsDateTime
		if p.Type == Date {
			p.Kind = IsDate
		}
		return p.Time.readDate(f)
	case Time:
		p.Kind = IsTime
		return p.Time.readTime(f)
	case Decimal, VarChar, Bit, JSON, NewDecimal, Enum, Set, TinyBlob, MediumBlob, LongBlob, Blob, VarString, String, Geometry:
		p.Kind, p.Bytes = IsBytes, f.string()
	default:
		return errArguments
	}
	return nil
}

// readDate takes a date of 0, 4, 7 or 11 bytes.
func (m *Moment) readDate(f *fields) error {
	b := fields{b: f.take(uint64(f.byte()))}
	switch len(b.b) {
	case 0, 4, 7, 11:
	default:
		return errArguments
	}
	if len(b.b) == 0 {
		return nil
	}
	m.Year, m.Month, m.Day = b.uint16(), b.byte(), uint32(b.byte())
	if len(b.b) > 0 {
		m.Hour, m.Minute, m.Second = b.byte(), b.byte(), b.byte()
	}
	if len(b.b) > 0 {
		m.Micro = b.uint32()
	}
	return nil
}

// readTime takes a duration of 0, 8 or 12 bytes.
func (m *Moment) readTime(f *fields) error {
	b := fields{b: f.take(uint64(f.byte()))}
	switch len(b.b) {
	case 0, 8, 12:
	default:
		return errArguments
	}
	if len(b.b) == 0 {
		return nil
	}
	m.Negative = b.byte() != 0
	m.Day = b.uint32()
	m.Hour, m.Minute, m.Second = b.byte(), b.byte(), b.byte()
	if len(b.b) > 0 {
		m.Micro = b.uint32()
	}
	return nil
}

package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// Done is what a statement without rows came to.
type Done struct {
	Affected uint64 // rows; with FoundRows those that were found
	InsertID uint64 // the first value of AUTO_INCREMENT that the statement made, 0: none
	Warnings uint16
	Info     string // such as "Rows matched: 1  Changed: 1  Warnings: 0"
}

// Answer takes the results of a statement and sends them, in pieces as they grow. A result is one call of OK, or Columns, then rows, then End.
// A row is one call for each column, in the order of the columns. Anything else is a mistake of the Session and panics. An Answer belongs to
// the goroutine that runs the statement.
type Answer struct {
	c       *conn
	binary  bool
	more    bool     // another result follows this one
	columns []Column // of the result that was begun
	column  int      // the next one of the row
	row     bool     // a row was begun
	open    bool     // a result was begun
	results int      // that were finished
}

// More says before a result ends whether another one follows it.
func (a *Answer) More(more bool) { a.more = more }

// Last has the connection end behind the answer.
func (a *Answer) Last() { a.c.last = true }

// Begun reports whether a result was begun and not finished: a part of it may have been sent.
func (a *Answer) Begun() bool { return a.open }

// Err returns the error by which the client cannot be reached any more, or is not to be shown more. A Session that makes many rows looks at it to
// stop early.
func (a *Answer) Err() error {
	if a.c.out.denied != nil {
		return a.c.out.denied
	}
	return a.c.out.err
}

func (a *Answer) status() Status {
	s := a.c.session.Status()
	if a.more {
		s |= statusMore
	}
	return s
}

// OK finishes a result without rows.
func (a *Answer) OK(d Done) {
	if a.open {
		panic("wire: OK within a result")
	}
	a.c.ok(0, d, a.status())
	a.results++
}

// Columns begins a result. The columns must not change before its end.
func (a *Answer) Columns(columns []Column) {
	if a.open || len(columns) == 0 {
		panic("wire: a result within a result, or without columns")
	}
	a.open, a.columns = true, columns
	o := &a.c.out
	o.begin()
	o.buf = appendInt(o.buf, uint64(len(columns)))
	o.end()
	a.c.define(columns, a.status())
}

// End finishes a result with rows.
func (a *Answer) End(warnings uint16) {
	if !a.open || a.row {
		panic("wire: the end of a result that was not begun, or within a row")
	}
	a.c.eof(warnings, a.status())
	a.open = false
	a.results++
}

// value begins the next value of the row and returns its column. The first value begins the row. null: the value is NULL.
func (a *Answer) value(null bool) *Column {
	o := &a.c.out
	if !a.row {
		if !a.open {
			panic("wire: a row without a result")
		}
		a.row, a.column = true, 0
		o.begin()
		if a.binary {
			o.buf = append(o.buf, 0)
			for range (len(a.columns) + 9) / 8 {
				o.buf = append(o.buf, 0)
			}
		}
	}
	c := &a.columns[a.column]
	if null {
		if a.binary {
			bit := a.column + 2
			o.buf[o.head+headBytes+1+bit/8] |= 1 << (bit % 8)
		} else {
			o.buf = append(o.buf, 0xfb)
		}
	}
	a.column++
	return c
}

// next ends the row behind its last value.
func (a *Answer) next() {
	if a.column == len(a.columns) {
		a.row = false
		a.c.out.end()
	}
}

// Null adds a NULL.
func (a *Answer) Null() {
	a.value(true)
	a.next()
}

// Bytes adds a text, a blob or a decimal.
func (a *Answer) Bytes(v []byte) {
	a.value(false)
	a.c.out.buf = appendString(a.c.out.buf, v)
	a.next()
}

// Text adds a text, a blob or a decimal.
func (a *Answer) Text(v string) {
	a.value(false)
	a.c.out.buf = appendString(a.c.out.buf, v)
	a.next()
}

// Int adds a value of an integer column. In binary form it has the width of the column's type.
func (a *Answer) Int(v int64) {
	c := a.value(false)
	if a.binary {
		a.fixed(c, uint64(v))
	} else {
		a.digits(func(b []byte) []byte {
			if v == 0 && c.Type == Year {
				return append(b, "0000"...)
			}
			return strconv.AppendInt(b, v, 10)
		})
	}
	a.next()
}

// Uint adds a value of an unsigned integer column.
func (a *Answer) Uint(v uint64) {
	c := a.value(false)
	if a.binary {
		a.fixed(c, v)
	} else {
		a.digits(func(b []byte) []byte { return strconv.AppendUint(b, v, 10) })
	}
	a.next()
}

// Digits adds an integer as a decimal: its digits.
func (a *Answer) Digits(v int64) {
	a.value(false)
	a.digits(func(b []byte) []byte { return strconv.AppendInt(b, v, 10) })
	a.next()
}

// fixed appends an integer in the width of its column.
func (a *Answer) fixed(c *Column, v uint64) {
	o := &a.c.out
	switch c.Type {
	case Tiny:
		o.buf = append(o.buf, byte(v))
	case Short, Year:
		o.buf = binary.LittleEndian.AppendUint16(o.buf, uint16(v))
	case Long, Int24:
		o.buf = binary.LittleEndian.AppendUint32(o.buf, uint32(v))
	case LongLong:
		o.buf = binary.LittleEndian.AppendUint64(o.buf, v)
	default:
		panic(fmt.Sprintf("wire: an integer for the column %q of type %d", c.Name, c.Type))
	}
}

// digits appends what make appends, at most 64 bytes, with its length before it.
func (a *Answer) digits(make func(b []byte) []byte) {
	o := &a.c.out
	at := len(o.buf)
	o.buf = make(append(o.buf, 0))
	o.buf[at] = byte(len(o.buf) - at - 1)
}

// Float adds a value of a FLOAT or DOUBLE column. As text a DOUBLE has the shortest digits that read back as the same value.
func (a *Answer) Float(v float64) {
	c := a.value(false)
	o := &a.c.out
	single := c.Type == Float
	switch {
	case !a.binary && c.Type == Double && c.Decimals > 0 && c.Decimals < 31 && math.Abs(v) < 1e15: // ROUND has fixed them
		a.digits(func(b []byte) []byte { return strconv.AppendFloat(b, v, 'f', int(c.Decimals), 64) })
	case !a.binary:
		a.digits(func(b []byte) []byte { return AppendFloat(b, v, single) })
	case single:
		o.buf = binary.LittleEndian.AppendUint32(o.buf, math.Float32bits(float32(v)))
	default:
		o.buf = binary.LittleEndian.AppendUint64(o.buf, math.Float64bits(v))
	}
	a.next()
}

// AppendFloat appends a number as MySQL writes it: digits without an exponent for sizes from 1e-15 to 1e15, and e15 without a plus beyond. A
// single number of 32 bits has six digits that count.
func AppendFloat(b []byte, v float64, single bool) []byte {
	if single {
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'e', singleDigits-1, 64), 64) // it is in range: a float32 was
	}
	if size := math.Abs(v); size != 0 && (size < 1e-15 || size >= 1e15) {
		at := len(b)
		b = strconv.AppendFloat(b, v, 'e', -1, 64)
		return plainExponent(b, at)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// singleDigits is C's FLT_DIG.
const singleDigits = 6

// plainExponent takes the plus and leading zeros out of the exponent of the number at b[at:].
func plainExponent(b []byte, at int) []byte {
	for i := at; i < len(b); i++ {
		if b[i] != 'e' {
			continue
		}
		from := i + 1
		to := from
		if b[from] == '-' {
			to++
		} else if b[from] == '+' {
			b = append(b[:from], b[from+1:]...)
		}
		zeros := to
		for zeros < len(b)-1 && b[zeros] == '0' {
			zeros++
		}
		return append(b[:to], b[zeros:]...)
	}
	return b
}

// Moment adds a value of a DATE, DATETIME, TIMESTAMP or TIME column, with as many digits of a second as the column's Decimals.
func (a *Answer) Moment(m Moment) {
	c := a.value(false)
	o := &a.c.out
	switch {
	case !a.binary:
		a.digits(func(b []byte) []byte { return m.AppendText(b, c.Type, c.Decimals) })
	case c.Type == Time:
		o.buf = m.appendTime(o.buf)
	default:
		o.buf = m.appendDate(o.buf, c.Type != Date)
	}
	a.next()
}

func (m *Moment) appendDate(b []byte, timeOfDay bool) []byte {
	var n byte
	switch {
	case timeOfDay && m.Micro != 0:
		n = 11
	case timeOfDay && m.Hour|m.Minute|m.Second != 0:
		n = 7
	case m.Year != 0 || m.Month != 0 || m.Day != 0:
		n = 4
	}
	b = append(b, n)
	if n >= 4 {
		b = append(b, byte(m.Year), byte(m.Year>>8), m.Month, byte(m.Day))
	}
	if n >= 7 {
		b = append(b, m.Hour, m.Minute, m.Second)
	}
	if n == 11 {
		b = binary.LittleEndian.AppendUint32(b, m.Micro)
	}
	return b
}

func (m *Moment) appendTime(b []byte) []byte {
	var n, negative byte
	switch {
	case m.Micro != 0:
		n = 12
	case m.Day != 0 || m.Hour|m.Minute|m.Second != 0:
		n = 8
	}
	if m.Negative {
		negative = 1
	}
	b = append(b, n)
	if n >= 8 {
		b = append(b, negative)
		b = binary.LittleEndian.AppendUint32(b, m.Day)
		b = append(b, m.Hour, m.Minute, m.Second)
	}
	if n == 12 {
		b = binary.LittleEndian.AppendUint32(b, m.Micro)
	}
	return b
}

// AppendText appends a date as 2006-01-02, a duration as 838:59:59, with so many digits behind the point of a second.
func (m *Moment) AppendText(b []byte, t Type, decimals byte) []byte {
	two := func(v uint32) { b = append(b, byte('0'+v/10%10), byte('0'+v%10)) }
	hour := uint32(m.Hour)
	if t == Time {
		if m.Negative {
			b = append(b, '-')
		}
		if hour += 24 * m.Day; hour >= 100 {
			b = append(b, byte('0'+hour/100%10))
		}
	} else {
		two(uint32(m.Year / 100))
		two(uint32(m.Year % 100))
		b = append(b, '-')
		two(uint32(m.Month))
		b = append(b, '-')
		two(m.Day)
		if t == Date {
			return b
		}
		b = append(b, ' ')
	}
	two(hour % 100)
	b = append(b, ':')
	two(uint32(m.Minute))
	b = append(b, ':')
	two(uint32(m.Second))
	if decimals > 0 && decimals <= 6 {
		b = append(b, '.')
		for unit, n := uint32(100_000), decimals; n > 0; unit, n = unit/10, n-1 {
			b = append(b, byte('0'+m.Micro/unit%10))
		}
	}
	return b
}

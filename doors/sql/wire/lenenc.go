package wire

import (
	"encoding/binary"
	"math"
)

// appendInt appends a length-encoded integer.
func appendInt(b []byte, n uint64) []byte {
	switch {
	case n < 251:
		return append(b, byte(n))
	case n <= math.MaxUint16:
		return append(b, 0xfc, byte(n), byte(n>>8))
	case n < 1<<24:
		return append(b, 0xfd, byte(n), byte(n>>8), byte(n>>16))
	}
	return binary.LittleEndian.AppendUint64(append(b, 0xfe), n)
}

// appendString appends a length-encoded string.
func appendString[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(appendInt(b, uint64(len(s))), s...)
}

// fields takes the fields of a payload off its front. The first error sticks: every later field is zero. The zero value is an empty payload.
type fields struct {
	b   []byte
	bad bool
}

// take returns the next n bytes, which lie in the payload.
func (f *fields) take(n uint64) []byte {
	if f.bad || n > uint64(len(f.b)) {
		f.b, f.bad = nil, true
		return nil
	}
	v := f.b[:n:n]
	f.b = f.b[n:]
	return v
}

func (f *fields) byte() byte {
	if v := f.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (f *fields) uint16() uint16 {
	if v := f.take(2); v != nil {
		return binary.LittleEndian.Uint16(v)
	}
	return 0
}

func (f *fields) uint32() uint32 {
	if v := f.take(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (f *fields) uint64() uint64 {
	if v := f.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// int takes a length-encoded integer. 0xfb, the NULL of a text row, and 0xff, an error's header, are no integers.
func (f *fields) int() uint64 {
	switch first := f.byte(); first {
	case 0xfc:
		return uint64(f.uint16())
	case 0xfd:
		if v := f.take(3); v != nil {
			return uint64(v[0]) | uint64(v[1])<<8 | uint64(v[2])<<16
		}
		return 0
	case 0xfe:
		return f.uint64()
	case 0xfb, 0xff:
		f.b, f.bad = nil, true
		return 0
	default:
		return uint64(first)
	}
}

// string takes a length-encoded string.
func (f *fields) string() []byte { return f.take(f.int()) }

// text takes the bytes up to a zero byte, which is taken too. Without a zero byte the text is everything that is left: old clients end a
// packet with a text that has none.
func (f *fields) text() []byte {
	for i, c := range f.b {
		if c == 0 {
			v := f.b[:i:i]
			f.b = f.b[i+1:]
			return v
		}
	}
	v := f.b
	f.b = nil
	return v
}

// rest takes everything that is left.
func (f *fields) rest() []byte {
	v := f.b
	f.b = nil
	return v
}

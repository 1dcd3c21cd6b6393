// Package tuple encodes lists of values so that the order of the bytes is the order of the values, field by field. The keys of rows and of
// indexes are such lists. A shorter list sorts before every longer one that begins with it, so that the encoding of some fields is the
// prefix of a range.
//
// It knows no SQL type, no collation and no column. A text is encoded as its sort bytes, and the caller knows the form of each field. It is
// no general codec either: internal/wire is smaller where order does not matter.
//
// The forms, each with a tag before it, docs/formats/store.md has the table:
//
//	null     before every other value
//	int      a tag that says sign and length, then 0 to 8 bytes
//	float    eight bytes
//	bytes    with 00 as 00 ff, and 00 01 behind them
package tuple

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

// Tags. 0x10 is the integer 0. Below it stand the negative ones, by their length downwards, above it the positive ones.
const (
	tagNull  = 0x02
	tagZero  = 0x10
	tagFloat = 0x20
	tagBytes = 0x30

	maxIntBytes = 8
	escape      = 0x00
	escaped     = 0xff // behind escape: a zero byte
	ended       = 0x01 // behind escape: the end
)

// Errors of the decoders.
var (
	// ErrForm: the bytes are not an encoding, or of another form than was asked for.
	ErrForm = errors.New("field of a key is not of this form")
	// ErrRange: an integer that the Go type does not have.
	ErrRange = errors.New("integer of a key is out of range")
)

// AppendNull appends a null.
func AppendNull(dst []byte) []byte { return append(dst, tagNull) }

// AppendUint appends an integer. AppendInt and AppendUint of one number give the same bytes.
func AppendUint(dst []byte, v uint64) []byte {
	n := (bits.Len64(v) + 7) / 8
	dst = append(dst, byte(tagZero+n))
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// AppendInt appends an integer.
func AppendInt(dst []byte, v int64) []byte {
	if v >= 0 {
		return AppendUint(dst, uint64(v))
	}
	size := uint64(-(v + 1)) // -1 is 0, so that the smallest number has its place
	n := max(1, (bits.Len64(size)+7)/8)
	dst = append(dst, byte(tagZero-n))
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, ^byte(size>>(8*i)))
	}
	return dst
}

// AppendFloat appends a number. -0 becomes 0: they are equal. NaN sorts behind all numbers.
func AppendFloat(dst []byte, v float64) []byte {
	if v == 0 {
		v = 0
	}
	if math.IsNaN(v) {
		v = math.NaN()
	}
	b := math.Float64bits(v)
	if b>>63 != 0 {
		b = ^b
	} else {
		b |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(append(dst, tagFloat), b)
}

// AppendBytes appends bytes.
func AppendBytes[T ~string | ~[]byte](dst []byte, v T) []byte {
	dst = append(dst, tagBytes)
	for i := range len(v) {
		dst = append(dst, v[i])
		if v[i] == escape {
			dst = append(dst, escaped)
		}
	}
	return append(dst, escape, ended)
}

// Invert turns the order of the field around that was appended to dst[from:]. A decoder gets the field after a second Invert.
func Invert(dst []byte, from int) {
	for i := from; i < len(dst); i++ {
		dst[i] = ^dst[i]
	}
}

// Null reports whether b begins with a null, and what follows it.
func Null(b []byte) (rest []byte, ok bool) {
	if len(b) == 0 || b[0] != tagNull {
		return b, false
	}
	return b[1:], true
}

// Uint decodes an integer that is not negative. Errors: ErrForm, ErrRange.
func Uint(b []byte) (v uint64, rest []byte, err error) {
	size, negative, rest, err := integer(b)
	if err == nil && negative {
		return 0, nil, ErrRange
	}
	return size, rest, err
}

// Int decodes an integer. Errors: ErrForm, ErrRange.
func Int(b []byte) (v int64, rest []byte, err error) {
	size, negative, rest, err := integer(b)
	switch {
	case err != nil:
		return 0, nil, err
	case size > math.MaxInt64:
		return 0, nil, ErrRange
	case negative:
		return -int64(size) - 1, rest, nil
	}
	return int64(size), rest, nil
}

// integer decodes an integer. size of a negative one is that of AppendInt.
func integer(b []byte) (size uint64, negative bool, rest []byte, err error) {
	if len(b) == 0 || b[0] < tagZero-maxIntBytes || b[0] > tagZero+maxIntBytes {
		return 0, false, nil, ErrForm
	}
	n := int(b[0]) - tagZero
	flip := byte(0)
	if negative = n < 0; negative {
		n, flip = -n, 0xff
	}
	if len(b) < 1+n {
		return 0, false, nil, ErrForm
	}
	for _, c := range b[1 : 1+n] {
		size = size<<8 | uint64(c^flip)
	}
	if n > 0 && b[1]^flip == 0 && !(negative && n == 1) { // a number has one encoding
		return 0, false, nil, ErrForm
	}
	return size, negative, b[1+n:], nil
}

// Float decodes a number. Error: ErrForm.
func Float(b []byte) (v float64, rest []byte, err error) {
	if len(b) < 9 || b[0] != tagFloat {
		return 0, nil, ErrForm
	}
	u := binary.BigEndian.Uint64(b[1:])
	if u>>63 != 0 {
		u &^= 1 << 63
	} else {
		u = ^u
	}
	v = math.Float64frombits(u)
	if v == 0 && u != 0 || math.IsNaN(v) && u != math.Float64bits(math.NaN()) {
		return 0, nil, ErrForm
	}
	return v, b[9:], nil
}

// Bytes decodes bytes and appends them to dst. Error: ErrForm.
func Bytes(dst, b []byte) (v, rest []byte, err error) {
	if len(b) == 0 || b[0] != tagBytes {
		return dst, nil, ErrForm
	}
	for i := 1; i < len(b); i++ {
		if b[i] != escape {
			dst = append(dst, b[i])
			continue
		}
		if i++; i == len(b) {
			break
		}
		switch b[i] {
		case escaped:
			dst = append(dst, escape)
		case ended:
			return dst, b[i+1:], nil
		default:
			return dst, nil, ErrForm
		}
	}
	return dst, nil, ErrForm
}

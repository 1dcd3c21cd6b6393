// Package wire has the building blocks of Holdfast's encodings. They are the few forms of a field in a command, a row or a message between
// members, and how each is appended and read. A codec is then a list of fields in their order (docs/formats).
//
// It is no codec itself and knows no field by name. The meaning of the fields, their order and the version belong to the package whose
// bytes they are. It frames nothing, checks no sums (wal and peer do that below it) and never reads more than the slice it was given.
//
// The forms:
//
//	byte     one byte
//	flags    one byte of which only the bits a build knows may be set
//	u        an unsigned varint, as in encoding/binary, in its shortest form
//	z        a signed varint, zigzag over u
//	u64      eight bytes, little endian
//	bytes    a u for the length, then that many bytes
//	list     a u for the number of elements, then the elements
//
// "Shortest form" is enforced so that one meaning has one encoding. Members compare hashes over stored bytes, and a second spelling of a
// number would be a meaningless difference. Plain forms of encoding/binary (AppendUvarint, AppendVarint, LittleEndian.AppendUint64) have no
// second name here.
package wire

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// The errors that a Reader finds by itself. A codec may add its own by Fail. None means that a node has to stop: the same bytes are a
// refused request in one place and a damaged store in another.
var (
	ErrShort    = errors.New("ends early")
	ErrNumber   = errors.New("number beyond 64 bits or not in its shortest form")
	ErrCount    = errors.New("list longer than allowed")
	ErrTrailing = errors.New("bytes after the end")
)

// AppendBytes appends s as bytes: its length, then itself.
func AppendBytes[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// UvarintLen is how many bytes binary.AppendUvarint appends for v.
func UvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// Bit is flag if on, else 0: flags are put together by or-ing Bits.
func Bit(on bool, flag byte) byte {
	if on {
		return flag
	}
	return 0
}

package wire

import (
	"strings"
	"unsafe"
)

// Room returns an empty slice with a capacity of at least n bytes of undefined content: its user must write every byte that it exposes.
// make fills memory with zeros first, which of a value of 100 KB takes as long as copying it. The standard library has a way around that
// for strings only, and this string is never used as one.
func Room(n int) []byte {
	if n <= 0 {
		return nil
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // or there is no pointer to its bytes
	return unsafe.Slice(unsafe.StringData(b.String()), b.Cap())[:0]
}

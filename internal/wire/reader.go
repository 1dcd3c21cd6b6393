package wire

import "encoding/binary"

// Reader takes fields off the front of a slice. The first error sticks: from then on there is nothing left and every value is zero. So a
// codec reads as the list of its fields and asks once, at the end. Values taken before End or Err was asked may be made of damaged bytes:
// do not use them.
//
// Every log entry goes through here several times on every member. Byte and Uint64 are therefore small enough for the compiler to inline
// (go build -gcflags=-m tells). A Reader is a value that stays on its caller's stack: keep it in a variable, do not let it escape. It
// belongs to one goroutine.
type Reader struct {
	b   []byte // the rest; nil after an error
	err *error // the first error, or nil. A pointer for speed: beyond four words the compiler copies a struct through memory
}

// NewReader reads b. The reader keeps b and never writes to it.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err returns the first error, nil if there was none. It does not mind bytes that are left; End does.
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return *r.err
}

// End returns the first error, or ErrTrailing if there was none but bytes are left.
func (r *Reader) End() error {
	if r.err == nil && len(r.b) != 0 {
		return ErrTrailing
	}
	return r.Err()
}

// Len is the number of bytes left; 0 after an error.
func (r *Reader) Len() int { return len(r.b) }

// Fail makes err the reader's error unless it has one: for a field with a wrong value.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		first := err // so that only a failure allocates
		r.err = &first
	}
	r.b = nil
}

// short is a function of its own, and not inlined, because its body would make the methods that call it too large to be
// inlined.
//
//go:noinline
func (r *Reader) short() { r.Fail(ErrShort) }

// Byte takes one byte.
func (r *Reader) Byte() (v byte) {
	if len(r.b) == 0 {
		r.short()
	} else {
		v, r.b = r.b[0], r.b[1:]
	}
	return v
}

// Flags takes a byte. A bit outside of known fails with unknown: this build cannot handle it, and only the caller can classify the error.
func (r *Reader) Flags(known byte, unknown error) byte {
	v := r.Byte()
	if v&^known != 0 {
		r.Fail(unknown)
		return 0
	}
	return v
}

// Uint64 takes a u64.
func (r *Reader) Uint64() (v uint64) {
	if len(r.b) < 8 {
		r.short()
	} else {
		v, r.b = binary.LittleEndian.Uint64(r.b), r.b[8:]
	}
	return v
}

// Uvarint takes a u. Most are lengths, counts and differences below 128 and are done in the first branch.
func (r *Reader) Uvarint() uint64 {
	b := r.b
	if len(b) > 0 && b[0] < 0x80 {
		r.b = b[1:]
		return uint64(b[0])
	}
	v, n := binary.Uvarint(b)
	if n <= 0 || b[n-1] == 0 {
		r.number(n)
		return 0
	}
	r.b = b[n:]
	return v
}

// number sets the error for a u of which binary.Uvarint has returned n, zero or less.
//
//go:noinline
func (r *Reader) number(n int) {
	if n == 0 {
		r.Fail(ErrShort)
	} else {
		r.Fail(ErrNumber)
	}
}

// Varint takes a z.
func (r *Reader) Varint() int64 {
	u := r.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Bytes takes bytes. The result aliases what is read, with its capacity cut so that an append to it cannot reach the next field.
// Fewer than 128, as keys and most values are, are taken here without a call.
func (r *Reader) Bytes() []byte {
	if b := r.b; len(b) > 0 && b[0] < 0x80 && int(b[0]) < len(b) {
		end := 1 + int(b[0])
		r.b = b[end:]
		return b[1:end:end]
	}
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.short()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Text takes bytes as a string of its own memory. (Not named String: printing a reader must not move it.)
func (r *Reader) Text() string { return string(r.Bytes()) }

// Take takes n bytes that have no length before them; nil if fewer are left. The result aliases what is read, as with Bytes.
func (r *Reader) Take(n int) []byte {
	if n > len(r.b) {
		r.short()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Rest takes all that is left. It is the last field of rows, which need no length for it.
func (r *Reader) Rest() []byte {
	v := r.b
	r.b = nil
	return v
}

// Count takes the length of a list: at most limit elements, each of at least size bytes. A list that could not be in the bytes left is
// refused here, so that a few bytes cannot ask for much memory.
func (r *Reader) Count(limit, size int) int {
	n := r.Uvarint()
	switch {
	case n > uint64(limit):
		r.Fail(ErrCount)
		return 0
	case n > uint64(len(r.b)/size):
		r.short()
		return 0
	}
	return int(n)
}

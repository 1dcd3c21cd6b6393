// Package frame finds HTTP/2 frames in bytes (RFC 9113, section 4.1). It reads the header in front of a frame's payload and knows nothing
// of streams or of HTTP headers: a protocol library does.
package frame

import "encoding/binary"

// Preface is how every HTTP/2 client begins.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Frame types and flags that matter here (RFC 9113, section 6).
const (
	Data, Headers, Reset, Settings, Continuation = 0, 1, 3, 4, 9
	Ack, End, EndHeaders, Padded, Priority       = 1, 1, 4, 8, 32
)

const (
	// HeadLen is how many bytes stand before a payload.
	HeadLen = 9
	// Max is how long a payload may be unless the receiver has allowed more, which no server of this process does.
	Max = 16 << 10
)

// Frame is a frame's header.
type Frame struct {
	Length int // of the payload
	Kind   byte
	Flags  byte
	Stream uint32
}

// Parse reads the first HeadLen bytes of b. Any bytes are a frame.
func Parse(b []byte) Frame {
	return Frame{
		Length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		Kind:   b[3],
		Flags:  b[4],
		Stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

// Ends reports whether the sender of f says no more on its stream.
func (f Frame) Ends() bool {
	return f.Kind == Reset || f.Flags&End != 0 && (f.Kind == Data || f.Kind == Headers)
}

// Scanner finds the frames in bytes that come in pieces of any length.
type Scanner struct {
	head [HeadLen]byte
	have int // of head
	skip int // bytes up to the next head
}

// Next consumes p up to and including the next head; ok is false if p ends before that.
func (h *Scanner) Next(p []byte) (rest []byte, f Frame, ok bool) {
	n := min(h.skip, len(p))
	h.skip, p = h.skip-n, p[n:]
	n = copy(h.head[h.have:], p)
	h.have, p = h.have+n, p[n:]
	if h.have < HeadLen {
		return nil, Frame{}, false
	}
	f = Parse(h.head[:])
	h.have, h.skip = 0, f.Length
	return p, f, true
}

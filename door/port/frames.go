package port

import "encoding/binary"

// HTTP/2 frame types and flags that matter here (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings, frameContinuation = 0, 1, 3, 4, 9
	flagAck, flagEnd, flagEndHeaders, flagPadded, flagPriority            = 1, 1, 4, 8, 32
	frameHead                                                             = 9 // bytes before a frame's payload
	maxFrame                                                              = 16 << 10
)

// frame is what stands before a frame's payload.
type frame struct {
	length int // of the payload
	kind   byte
	flags  byte
	stream uint32
}

// parseFrame reads the first frameHead bytes of b. Any bytes are a frame.
func parseFrame(b []byte) frame {
	return frame{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   b[3],
		flags:  b[4],
		stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

// ends reports whether the sender of f says no more on its stream.
func (f frame) ends() bool {
	return f.kind == frameReset || f.flags&flagEnd != 0 && (f.kind == frameData || f.kind == frameHeaders)
}

// framing finds the frames in bytes that come in pieces of any length.
type framing struct {
	head [frameHead]byte
	have int // of head
	skip int // bytes up to the next head
}

// next consumes p up to and including the next head; ok is false if p ends before that.
func (h *framing) next(p []byte) (rest []byte, f frame, ok bool) {
	n := min(h.skip, len(p))
	h.skip, p = h.skip-n, p[n:]
	n = copy(h.head[h.have:], p)
	h.have, p = h.have+n, p[n:]
	if h.have < frameHead {
		return nil, frame{}, false
	}
	f = parseFrame(h.head[:])
	h.have, h.skip = 0, f.length
	return p, f, true
}

package wire

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Sizes of packets and of their buffers, in bytes.
const (
	headBytes  = 4         // a packet's length, three bytes, and its number
	chunkBytes = 1<<24 - 1 // a longer payload goes on in the next packet
	loginBytes = 64 << 10  // the most a client may send before it has logged in
	idleBytes  = 2 << 10   // a connection's buffer between two commands
	flushBytes = 32 << 10  // an answer is sent in pieces of about this size
	keepBytes  = 8 << 10   // a larger buffer is not kept between two commands: idle clients are many
	smallBytes = 1 << 10   // an answer that has grown as long goes on in a buffer that connections share
)

var (
	errTooLarge   = errors.New("packet is longer than max_allowed_packet")
	errOutOfOrder = errors.New("packet has the wrong number")
	errNoRoom     = errors.New("no memory is left for a packet of this length")
)

// Room is the memory that all connections share for packets. Nil: memory is not counted. Both methods may be called from several goroutines.
type Room interface {
	// Draw takes n bytes. It reports false, and takes none, if they are not left.
	Draw(n int64) bool
	// Return gives n bytes back.
	Return(n int64)
}

// input reads a client's packets. It belongs to the connection's goroutine.
type input struct {
	from io.Reader
	room Room
	buf  []byte
	r, w int          // buf[r:w] was received and not returned
	held int64        // bytes drawn from room
	seq  byte         // number of the next packet
	most int          // longest payload
	slow func() error // called before each read of a packet that has begun; nil: never
}

// next returns the next payload, which may have come in several packets. The payload lies in the input's buffer until next or rest is called
// again. Errors: errTooLarge, errOutOfOrder, errNoRoom, and those of the reader; io.EOF only where no packet had begun.
func (in *input) next() ([]byte, error) {
	start, size := in.r, 0 // of the payload as it is put together
	for first := true; ; first = false {
		if err := in.fill(&start, headBytes); err != nil {
			if err == io.EOF && !(first && in.w == in.r) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		head := in.buf[in.r : in.r+headBytes]
		n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		if head[3] != in.seq {
			return nil, fmt.Errorf("%w: %d, and %d was due", errOutOfOrder, head[3], in.seq)
		}
		if size+n > in.most {
			return nil, fmt.Errorf("%w, %d bytes", errTooLarge, in.most)
		}
		in.seq++
		if first {
			start = in.r + headBytes
			in.r = start
		} else { // the payload closes up over the head
			copy(in.buf[in.r:], in.buf[in.r+headBytes:in.w])
			in.w -= headBytes
		}
		if err := in.fill(&start, n); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		in.r += n
		size += n
		if n < chunkBytes {
			return in.buf[start : start+size : start+size], nil
		}
	}
}

// fill reads until n bytes are there behind in.r. What lies behind *start is kept, and *start moves with it.
func (in *input) fill(start *int, n int) error {
	for in.w-in.r < n {
		if in.w == len(in.buf) {
			if err := in.grow(start, n); err != nil {
				return err
			}
		}
		if in.slow != nil && (in.w > in.r || *start < in.r) {
			if err := in.slow(); err != nil {
				return err
			}
		}
		got, err := in.from.Read(in.buf[in.w:])
		in.w += got
		if err != nil && in.w-in.r < n {
			return err
		}
	}
	return nil
}

// grow makes room behind in.w: what was returned before is overwritten, or the buffer is doubled, at most to what the packet needs. A buffer
// therefore has never more than twice the bytes that have arrived.
func (in *input) grow(start *int, n int) error {
	kept := in.buf[*start:in.w]
	if *start > 0 && len(kept) <= len(in.buf)/2 {
		copy(in.buf, kept)
	} else {
		size := min(max(2*len(in.buf), idleBytes), max(in.r-*start+n, idleBytes))
		if err := in.draw(size); err != nil {
			return err
		}
		larger := make([]byte, size)
		copy(larger, kept)
		in.buf = larger
	}
	in.r, in.w, *start = in.r-*start, len(kept), 0
	return nil
}

// draw counts a buffer of size bytes.
func (in *input) draw(size int) error {
	more := int64(size) - idleBytes - in.held
	if in.room == nil || more <= 0 {
		return nil
	}
	if !in.room.Draw(more) {
		return errNoRoom
	}
	in.held += more
	return nil
}

// rest gives back a large buffer. The payload that next returned must not be used any more.
func (in *input) rest() {
	if len(in.buf) > keepBytes && in.w-in.r < idleBytes {
		small := make([]byte, idleBytes)
		in.w = copy(small, in.buf[in.r:in.w])
		in.buf, in.r = small, 0
		in.end()
	}
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
}

// end gives the counted memory back.
func (in *input) end() {
	if in.held > 0 {
		in.room.Return(in.held)
		in.held = 0
	}
}

// output builds packets and sends them. It belongs to the connection's goroutine.
type output struct {
	to   io.Writer
	buf  []byte
	head int  // where the packet that is built begins
	seq  byte // number of the next packet
	err  error

	own []byte // the connection's buffer, while buf is one that connections share; nil: buf is its own

	// Of the answer to one command.
	hold   func() error // called before anything is sent; nil: nothing is held
	first  byte         // number of the first packet that was not sent
	denied error        // of hold: the answer must not be sent
}

// holding has every piece of the answer that begins now wait for hold.
func (o *output) holding(hold func() error) { o.hold, o.first, o.denied = hold, o.seq, nil }

// held waits for hold, and reports whether the answer may be sent. An answer that must not be sent is dropped, from the first packet that was not
// sent on: the client gets the error in its place.
func (o *output) held() bool {
	if o.hold == nil || o.denied != nil {
		return o.denied == nil
	}
	o.denied = o.hold()
	return o.denied == nil
}

// released ends the holding, and returns the error of hold. Behind an error the next packet takes the place of what was dropped.
func (o *output) released() error {
	err := o.denied
	if o.hold != nil && err == nil && len(o.buf) > 0 {
		o.flush()
		err = o.denied
	}
	o.hold, o.denied = nil, nil
	if err != nil {
		o.buf, o.seq = o.buf[:0], o.first
	}
	return err
}

// begin starts a packet.
func (o *output) begin() {
	o.grow()
	o.head = len(o.buf)
	o.buf = append(o.buf, 0, 0, 0, 0)
}

// end finishes the packet. A payload of chunkBytes or more becomes several packets, the last of them shorter.
func (o *output) end() {
	n := len(o.buf) - o.head - headBytes
	if n < chunkBytes {
		o.number(o.head, n)
	} else {
		o.split(n)
	}
	if len(o.buf) >= flushBytes {
		o.flush()
	}
}

func (o *output) split(n int) {
	payload := append([]byte(nil), o.buf[o.head+headBytes:]...)
	o.buf = o.buf[:o.head]
	for {
		k := min(n, chunkBytes)
		at := len(o.buf)
		o.buf = append(append(o.buf, 0, 0, 0, 0), payload[:k]...)
		o.number(at, k)
		payload, n = payload[k:], n-k
		if k < chunkBytes {
			return
		}
	}
}

func (o *output) number(at, n int) {
	o.buf[at], o.buf[at+1], o.buf[at+2], o.buf[at+3] = byte(n), byte(n>>8), byte(n>>16), o.seq
	o.seq++
}

// flush sends what was built, once it need not be held. After an error nothing more is sent. A buffer that a large row has made larger than any
// answer needs goes.
func (o *output) flush() {
	if o.err == nil && len(o.buf) > 0 && o.held() {
		_, o.err = o.to.Write(o.buf)
		o.first = o.seq
	}
	if cap(o.buf) > 4*flushBytes {
		o.buf = nil
	}
	o.buf = o.buf[:0]
}

// answers are buffers of large answers. A connection has one while it answers.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// rest gives a large buffer to the next connection that needs one.
func (o *output) rest() {
	shared := o.buf[:0]
	switch {
	case o.own != nil:
		o.buf, o.own = o.own[:0], nil
	case cap(o.buf) > keepBytes:
		o.buf = nil
	default:
		return
	}
	if cap(shared) > 0 {
		share(shared)
	}
}

func share(b []byte) { answers.Put(&b) }

// grow takes a buffer that another connection has used where the answer becomes longer than most.
func (o *output) grow() {
	if o.own != nil || len(o.buf) < smallBytes || cap(o.buf) > keepBytes {
		return
	}
	b := answers.Get().(*[]byte)
	o.own = o.buf
	o.buf = append((*b)[:0], o.buf...)
}

// Package intake stands between a client's HTTP/2 connection and the gRPC server that reads it, and bounds the memory that clients cause
// there. It counts every call and message from its first bytes, draws room, and turns away a message without room.
//
// It parses frames and the lengths of gRPC messages, nothing of their contents or of headers. The division of the room is not decided here
// (Room). Its assumptions on the server behind it, grpc-go, are tested with the real one in grpcgo_test.go.
package intake

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/frame"
)

// A connection reads into smallBuffer bytes as long as that is all that comes at a time: thousands of idle ones need no more. One that sends more gets
// bufferLen bytes, until quietReads reads in a row have had room in half of smallBuffer.
const (
	bufferLen   = 32 << 10
	smallBuffer = 4 << 10
	quietReads  = 16
)

// buffers has those of bufferLen that no connection uses.
var buffers = sync.Pool{New: func() any { return new([bufferLen]byte) }}

// Conn is a connection of the gRPC server that draws room for large messages, from their first bytes until they are answered. It turns
// messages away for which there is none.
//
// It has to be done here. The gRPC server reads all that streams bring. It returns the connection's window as bytes arrive, and widens a
// stream's as soon as it knows the message's length. So a hundred streams hold a hundred half messages before any handler hears of one.
// Neither its windows nor its handlers bound that. A bound on streams would. It would also stop ten thousand clients with small puts, which
// need no memory.
//
// A message is turned away by making it short: its length becomes that of turnedAway, which is written over its first bytes. The server's
// codec recognises that, and the call is answered like any other, in the door's words. The server drops the rest of the message, as it
// drops everything on an answered stream. Resetting the stream here would need no such trick. But this connection would have to write
// frames in between the server's, and clients would hear no reason.
//
// Room is given back when the server answers: until then the message, or the command made of it, is in memory.
type Conn struct {
	net.Conn
	room Room
	opt  Options

	// Owned by the reading goroutine.
	highest         uint32 // stream of the newest call
	buf             []byte
	large           *[bufferLen]byte // buf is all of it; nil: buf is a small one
	quiet           int              // reads in a row that had room in half of a small buffer
	next, seen, end int              // buf[next:seen] may be read, buf[seen:end] waits for more to be understood
	skip            int              // bytes to pass on without a look
	frame           frame.Frame
	data, pad       int // bytes of frame, a DATA frame, that have not been looked at, and of its padding

	// Owned by the writing goroutine.
	out frame.Scanner

	open atomic.Int32 // len(calls), so that calls need not be looked at as long as all messages are small; written under mu

	mu      sync.Mutex
	closed  bool
	streams map[uint32]call     // calls that neither side has ended for good
	calls   map[uint32]*message // by stream: messages that are not whole, and those that hold room
}

// call is one that neither side has ended for good.
type call struct {
	held     int64
	began    uint64 // as Options.Now has it
	answered bool   // the server has answered something, so that a client that sends no more waits for the server
	whole    bool   // the client has ended its side
}

// New puts a Conn in front of c, of which nothing has been read yet.
func New(c net.Conn, room Room, opt Options) *Conn {
	return &Conn{Conn: c, room: room, opt: opt, buf: make([]byte, smallBuffer), skip: len(frame.Preface), streams: map[uint32]call{},
		calls: map[uint32]*message{}}
}

// Read implements net.Conn. It is for one goroutine at a time, as ever, and reads ahead, so the gRPC server needs no buffer
// of its own.
func (i *Conn) Read(p []byte) (int, error) {
	for i.next == i.seen {
		i.fit()
		n, err := i.Conn.Read(i.buf[i.end:])
		if n == 0 && err != nil {
			return 0, err
		}
		if i.end += n; i.end > smallBuffer/2 {
			i.quiet = 0
		} else {
			i.quiet++
		}
		if err := i.look(); err != nil {
			return 0, err
		}
	}
	n := copy(p, i.buf[i.next:i.seen])
	i.next += n
	return n, nil
}

// fit moves the unparsed bytes, less than a small buffer, to the front of a buffer that suits the recent load.
func (i *Conn) fit() {
	rest := i.buf[i.seen:i.end]
	switch {
	case i.large == nil && i.end == len(i.buf): // the last read had no room for more
		i.large = buffers.Get().(*[bufferLen]byte)
		i.buf = i.large[:]
		i.end = copy(i.buf, rest)
	case i.large != nil && i.quiet >= quietReads:
		i.buf = make([]byte, smallBuffer)
		i.end = copy(i.buf, rest)
		buffers.Put(i.large)
		i.large = nil
	default:
		i.end = copy(i.buf, rest)
	}
	i.next, i.seen = 0, 0
}

// more is returned by the functions that look at bytes if what they look for has not come as a whole. They need a frame's
// header, a message's length and room for turnedAway at most, which is far shorter than the buffer.
const more = -1

// look moves seen over everything that can be understood.
func (i *Conn) look() error {
	for i.seen < i.end {
		b := i.buf[i.seen:i.end]
		var n int
		var err error
		switch {
		case i.skip > 0:
			n = min(i.skip, len(b))
			i.skip -= n
		case i.data > 0:
			n, err = i.lookAtData(b)
		default:
			n = i.lookAtFrame(b)
		}
		if n == more || err != nil {
			return err
		}
		i.seen += n
	}
	return nil
}

// lookAtFrame takes a frame's header from b and returns its length.
func (i *Conn) lookAtFrame(b []byte) int {
	if len(b) < frame.HeadLen {
		return more
	}
	f := frame.Parse(b)
	if f.Kind != frame.Data {
		i.skip = f.Length
		switch f.Kind {
		case frame.Headers, frame.Continuation:
			i.headers(f)
		}
		if f.Ends() {
			i.clientEnds(f)
		}
		return frame.HeadLen
	}
	n, pad := frame.HeadLen, 0
	if f.Flags&frame.Padded != 0 && f.Length > 0 {
		if len(b) == frame.HeadLen {
			return more
		}
		n, pad = frame.HeadLen+1, int(b[frame.HeadLen])
	}
	content := f.Length - (n - frame.HeadLen)
	pad = min(pad, content) // more padding than frame: the server will close the connection
	i.frame, i.data, i.pad = f, content-pad, pad
	if i.data == 0 {
		i.endOfData()
	}
	return n
}

// pass lets n bytes of the present DATA frame through.
func (i *Conn) pass(n int) {
	i.skip, i.data = i.skip+n, i.data-n
	if i.data == 0 {
		i.endOfData()
	}
}

// endOfData does what remains once all of a DATA frame is understood.
func (i *Conn) endOfData() {
	i.skip += i.pad
	if i.frame.Ends() {
		i.clientEnds(i.frame)
	}
}

// headers counts a call that begins. One that the server ends at once is counted out like any other.
func (i *Conn) headers(f frame.Frame) {
	if i.highest == 0 {
		i.room.First()
	}
	i.mu.Lock()
	c, open := i.streams[f.Stream]
	begins := f.Kind == frame.Headers && f.Stream > i.highest && f.Stream%2 == 1
	if i.closed || !open && !begins { // trailers of a call that has ended, or frames for which the server ends the connection
		i.mu.Unlock()
		return
	}
	n := headersCost(f.Length)
	if begins {
		i.highest = f.Stream
		c.began = i.opt.now()
		n = CallCost + headersCost(f.Length-usualHeaders)
	} else {
		n = min(n, max(CallCost+MaxHeaderCost-c.held, 0))
	}
	c.held += n
	i.streams[f.Stream] = c
	i.mu.Unlock()
	i.room.Open(n)
}

// ended counts a call out. The caller holds mu.
func (i *Conn) ended(stream uint32) {
	if c, open := i.streams[stream]; open {
		delete(i.streams, stream)
		i.room.Done(c.held)
	}
	i.drop(stream)
}

// clientEnds is called when a frame of the client's ends a stream. A whole message is kept until it is answered. The charge for a complete
// call shrinks now: it waits only for the server.
func (i *Conn) clientEnds(f frame.Frame) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f.Kind == frame.Reset {
		i.ended(f.Stream)
		return
	}
	if c, open := i.streams[f.Stream]; open && !c.whole {
		c.whole, c.held = true, c.held-(CallCost-WholeCost)
		i.streams[f.Stream] = c
		i.room.Done(CallCost - WholeCost)
	}
	if m := i.calls[f.Stream]; m != nil && (m.left > 0 || m.held == 0) {
		i.drop(f.Stream)
	}
}

// Write implements net.Conn. It is for one goroutine at a time.
func (i *Conn) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		var f frame.Frame
		var ok bool
		if rest, f, ok = i.out.Next(rest); ok && f.Kind == frame.Data {
			i.room.Leaves(f.Length)
		}
		if ok && (f.Ends() || f.Kind == frame.Headers || i.open.Load() > 0) {
			i.serverSays(f)
		}
	}
	return i.Conn.Write(p)
}

// serverSays gives back what a message held once it is answered.
func (i *Conn) serverSays(f frame.Frame) {
	if f.Kind != frame.Data && f.Kind != frame.Headers && f.Kind != frame.Reset {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if f.Ends() { // the client's later bytes are dropped
		i.ended(f.Stream)
		return
	}
	if c, open := i.streams[f.Stream]; open && !c.answered {
		c.answered = true
		i.streams[f.Stream] = c
	}
	if m := i.calls[f.Stream]; m != nil && m.left == 0 && m.got == 0 {
		i.drop(f.Stream)
	}
}

// Lacking returns the bytes held for calls that began before a time, as Options.Now has it, and are neither complete nor answered. Their
// clients do not go on. A large message that comes is progress.
func (i *Conn) Lacking(before uint64) (n int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	recent := time.Now().Add(-lackingGrace).UnixNano()
	for stream, c := range i.streams { // any order: a sum
		if c.whole || c.answered || c.began >= before {
			continue
		}
		if m := i.calls[stream]; m != nil && m.held > 0 && m.heard >= recent {
			continue
		}
		n += c.held
	}
	return n
}

// Pending is how many calls neither side has ended, and how many messages are remembered.
func (i *Conn) Pending() (calls, messages int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.streams), len(i.calls)
}

// Close implements net.Conn. It gives back all room.
func (i *Conn) Close() error {
	i.mu.Lock()
	if !i.closed {
		i.closed = true
		for stream := range i.streams { // any order: all are dropped
			i.ended(stream)
		}
	}
	i.mu.Unlock()
	return i.Conn.Close()
}

// Cut closes the connection below; the reading goroutine notices and gives the room back.
func (i *Conn) Cut() { _ = i.Conn.Close() } // the reader hears of it

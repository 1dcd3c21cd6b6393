package port

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// GRPCWindow is the HTTP/2 window of a connection that the gRPC server behind a Port uses.
const GRPCWindow = 2 << 20

const (
	// smallMessage is what a gRPC message may hold in memory without drawing from the budget: about what fits one frame. Of
	// incomplete ones there is little, and the log's queue bounds the complete ones.
	smallMessage = maxFrame
	// prefixLen is what stands before each gRPC message: a byte that says whether it is compressed and its length.
	prefixLen = 5
	// intakeBuffer is how much is read at a time.
	intakeBuffer = 32 << 10
)

// turnedAway stands in for a message for which there is no room. A client cannot send it, because it is random.
var turnedAway = func() (b [16]byte) {
	_, _ = rand.Read(b[:]) // never fails
	return b
}()

// TurnedAway reports whether the port put this message in the place of one for which there was no room. The gRPC server's codec
// calls it and answers in its own words. The message that was turned away is not kept.
func TurnedAway(message []byte) bool { return string(message) == string(turnedAway[:]) }

var errNoRoom = errors.New("no room for a message whose length came in pieces")

// intake is a connection of the gRPC server that counts large messages against the port's budget, from their first bytes
// until they are answered, and turns away those that do not fit.
//
// It has to be done here. The gRPC server reads whatever streams bring: it returns the connection's window as bytes arrive
// and widens a stream's as soon as it knows how long its message will be, so a hundred streams hold a hundred half messages
// before any handler hears of one. Neither its windows nor its handlers bound that. A bound on streams would, and would also
// stop ten thousand clients with small puts, who need no memory.
//
// A message is turned away by making it short: its length becomes that of turnedAway, which is written over its first bytes.
// The server's codec recognises that, and the call is answered like any other, in the door's words. What the client still
// sends of the message is dropped by the server, as is everything on a stream that it has answered. Resetting the stream
// here would need no such trick, but this connection would have to write frames in between the server's, and clients would
// hear no reason.
//
// Room is given back when the server answers: until then the message, or the command made of it, is in memory.
type intake struct {
	net.Conn
	port *Port

	unused    *place // in the port's queue of connections without a call. port.mu guards it.
	dismissed bool   // it has made room and is counted out. port.mu guards it.
	opened    uint64 // second of the port's clock

	// Owned by the reading goroutine.
	highest         uint32 // stream of the newest call
	large           uint64 // large messages that came whole
	buf             []byte
	next, seen, end int // buf[next:seen] may be read, buf[seen:end] waits for more to be understood
	skip            int // bytes to pass on without a look
	frame           frame
	data, pad       int // bytes of frame, a DATA frame, that have not been looked at, and of its padding

	// Owned by the writing goroutine.
	out     framing
	leaving int // bytes of answers since took was set

	answers atomic.Int64 // bytes of answers that the client has not taken
	took    atomic.Int64 // when it last took some, in ns since 1970

	room atomic.Int64 // what its messages hold of the budget
	open atomic.Int32 // len(calls), so that calls need not be looked at as long as all messages are small; written under mu
	held atomic.Int64 // bytes that open calls hold, and what their handlers hold for them; see From

	mu      sync.Mutex
	closed  bool
	streams map[uint32]int64    // calls that neither side has ended for good, and what each holds
	calls   map[uint32]*message // by stream: messages that are not whole, and those that hold room
}

// message is the last one begun on a stream. The intake's mutex guards it.
type message struct {
	left   int // bytes still to come
	prefix [prefixLen]byte
	got    int    // bytes of prefix, while it comes in pieces
	held   int64  // bytes drawn from the budget
	late   uint64 // when it should be whole, in seconds of the port's clock
	heard  int64  // when a part of it came last, in ns since 1970, if it holds room
}

func (p *Port) newIntake(c net.Conn) *intake {
	i := &intake{Conn: c, port: p, buf: make([]byte, intakeBuffer), skip: len(preface), streams: map[uint32]int64{}, calls: map[uint32]*message{}}
	p.mu.Lock()
	p.intakes[i] = struct{}{}
	i.opened = p.now.Load()
	i.unused = p.unused.push(i, i.opened)
	p.mu.Unlock()
	return i
}

// Read implements net.Conn. It is for one goroutine at a time, as ever, and reads ahead, so the gRPC server needs no buffer
// of its own.
func (i *intake) Read(p []byte) (int, error) {
	for i.next == i.seen {
		i.end = copy(i.buf, i.buf[i.seen:i.end])
		i.next, i.seen = 0, 0
		n, err := i.Conn.Read(i.buf[i.end:])
		if n == 0 && err != nil {
			return 0, err
		}
		i.end += n
		if err := i.look(); err != nil {
			return 0, err
		}
	}
	n := copy(p, i.buf[i.next:i.seen])
	i.next += n
	return n, nil
}

// more is returned by the functions that look at bytes if what they look for has not come as a whole. They need a frame's
// header, a message's length and room for turnedAway at most, which is far shorter than the buffer.
const more = -1

// look moves seen over everything that can be understood.
func (i *intake) look() error {
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
func (i *intake) lookAtFrame(b []byte) int {
	if len(b) < frameHead {
		return more
	}
	f := parseFrame(b)
	if f.kind != frameData {
		i.skip = f.length
		switch f.kind {
		case frameHeaders, frameContinuation:
			i.headers(f)
		}
		if f.ends() {
			i.clientEnds(f)
		}
		return frameHead
	}
	n, pad := frameHead, 0
	if f.flags&flagPadded != 0 && f.length > 0 {
		if len(b) == frameHead {
			return more
		}
		n, pad = frameHead+1, int(b[frameHead])
	}
	content := f.length - (n - frameHead)
	pad = min(pad, content) // more padding than frame: the server will close the connection
	i.frame, i.data, i.pad = f, content-pad, pad
	if i.data == 0 {
		i.endOfData()
	}
	return n
}

// pass lets n bytes of the present DATA frame through.
func (i *intake) pass(n int) {
	i.skip, i.data = i.skip+n, i.data-n
	if i.data == 0 {
		i.endOfData()
	}
}

// endOfData does what remains once all of a DATA frame is understood.
func (i *intake) endOfData() {
	i.skip += i.pad
	if i.frame.ends() {
		i.clientEnds(i.frame)
	}
}

// lookAtData looks at the rest of a DATA frame, of which b is the beginning.
func (i *intake) lookAtData(b []byte) (int, error) {
	i.mu.Lock()
	if _, open := i.streams[i.frame.stream]; !open { // the call was never begun, or has ended: the server drops its frames
		i.mu.Unlock()
		i.pass(i.data)
		return 0, nil
	}
	m := i.calls[i.frame.stream]
	switch {
	case m == nil:
	case m.left > 0:
		n := min(m.left, i.data)
		if m.left -= n; m.left == 0 && m.held == 0 {
			i.drop(i.frame.stream)
		} else if m.held > 0 {
			m.heard = time.Now().UnixNano()
			if m.left == 0 {
				i.large++
			}
		}
		i.mu.Unlock()
		i.pass(n)
		return 0, nil
	case m.got > 0:
		i.mu.Unlock()
		return i.lookAtPieces(b, m)
	default: // the client sends the next message before an answer, as it does on streams only
		i.drop(i.frame.stream)
	}
	i.mu.Unlock()
	return i.lookAtMessage(b)
}

// lookAtMessage looks at the beginning of a message.
func (i *intake) lookAtMessage(b []byte) (int, error) {
	if i.data < prefixLen {
		m := &message{}
		i.keep(m)
		return i.lookAtPieces(b, m)
	}
	if len(b) < prefixLen {
		return more, nil
	}
	size := int(binary.BigEndian.Uint32(b[1:]))
	whole := prefixLen + size
	if size <= smallMessage && whole <= i.data { // nearly always
		i.pass(whole)
		return 0, nil
	}
	const short = prefixLen + len(turnedAway)
	if i.data >= short && len(b) < short {
		return more, nil
	}
	m := &message{left: max(whole-i.data, 0)}
	if i.counts(size) && !i.draw(m, size) {
		if i.data >= short {
			b[0] = 0
			binary.BigEndian.PutUint32(b[1:], uint32(len(turnedAway)))
			copy(b[prefixLen:], turnedAway[:])
		} else { // turnedAway does not fit into this frame: the server is made to refuse the message as too large
			copy(b, "\x00\xff\xff\xff\xff")
		}
	}
	if m.left > 0 || m.held > 0 {
		i.keep(m)
	}
	i.pass(min(whole, i.data))
	return 0, nil
}

// lookAtPieces looks at a message whose length is spread over frames, which clients do that send many messages at once on a
// stream. What has been passed on of it cannot be changed any more, so a message for which there is no room ends the connection.
func (i *intake) lookAtPieces(b []byte, m *message) (int, error) {
	n := min(prefixLen-m.got, i.data, len(b))
	if err := i.collect(m, b[:n]); err != nil {
		return 0, err
	}
	i.pass(n)
	return 0, nil
}

// collect adds a piece to the length of a message.
func (i *intake) collect(m *message, piece []byte) error {
	i.mu.Lock()
	copy(m.prefix[m.got:], piece)
	if m.got += len(piece); m.got < prefixLen {
		i.mu.Unlock()
		return nil
	}
	size := int(binary.BigEndian.Uint32(m.prefix[1:]))
	m.got, m.left = 0, size
	if size == 0 {
		i.drop(i.frame.stream)
	}
	i.mu.Unlock()
	if !i.counts(size) {
		return nil
	}
	var drawn message
	if !i.draw(&drawn, size) { // without the mutex, because it may look at other connections
		return errNoRoom
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || i.calls[i.frame.stream] != m { // the server has ended the call
		i.release(&drawn)
		return nil
	}
	m.held, m.late, m.heard = drawn.held, drawn.late, drawn.heard
	return nil
}

// counts reports whether a message of that size needs room. One that is larger than any may be does not: the server refuses
// it when it sees its length.
func (i *intake) counts(size int) bool {
	return size > smallMessage && size <= i.port.opts.MaxMessageBytes
}

// draw takes a message's size from the budget, or reports that it is not there. The caller does not hold mu.
func (i *intake) draw(m *message, size int) bool {
	if !i.port.draw(i, int64(size), i.room.Load(), i.port.settled(i.opened, i.large)) {
		return false
	}
	i.room.Add(int64(size))
	m.held, m.heard = int64(size), time.Now().UnixNano()
	m.late = i.port.now.Load() + uint64(i.port.opts.RequestTimeout/time.Second) + uint64(size/slowest)
	return true
}

// keep remembers the present stream's message.
func (i *intake) keep(m *message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		i.release(m)
	}
	i.calls[i.frame.stream] = m
	i.open.Store(int32(len(i.calls)))
}

// drop forgets a stream's message and gives back what it held. The caller holds mu.
func (i *intake) drop(stream uint32) {
	if m := i.calls[stream]; m != nil {
		i.release(m)
		delete(i.calls, stream)
		i.open.Store(int32(len(i.calls)))
	}
}

// release gives back what a message held. The caller holds mu.
func (i *intake) release(m *message) {
	i.port.budget.Add(m.held)
	i.room.Add(-m.held)
	m.held = 0
}

// headers counts a call that begins. One that the server ends at once is counted out like any other.
func (i *intake) headers(f frame) {
	if i.highest == 0 {
		i.port.mu.Lock()
		i.port.unused.remove(i.unused)
		i.port.mu.Unlock()
	}
	i.mu.Lock()
	had, open := i.streams[f.stream]
	begins := f.kind == frameHeaders && f.stream > i.highest && f.stream%2 == 1
	if i.closed || !open && !begins { // trailers of a call that has ended, or frames for which the server ends the connection
		i.mu.Unlock()
		return
	}
	n := min(int64(f.length)*headerCost, maxHeaderCost)
	if begins {
		i.highest = f.stream
		n += callCost
	} else {
		n = min(n, max(callCost+maxHeaderCost-had, 0))
	}
	i.streams[f.stream] = had + n
	i.mu.Unlock()
	held := i.held.Add(n)
	if i.port.calls.Add(-n) < 0 {
		i.port.relieve(i)
	}
	if held > i.port.opts.CallBytes*3/4 { // calls are refused from half on, so this client ignores refusals
		_ = i.Conn.Close() // the read returns the error
	}
}

// ended counts a call out. The caller holds mu.
func (i *intake) ended(stream uint32) {
	if n, open := i.streams[stream]; open {
		delete(i.streams, stream)
		i.held.Add(-n)
		i.port.calls.Add(n)
	}
	i.drop(stream)
}

// clientEnds is called when a frame of the client's ends a stream. A whole message is kept until it is answered, and of a call
// that is wholly here less is held from now on: it waits only for the server.
func (i *intake) clientEnds(f frame) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f.kind == frameReset {
		i.ended(f.stream)
		return
	}
	if n, open := i.streams[f.stream]; open && n >= callCost {
		i.streams[f.stream] = n - callCost + wholeCost
		i.held.Add(wholeCost - callCost)
		i.port.calls.Add(callCost - wholeCost)
	}
	if m := i.calls[f.stream]; m != nil && (m.left > 0 || m.held == 0) {
		i.drop(f.stream)
	}
}

// Write implements net.Conn. It is for one goroutine at a time.
func (i *intake) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		var f frame
		var ok bool
		if rest, f, ok = i.out.next(rest); ok && f.kind == frameData && i.answers.Load() > 0 {
			i.passing(f.length)
		}
		if ok && (f.ends() || i.open.Load() > 0) {
			i.serverSays(f)
		}
	}
	return i.Conn.Write(p)
}

// serverSays gives back what a message held once it is answered.
func (i *intake) serverSays(f frame) {
	if f.kind != frameData && f.kind != frameHeaders && f.kind != frameReset {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if f.ends() { // what the client still sends is dropped
		i.ended(f.stream)
	} else if m := i.calls[f.stream]; m != nil && m.left == 0 && m.got == 0 {
		i.drop(f.stream)
	}
}

// stalled reports whether a message that holds room has taken too long to come.
func (i *intake) stalled(now uint64) bool {
	if i.open.Load() == 0 {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range i.calls { // any order: one is enough
		if m.held > 0 && m.left > 0 && now > m.late {
			return true
		}
	}
	return false
}

// Close implements net.Conn.
func (i *intake) Close() error {
	i.port.mu.Lock()
	delete(i.port.intakes, i)
	i.port.unused.remove(i.unused)
	i.port.mu.Unlock()
	i.mu.Lock()
	if i.closed {
		i.mu.Unlock()
		return i.Conn.Close()
	}
	i.closed = true
	i.port.answers.Add(i.answers.Swap(0))
	for stream := range i.streams { // any order: all are dropped
		i.ended(stream)
	}
	i.mu.Unlock()
	return i.Conn.Close()
}

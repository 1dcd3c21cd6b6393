package intake

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/frame"
)

const (
	// smallMessage is the size of a gRPC message without drawn room: about the size of one frame. Of incomplete ones there is little, and
	// the log's queue bounds the complete ones.
	smallMessage = frame.Max
	// prefixLen is the length of a gRPC message's prefix: a byte that says whether it is compressed and its length.
	prefixLen = 5
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

// message is the last one begun on a stream. The intake's mutex guards it.
type message struct {
	left   int // bytes still to come
	prefix [prefixLen]byte
	got    int   // bytes of prefix, while it comes in pieces
	held   int64 // bytes drawn from the budget
	late   int64 // when it should be whole, in ns since 1970
	heard  int64 // when a part of it came last, in ns since 1970, if it holds room
}

// lookAtData looks at the rest of a DATA frame, of which b is the beginning.
func (i *Conn) lookAtData(b []byte) (int, error) {
	i.mu.Lock()
	if _, open := i.streams[i.frame.Stream]; !open { // the call was never begun, or has ended: the server drops its frames
		i.mu.Unlock()
		i.pass(i.data)
		return 0, nil
	}
	m := i.calls[i.frame.Stream]
	switch {
	case m == nil:
	case m.left > 0:
		n := min(m.left, i.data)
		if m.left -= n; m.left == 0 && m.held == 0 {
			i.drop(i.frame.Stream)
		} else if m.held > 0 {
			m.heard = time.Now().UnixNano()
			if m.left == 0 {
				i.room.Came()
			}
		}
		i.mu.Unlock()
		i.pass(n)
		return 0, nil
	case m.got > 0:
		i.mu.Unlock()
		return i.lookAtPieces(b, m)
	default: // the client sends the next message before an answer, as it does on streams only
		i.drop(i.frame.Stream)
	}
	i.mu.Unlock()
	return i.lookAtMessage(b)
}

// lookAtMessage looks at the beginning of a message.
func (i *Conn) lookAtMessage(b []byte) (int, error) {
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

// lookAtPieces looks at a message whose length is spread over frames, which clients do that send many messages at once on a stream. The
// part already passed on cannot be changed, so a message without room ends the connection.
func (i *Conn) lookAtPieces(b []byte, m *message) (int, error) {
	n := min(prefixLen-m.got, i.data, len(b))
	if err := i.collect(m, b[:n]); err != nil {
		return 0, err
	}
	i.pass(n)
	return 0, nil
}

// collect adds a piece to the length of a message.
func (i *Conn) collect(m *message, piece []byte) error {
	i.mu.Lock()
	copy(m.prefix[m.got:], piece)
	if m.got += len(piece); m.got < prefixLen {
		i.mu.Unlock()
		return nil
	}
	size := int(binary.BigEndian.Uint32(m.prefix[1:]))
	m.got, m.left = 0, size
	if size == 0 {
		i.drop(i.frame.Stream)
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
	if i.closed || i.calls[i.frame.Stream] != m { // the server has ended the call
		i.release(&drawn)
		return nil
	}
	m.held, m.late, m.heard = drawn.held, drawn.late, drawn.heard
	return nil
}

// counts reports whether a message of that size needs room. One that is larger than any may be does not: the server refuses
// it when it sees its length.
func (i *Conn) counts(size int) bool {
	return size > smallMessage && size <= i.opt.MaxMessage
}

// draw takes room for a message of a size, or reports that there is none. The caller does not hold mu.
func (i *Conn) draw(m *message, size int) bool {
	if !i.room.Draw(int64(size)) {
		return false
	}
	m.held, m.heard = int64(size), time.Now().UnixNano()
	m.late = m.heard + int64(i.opt.Patience(size))
	return true
}

// keep remembers the present stream's message. While its room was drawn, the server may have ended the call.
func (i *Conn) keep(m *message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, open := i.streams[i.frame.Stream]; i.closed || !open {
		i.release(m)
		return
	}
	i.calls[i.frame.Stream] = m
	i.open.Store(int32(len(i.calls)))
}

// drop forgets a stream's message and gives back what it held. The caller holds mu.
func (i *Conn) drop(stream uint32) {
	if m := i.calls[stream]; m != nil {
		i.release(m)
		delete(i.calls, stream)
		i.open.Store(int32(len(i.calls)))
	}
}

// release gives back what a message held. The caller holds mu.
func (i *Conn) release(m *message) {
	if m.held > 0 {
		i.room.Return(m.held)
		m.held = 0
	}
}

// Stalled reports whether a message that holds room has taken too long to come.
func (i *Conn) Stalled(now time.Time) bool {
	if i.open.Load() == 0 {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range i.calls { // any order: one is enough
		if m.held > 0 && m.left > 0 && now.UnixNano() > m.late {
			return true
		}
	}
	return false
}

// Whole reports whether all messages that have begun have come whole: nothing is kept waiting if the connection is not read for a while.
func (i *Conn) Whole() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range i.calls { // any order: one is enough
		if m.left > 0 || m.got > 0 {
			return false
		}
	}
	return true
}

// Stuck is how many bytes are held for messages of which nothing has come since a time, in ns since 1970.
func (i *Conn) Stuck(since int64) (n int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range i.calls { // any order: a sum
		if m.held > 0 && m.left > 0 && m.heard < since {
			n += m.held
		}
	}
	return n
}

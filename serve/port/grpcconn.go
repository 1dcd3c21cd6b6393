package port

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/intake"
)

// GRPCWindow is the HTTP/2 window of a connection that the gRPC server behind a Port uses.
const GRPCWindow = 2 << 20

// TurnedAway reports whether the port put this message in the place of one for which there was no room. The gRPC server's codec
// calls it and answers in its own words. The message that was turned away is not kept.
func TurnedAway(message []byte) bool { return intake.TurnedAway(message) }

// grpcConn is a connection of the gRPC server: its intake, and what it holds of what the port's connections share. It is the intake's
// Room.
type grpcConn struct {
	*intake.Conn
	port *Port

	unused    *place // in the port's queue of connections without a call. port.mu guards it.
	dismissed bool   // it has made room and is counted out. port.mu guards it.
	opened    uint64 // second of the port's clock

	large   uint64 // large messages that came whole. Owned by the reading goroutine.
	leaving int    // bytes of answers since took was set. Owned by the writing goroutine.

	room atomic.Int64 // what its messages hold of the budget
	held atomic.Int64 // bytes that open calls hold, and what their handlers hold for them; see From

	answers   atomic.Int64 // bytes of answers that the client has not taken. Changed under answersMu.
	took      atomic.Int64 // when it last took some, in ns since 1970
	answersMu sync.Mutex
	closed    bool // guarded by answersMu: it takes no answer any more
}

var _ intake.Room = (*grpcConn)(nil)

func (p *Port) newGRPCConn(c net.Conn) *grpcConn {
	i := &grpcConn{port: p}
	i.Conn = intake.New(c, i, intake.Options{MaxMessage: p.opts.MaxMessageBytes, Patience: p.patience})
	p.mu.Lock()
	p.grpcConns[i] = struct{}{}
	i.opened = p.now.Load()
	i.unused = p.unused.push(i, i.opened)
	p.mu.Unlock()
	return i
}

// patience is how long a request of a size may take to come.
func (p *Port) patience(size int) time.Duration {
	return p.opts.RequestTimeout + time.Duration(size/slowest)*time.Second
}

// Draw implements intake.Room.
func (i *grpcConn) Draw(n int64) bool {
	if !i.port.draw(i, n, i.room.Load(), i.port.settled(i.opened, i.large)) {
		return false
	}
	i.room.Add(n)
	return true
}

// Return implements intake.Room.
func (i *grpcConn) Return(n int64) {
	i.port.budget.Add(n)
	i.room.Add(-n)
}

// Came implements intake.Room.
func (i *grpcConn) Came() { i.large++ }

// First implements intake.Room.
func (i *grpcConn) First() {
	i.port.mu.Lock()
	i.port.unused.remove(i.unused)
	i.port.mu.Unlock()
}

// Open implements intake.Room.
func (i *grpcConn) Open(n int64) {
	held := i.held.Add(n)
	if i.port.calls.Add(-n) < 0 {
		i.port.relieve(i)
	}
	if held > i.port.opts.CallBytes*3/4 { // calls are refused from half on, so this client ignores refusals
		i.Cut()
	}
}

// Done implements intake.Room.
func (i *grpcConn) Done(n int64) {
	i.held.Add(-n)
	i.port.calls.Add(n)
}

// Leaves implements intake.Room: it notes how much of answers leaves.
func (i *grpcConn) Leaves(n int) {
	if i.answers.Load() == 0 {
		return
	}
	if i.leaving += n; i.leaving >= untakenPiece {
		i.leaving = 0
		i.took.Store(time.Now().UnixNano())
	}
}

// Close implements net.Conn.
func (i *grpcConn) Close() error {
	i.port.mu.Lock()
	delete(i.port.grpcConns, i)
	i.port.unused.remove(i.unused)
	i.port.mu.Unlock()
	i.answersMu.Lock()
	if !i.closed {
		i.closed = true
		i.port.answers.Add(i.answers.Swap(0))
	}
	i.answersMu.Unlock()
	return i.Conn.Close()
}

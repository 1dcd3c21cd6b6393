package port

import (
	"net"
	"net/netip"
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

// grpcConn is a connection of the gRPC server, with its intake and its part of the room that the port's connections share. It is the
// intake's Room.
type grpcConn struct {
	*intake.Conn
	port *Port

	unused    *place // in the port's queue of connections without a call. port.mu guards it.
	dismissed bool   // it has made room and is counted out. port.mu guards it.
	opened    uint64 // second of the port's clock

	large   uint64 // large messages that came whole. Owned by the reading goroutine.
	leaving int    // bytes of answers since took was set. Owned by the writing goroutine.

	account              // the room of its open calls; see From
	at      *siteAccount // the same of all connections of its address
	site    netip.Addr   // that address

	room    atomic.Int64  // the budget held by its messages
	writing atomic.Uint64 // 1 + second of the port's clock when the write that waits began; 0: none waits
	replied atomic.Bool   // a part of an answer has been written
	quiet   atomic.Uint64 // second of the port's clock when its last call ended

	answers   atomic.Int64 // bytes of answers that the client has not taken. Changed under answersMu.
	took      atomic.Int64 // when it last took some, in ns since 1970
	answersMu sync.Mutex
	closed    bool // guarded by answersMu: it takes no answer any more
}

var _ intake.Room = (*grpcConn)(nil)

func (p *Port) newGRPCConn(c net.Conn) *grpcConn {
	i := &grpcConn{port: p, site: Site(c.RemoteAddr())}
	i.Conn = intake.New(c, i, intake.Options{MaxMessage: p.opts.MaxMessageBytes, Patience: p.patience, Now: p.now.Load})
	p.mu.Lock()
	p.grpcConns[i] = struct{}{}
	i.at = p.enterSite(i.site)
	i.opened = p.now.Load()
	i.unused = p.unused.push(i, i.site, i.opened)
	p.mu.Unlock()
	return i
}

// patience is how long a request of a size may take to come.
func (p *Port) patience(size int) time.Duration {
	return p.opts.RequestTimeout + time.Duration(size/slowest)*time.Second
}

// Draw implements intake.Room.
func (i *grpcConn) Draw(n int64) bool {
	settled := i.port.settled(i.opened, i.large)
	patience := i.port.opts.MessagePatience
	if !i.port.draw(i, n, i.room.Load(), settled) && (patience == 0 || !i.Whole() || !i.port.await(n, i.site, settled, patience)) {
		return false
	}
	i.room.Add(n)
	return true
}

// Return implements intake.Room.
func (i *grpcConn) Return(n int64) {
	i.room.Add(-n)
	i.port.returnRoom(n)
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
	i.charge(n)
	if all := i.port.callRoom(); i.passing() > all/2 { // calls are refused from a quarter on, so this client ignores refusals
		i.Cut()
	} else if i.port.calls.Load() > all {
		i.port.relieve(i)
	}
}

// Done implements intake.Room.
func (i *grpcConn) Done(n int64) {
	i.charge(-n)
	if i.held.Load() == 0 {
		i.quiet.Store(i.port.now.Load())
	}
}

// Write implements net.Conn. It notes since when it waits for the client.
func (i *grpcConn) Write(b []byte) (int, error) {
	i.writing.Store(i.port.now.Load() + 1)
	n, err := i.Conn.Write(b)
	i.writing.Store(0)
	return n, err
}

// Leaves implements intake.Room: it notes that answers leave, and how much of them.
func (i *grpcConn) Leaves(n int) {
	if !i.replied.Load() {
		i.replied.Store(true)
	}
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
	if _, first := i.port.grpcConns[i]; first {
		delete(i.port.grpcConns, i)
		i.port.leaveSite(i.site)
	}
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

package port

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// replayed is a connection whose first bytes have been read already. Read is for one goroutine at a time, as ever.
type replayed struct {
	net.Conn
	head []byte
}

// NetConn is the connection below.
func (c *replayed) NetConn() net.Conn { return c.Conn }

func (c *replayed) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		if c.head = c.head[n:]; len(c.head) == 0 {
			c.head = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// The state of an HTTP/1.1 connection, as the warden sees it.
const (
	busy    = iota // a handler has it, or bytes have just arrived
	idle           // waiting for the first byte of a request
	reading        // waiting for the rest of a request
	writing        // waiting for the client to take an answer
)

// client is an HTTP/1.1 connection as fasthttp sees it.
//
// It counts instead of setting deadlines: its state, and the time since when, is one atomic word that the port's warden looks at every
// second. Two deadlines per request, the usual way, are two calls into the runtime's timers on the hottest path of the v2 API.
//
// The fields without a lock belong to the goroutine that serves the connection.
type client struct {
	net.Conn
	raw  net.Conn // the connection below TLS, or Conn itself
	port *Port
	site netip.Addr // of the client; see Site
	head []byte     // read by the sniffer, not yet by the server
	scan headScan   // of the first request: where later ones begin is known to the server alone

	state atomic.Uint64 // second of the port's clock << 2 | what it waits for: since that second, but reading until it
	turn  atomic.Uint64 // the order in which idle connections make room; see Read

	room  atomic.Int64 // held, for others to see
	heard atomic.Int64 // when a part of a request that holds room came last, in ns since 1970

	replied atomic.Bool // an answer, or a part of one, has been written

	owner   atomic.Uint32 // serving, taken or closed
	evicted bool          // it was closed to make room and is counted out. port.mu guards it.

	asked   uint64 // requests so far
	arrived int    // bytes since the last answer
	began   uint64 // when the first of them came, in seconds of the port's clock
	held    int    // bytes taken from the port's budget for them
	opened  uint64 // second of the port's clock
	large   uint64 // requests before that had drawn from the budget and came whole

	answers   atomic.Int64 // bytes of answers held; written under answersMu
	took      atomic.Int64 // when the client last took some, in ns since 1970
	answersMu sync.Mutex
	left      bool // the connection has ended: nothing is held for it any more. answersMu guards it.

	leaving leaving
	// lent is set while a stream has the connection instead of fasthttp; it reports whether the connection goes on.
	lent chan bool
	// refused: the request was refused before it was read, so the client may still be sending.
	refused bool
	// fenced makes Read fail, so that only what has been read ahead is used.
	fenced bool
}

// The owner of a connection.
const (
	serving = iota // the port
	taken          // a handler that answers later
	closed
)

// leaving tells a handler that its client went away: a goroutine reads the socket while nothing else does.
type leaving struct {
	mu      sync.Mutex
	gone    chan struct{} // nil: not watched; closed when the client left
	ended   chan struct{} // closed when the watching goroutine has released the socket
	early   []byte        // bytes read instead of an end: the beginning of the next request
	aborted bool
}

var (
	errBusy    = errors.New("too many unfinished requests")
	errTooLong = errors.New("request too long")
	errBareLF  = errors.New("a line that ends with a line feed alone")
)

const (
	// smallRequest is the memory of an unfinished request that a connection may hold without drawing from the budget.
	smallRequest = 64 << 10
	// slowest is how many bytes of a request, or of an answer's piece, are a second's worth of progress.
	slowest = 16 << 10
	// leastRate is how many bytes of a request must come in a second, once it has taken longer than a new connection may be silent.
	leastRate = 512
	// piece is how much of an answer is written at a time: each piece that leaves is progress.
	piece = 256 << 10
)

// Read implements net.Conn.
func (c *client) Read(p []byte) (int, error) {
	if c.fenced {
		return 0, io.EOF
	}
	if c.leaving.gone != nil {
		c.unwatch()
	}
	// A server that has allocated room for a whole body asks for all of it. So len(p) is the memory the request holds, even if none of it
	// has come.
	if err := c.draw(c.arrived + len(p)); err != nil {
		return 0, err
	}
	n := copy(p, c.head)
	if n > 0 {
		c.head = c.head[n:]
	} else {
		if c.arrived == 0 {
			c.answered(false)
			if c.port.draining.Load() {
				return 0, io.EOF
			}
			// Idle connections make room in the order in which they became idle. Requests on a connection count as if it had become idle
			// later. A flood of connections with one request each then does not push out those in use.
			c.turn.Store(c.port.accepted.Load() + min(c.asked, 1000)*64)
			c.asked++
			c.mark(idle, c.port.now.Load())
		} else {
			// Bytes that arrive extend the time, so that a large request on a slow connection is not cut while it makes
			// progress.
			c.mark(reading, c.port.due(c.began, c.arrived))
		}
		var err error
		if n, err = c.Conn.Read(p); n <= 0 {
			return n, err
		}
		c.mark(busy, 0)
	}
	if c.arrived == 0 {
		c.began = c.port.now.Load()
	}
	begins := c.arrived == 0
	c.arrived += n
	if begins {
		if err := c.expect(announced(p[:n])); err != nil {
			return n, err
		}
	}
	if c.asked == 0 && c.scan.scan(p[:n]) {
		return n, errBareLF
	}
	if c.held > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	if c.arrived > c.port.maxRequest {
		return 0, errTooLong
	}
	return n, nil
}

// Write implements net.Conn. The first byte of an answer ends the request before it, as far as bounds go.
func (c *client) Write(p []byte) (int, error) {
	c.arrived = 0
	if !c.replied.Load() {
		c.replied.Store(true)
	}
	if c.held > 0 {
		c.large++
	}
	c.giveBack()
	var written int
	for {
		c.mark(writing, c.port.now.Load())
		n, err := c.Conn.Write(p[written:min(len(p), written+piece)])
		written += n
		if c.answers.Load() > 0 {
			c.took.Store(time.Now().UnixNano())
		}
		if err != nil || written == len(p) {
			c.mark(busy, 0)
			return written, err
		}
	}
}

// writeSlowly is Write in pieces so small that a client with a slow line is seen to take them.
func (c *client) writeSlowly(p []byte) error {
	for len(p) > 0 {
		n, err := c.Write(p[:min(len(p), untakenPiece)])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// resume takes over what fasthttp has read ahead, so that the connection can be served from its beginning again.
func (c *client) resume(rest io.Reader) error {
	if c.leaving.gone != nil {
		c.unwatch()
	}
	c.fenced = true
	ahead, err := io.ReadAll(rest)
	c.fenced = false
	c.head = append(ahead, c.head...)
	return err
}

// served is the connection a request came on.
func served(ctx *fasthttp.RequestCtx) *client {
	if c := clientOf(ctx); c != nil {
		return c
	}
	panic("this request did not come through a port")
}

// clientOf is served, nil for a request that did not come through a port.
func clientOf(ctx *fasthttp.RequestCtx) *client {
	switch c := ctx.Conn().(type) {
	case *client:
		return c
	case *secret:
		return &c.client
	}
	return nil
}

// Close implements net.Conn. A connection a handler had taken is counted out.
func (c *client) Close() error {
	if c.owner.Swap(closed) == taken {
		c.port.release(c.site)
	}
	if c.refused {
		linger(c.Conn)
	}
	return c.Conn.Close()
}

// cut ends the connection from another goroutine; the serving goroutine sees the error. It does not say goodbye in TLS's way, which would
// wait for a client that may not be reading.
func (c *client) cut() { _ = c.raw.Close() }

func (c *client) mark(what, second uint64) { c.state.Store(second<<2 | what) }

// draw takes the room of a request of n bytes from the budget that all unfinished requests share.
func (c *client) draw(n int) error {
	if n <= smallRequest || n <= c.held {
		return nil
	}
	if !c.port.draw(nil, int64(n-c.held), int64(c.held), c.port.settled(c.opened, c.large)) {
		return errBusy
	}
	c.hold(n)
	return nil
}

// expect takes the room for a request whose head announces a body of so many bytes, and waits for it if it must. The server allocates the
// whole body as soon as it knows its length.
func (c *client) expect(body int) error {
	n := c.arrived + body
	if body == 0 || body > c.port.opts.MaxBodyBytes || n <= smallRequest { // one that is too long is refused by its length
		return nil
	}
	c.mark(busy, 0) // it waits for the port, and not for the client
	if !c.port.await(int64(n), c.site, c.port.settled(c.opened, c.large), c.port.opts.RoomPatience) {
		return errBusy
	}
	c.hold(n)
	c.began = c.port.now.Load() // the client was not read meanwhile
	return nil
}

// hold notes that room for n bytes has been taken.
func (c *client) hold(n int) {
	c.held = n
	c.heard.Store(time.Now().UnixNano())
	c.room.Store(int64(n))
}

func (c *client) giveBack() {
	if c.held > 0 {
		c.room.Store(0)
		n := int64(c.held)
		c.held = 0
		c.port.returnRoom(n)
	}
}

// Gone returns a channel that is closed when the client leaves while its request is being handled. Handlers that wait for something else
// than the log (a watch, a lock) must wait for it too, or they outlive their client. The handler of a request may call it any number of
// times until it returns. The watching ends by itself with the next read.
func (c *client) Gone() <-chan struct{} {
	l := &c.leaving
	if l.gone != nil {
		return l.gone
	}
	l.gone, l.ended, l.aborted = make(chan struct{}), make(chan struct{}), false
	if len(c.head) > 0 { // the next request is here already
		close(l.ended)
		return l.gone
	}
	go func(gone, ended chan struct{}) {
		defer close(ended)
		var b [1]byte
		n, err := c.Conn.Read(b[:])
		l.mu.Lock()
		defer l.mu.Unlock()
		if n > 0 {
			l.early = append(l.early, b[:n]...)
			return
		}
		if err != nil && !l.aborted {
			close(gone)
		}
	}(l.gone, l.ended)
	return l.gone
}

// unwatch takes the socket back from the watching goroutine.
func (c *client) unwatch() {
	l := &c.leaving
	l.mu.Lock()
	l.aborted = true
	l.mu.Unlock()
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // a connection that cannot is closed, and then the read has ended anyway
	<-l.ended
	_ = c.Conn.SetReadDeadline(time.Time{})
	l.gone, l.ended = nil, nil
	if len(l.early) > 0 {
		c.head, l.early = append(l.early, c.head...), nil
	}
}

// secret is a client whose connection is TLS: fasthttp and handlers ask for its state by these methods.
type secret struct {
	client
	tls *tls.Conn
}

// Handshake was made by the port.
func (s *secret) Handshake() error { return nil }

// ConnectionState is the negotiated state, the client's certificate included.
func (s *secret) ConnectionState() tls.ConnectionState { return s.tls.ConnectionState() }

// handoff is a listener that accepts what the port gives it.
type handoff struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
}

func newHandoff(addr net.Addr) *handoff {
	return &handoff{conns: make(chan net.Conn), closed: make(chan struct{}), addr: addr}
}

// give hands c over or closes it.
func (h *handoff) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		_ = c.Close() // no server accepts it any more
	}
}

// Accept implements net.Listener.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handoff) Addr() net.Addr { return h.addr }

package wire

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/bell"
)

// conn is one client's connection. Its fields belong to the goroutine of serve; what follows the blank line is guarded by mu.
type conn struct {
	server  *Server
	raw     net.Conn // the socket
	nc      net.Conn // the socket, or TLS over it
	id      uint32
	socket  *socket
	in      input
	out     output
	client  Client
	nonce   [nonceBytes]byte
	account Account // that was proved last
	session Session
	stmts   map[uint32]*statement
	lastID  uint32    // of a statement
	params  []Param   // of the statement that runs; kept for the next one
	direct  int       // statements that ran one behind the other without waiting for the client
	long    int       // bytes of all parameters that were sent in pieces
	dueAt   time.Time // the read deadline that was set; zero: another one is set
	parent  context.Context
	hold    func() error    // made once: a statement costs no allocation for it
	holds   context.Context // of the command whose answer hold holds
	last    bool            // the answer that is built is the last one
	past    atomic.Bool     // the deadline for sending is past

	mu      sync.Mutex
	ctx     context.Context // of statements, until one of them is interrupted
	cancel  context.CancelFunc
	running bool   // a statement runs
	ran     uint64 // statements that have begun
	seen    uint64 // ran, as the sentry last saw it
	killed  bool   // the connection is to end
}

// deadlined sends with a deadline for each piece. It is renewed when a sixteenth of the timeout has gone by, so that most pieces set none.
type deadlined struct {
	nc      net.Conn
	timeout time.Duration
	due     time.Time
	past    *atomic.Bool // another goroutine has set a deadline that is past
}

func (d *deadlined) Write(b []byte) (int, error) {
	if due := time.Now().Add(d.timeout); due.Sub(d.due) > d.timeout/16 || d.past.Load() {
		d.past.Store(false)
		if err := d.nc.SetWriteDeadline(due); err != nil {
			return 0, err
		}
		d.due = due
	}
	return d.nc.Write(b)
}

func (c *conn) serve(ctx context.Context) {
	c.parent, c.raw = ctx, c.nc
	c.hold = func() error { return c.session.Hold(c.holds) }
	stop := context.AfterFunc(ctx, func() { c.interrupt(true) })
	defer func() {
		stop()
		for _, s := range c.stmts { // any order: each is freed by itself
			c.free(s)
		}
		if c.session != nil {
			c.server.leave(c)
			c.session.Close()
		}
		c.in.end()
		_ = c.nc.Close() // nothing is left to be sent
	}()
	c.socket = newSocket(c.nc)
	c.in = input{from: c.socket, room: c.server.Room, most: loginBytes}
	c.out = output{to: &deadlined{nc: c.nc, timeout: orElse(c.server.WriteTimeout, defaultWriteTimeout), past: &c.past}}
	if !c.login(ctx) {
		return
	}
	c.in.most = orElse(c.server.MaxPacket, defaultMaxPacket)
	c.in.slow = func() error {
		c.dueAt = time.Time{}
		return c.readBy(time.Now().Add(orElse(c.server.ReadTimeout, defaultReadTimeout)))
	}
	for c.command() {
	}
}

// login greets the client and makes its session. false: the connection ends.
func (c *conn) login(ctx context.Context) bool {
	if c.nc.SetReadDeadline(time.Now().Add(orElse(c.server.LoginTimeout, defaultLoginTimeout))) != nil {
		return false
	}
	l, err := c.handshake()
	if err == nil {
		err = c.prove(l)
	}
	if err == nil {
		c.client.AccountHost = c.account.Host
		c.session, err = c.server.Open(ctx, &c.client)
	}
	if err == nil {
		c.server.enter(c)
		if c.server.Entered != nil {
			c.server.Entered(c.raw)
		}
		c.ok(0, Done{}, c.session.Status())
		c.out.flush()
		err = c.out.err
	} else {
		c.ends(err)
	}
	return err == nil
}

// handshake greets the client and reads its login.
func (c *conn) handshake() (*login, error) {
	g := greeting{version: c.server.Version, id: c.id, capabilities: announced, collation: c.server.Collation, status: Autocommit,
		plugin: c.server.plugin()}
	if c.server.TLS != nil {
		g.capabilities |= useTLS
	}
	c.nonce = newNonce()
	g.nonce = c.nonce
	c.packet(g.append)
	c.client.Capabilities = protocol41
	c.in.seq = 1
	c.out.flush()
	if c.out.err != nil {
		return nil, c.out.err
	}
	for {
		b, err := c.in.next()
		if err != nil {
			return nil, err
		}
		c.out.seq = c.in.seq
		f := fields{b: b}
		l, err := parseStart(&f)
		if err != nil {
			return nil, Errorf(ErrHandshake, "Bad handshake")
		}
		if l.capabilities&useTLS != 0 && c.server.TLS != nil && !c.client.TLS {
			if err := c.startTLS(); err != nil {
				return nil, err
			}
			continue
		}
		if c.server.TLS != nil && !c.client.TLS && HostOf(c.nc.RemoteAddr()) != localhost {
			return nil, Errorf(ErrCleartext, "Connections using insecure transport are prohibited while --require_secure_transport=ON.")
		}
		if err := l.parse(&f); err != nil {
			return nil, Errorf(ErrHandshake, "Bad handshake")
		}
		l.capabilities &= announced
		c.client = Client{ID: c.id, User: l.user, Database: l.database, Addr: c.nc.RemoteAddr(),
			TLS: c.client.TLS, TLSVersion: c.client.TLSVersion, TLSCipher: c.client.TLSCipher,
			Capabilities: l.capabilities, Collation: l.collation, Attributes: l.attributes}
		return &l, nil
	}
}

// startTLS goes on over TLS. What the client has sent behind its request for TLS is the beginning of the TLS handshake.
func (c *conn) startTLS() error {
	early := append([]byte(nil), c.in.buf[c.in.r:c.in.w]...)
	t := tls.Server(&prefixed{Conn: c.nc, from: c.socket, early: early}, c.server.TLS)
	if err := t.Handshake(); err != nil {
		return err
	}
	st := t.ConnectionState()
	c.client.TLS, c.client.TLSVersion, c.client.TLSCipher = true, tls.VersionName(st.Version), tls.CipherSuiteName(st.CipherSuite)
	c.nc = t
	c.in.from, c.in.r, c.in.w = t, 0, 0
	c.out.to = &deadlined{nc: t, timeout: orElse(c.server.WriteTimeout, defaultWriteTimeout), past: &c.past}
	return nil
}

// prefixed is a connection of which some bytes were read already.
type prefixed struct {
	net.Conn
	from  io.Reader // reads from Conn
	early []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.early) > 0 {
		n := copy(b, p.early)
		p.early = p.early[n:]
		return n, nil
	}
	return p.from.Read(b)
}

func (s *Server) plugin() string {
	if s.Plugin == "" {
		return CachingSHA2
	}
	return s.Plugin
}

// ends tells the client why the connection ends, as far as it can be told.
func (c *conn) ends(err error) {
	var e *Error
	switch {
	case errors.As(err, &e):
	case c.isKilled():
		e = Errorf(ErrShutdown, "Server shutdown in progress")
	case errors.Is(err, errTooLarge):
		e = Errorf(ErrPacketTooLarge, "Got a packet bigger than 'max_allowed_packet' bytes")
	case errors.Is(err, errOutOfOrder):
		e = Errorf(ErrOutOfOrder, "Got packets out of order")
	case errors.Is(err, errNoRoom):
		e = Errorf(ErrOutOfMemory, "Out of memory for packets; try again, or raise the server's --memory")
	case c.session != nil && isTimeout(err):
		e = Errorf(ErrIdle, "The client was disconnected by the server because of inactivity. See wait_timeout and interactive_timeout for configuring this behavior.")
	default:
		return // the connection is gone, or what came over it was no MySQL
	}
	c.out.seq = c.in.seq
	c.fail(e)
	c.out.flush()
	c.linger()
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// linger reads and drops what the client still sends, for a second and 16 MiB at most. Closing at once would reset the connection, and the
// client would lose the error that was just sent.
func (c *conn) linger() {
	if c.nc.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.CopyN(io.Discard, c.nc, chunkBytes) // however it ends, the connection is closed next
	}
}

var errKilled = errors.New("the connection was killed")

// readBy sets the read deadline, where the connection is not killed.
func (c *conn) readBy(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errKilled
	}
	return c.nc.SetReadDeadline(t)
}

// idle sets the deadline for the next command. It is renewed when a sixteenth of the timeout has gone by, so that most commands set none.
func (c *conn) idle() error {
	timeout := orElse(c.server.IdleTimeout, defaultIdleTimeout)
	due := time.Now().Add(timeout)
	if due.Sub(c.dueAt) <= timeout/16 {
		return nil
	}
	c.dueAt = due
	return c.readBy(due)
}

// command reads a command, runs it and sends its answer. false: the connection ends.
func (c *conn) command() bool {
	c.in.rest()
	c.in.seq = 0
	c.takeTurns()
	err := c.idle()
	var b []byte
	if err == nil {
		b, err = c.in.next()
	}
	c.out.seq = c.in.seq
	if err != nil {
		c.ends(err)
		return false
	}
	ctx, ok := c.start()
	if !ok {
		c.ends(errKilled)
		return false
	}
	prepared := c.lastID
	if len(b) > 0 && shows[b[0]] {
		c.holds = ctx
		c.out.holding(c.hold)
	}
	more := c.run(ctx, b)
	if err := c.out.released(); err != nil {
		if s := c.stmts[c.lastID]; s != nil && c.lastID != prepared { // the client never hears its number
			delete(c.stmts, c.lastID)
			c.free(s)
		}
		c.fail(asError(err))
	}
	if c.stop(); c.isKilled() {
		more = false
	}
	c.out.flush()
	c.out.rest()
	return more && !c.last && c.out.err == nil
}

// takeTurns lets others go first where the client never lets the connection wait.
func (c *conn) takeTurns() {
	if c.direct++; c.socket.waited {
		c.direct, c.socket.waited = 0, false
	}
	if c.direct >= straightStatements {
		c.direct = 0
		bell.StandBack()
	}
}

// start begins a statement and returns its context. false: the connection was killed. The context is made anew only after an interruption, so
// that a statement costs no allocation for it.
func (c *conn) start() (context.Context, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil {
		c.ctx, c.cancel = context.WithCancel(c.parent)
	}
	c.running = true
	c.ran++
	return c.ctx, !c.killed
}

func (c *conn) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	if c.killed {
		c.cancel()
	}
}

func (c *conn) isKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

// interrupt ends the context of the statement that runs. whole ends the connection too: the read of the next command fails at once, and so does
// a write that waits for a client that does not read.
func (c *conn) interrupt(whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		c.cancel()
	}
	if whole {
		c.killed = true
		_ = c.raw.SetDeadline(time.Unix(1, 0)) // if it fails, the connection is closed already
		c.past.Store(true)                     // the error is sent all the same
	}
}

// packet builds one packet.
func (c *conn) packet(payload func([]byte) []byte) {
	c.out.begin()
	c.out.buf = payload(c.out.buf)
	c.out.end()
}

// ok builds an OK packet. header is 0, or 0xfe where the packet stands for an EOF packet.
func (c *conn) ok(header byte, d Done, s Status) {
	o := &c.out
	o.begin()
	o.buf = append(o.buf, header)
	o.buf = appendInt(o.buf, d.Affected)
	o.buf = appendInt(o.buf, d.InsertID)
	o.buf = binary.LittleEndian.AppendUint16(o.buf, uint16(s))
	o.buf = binary.LittleEndian.AppendUint16(o.buf, d.Warnings)
	if d.Info != "" {
		o.buf = appendString(o.buf, d.Info)
	}
	o.end()
}

// eof ends a list. A client that does without EOF packets gets an OK packet.
func (c *conn) eof(warnings uint16, s Status) {
	if c.client.Capabilities&deprecateEOF != 0 {
		c.ok(0xfe, Done{Warnings: warnings}, s)
		return
	}
	c.shortEOF(warnings, s)
}

func (c *conn) shortEOF(warnings uint16, s Status) {
	o := &c.out
	o.begin()
	o.buf = append(o.buf, 0xfe)
	o.buf = binary.LittleEndian.AppendUint16(o.buf, warnings)
	o.buf = binary.LittleEndian.AppendUint16(o.buf, uint16(s))
	o.end()
}

// define sends definitions of columns, and an EOF packet behind them to a client that wants it.
func (c *conn) define(columns []Column, s Status) {
	for i := range columns {
		c.out.begin()
		c.out.buf = columns[i].append(c.out.buf)
		c.out.end()
	}
	if c.client.Capabilities&deprecateEOF == 0 {
		c.shortEOF(0, s)
	}
}

// fail builds an ERR packet.
func (c *conn) fail(e *Error) {
	o := &c.out
	o.begin()
	o.buf = append(o.buf, 0xff, byte(e.Code), byte(e.Code>>8))
	if c.client.Capabilities&protocol41 != 0 {
		o.buf = append(append(o.buf, '#'), e.State...)
	}
	o.buf = append(o.buf, e.Message...)
	o.end()
}

package port

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Options of a Port. The zero value of a number stands for the default beside it.
type Options struct {
	// Name is the door's, for operators; "": they are not told of its open calls.
	Name string
	// HTTP1 answers HTTP/1.1 requests. Its RequestCtx.Conn has a method Gone, see Gone.
	HTTP1 fasthttp.RequestHandler
	// HTTP2 answers requests of clients that negotiated h2 inside TLS and do not speak gRPC.
	HTTP2 http.Handler
	// RoomPatience is how long an HTTP/1.1 request may wait for room before its body is read. 0 = RequestTimeout, at most 7 s.
	RoomPatience time.Duration
	// MessagePatience is how long a gRPC connection on which no other request is coming may wait for room for a message. 0: not at all, which is for
	// doors whose clients send heartbeats beside large requests.
	MessagePatience time.Duration
	// Refusal is the answer to an HTTP/1.1 request that the port refuses by itself, with its type, in the door's own form. Nil: text.
	Refusal func(code int, text string) (contentType string, body []byte)
	// MaxConns bounds connections of every kind where Conns is nil. 0 = three quarters of the files this process may open: a member that
	// can open no more files cannot write its log either. ConnLimit decides which connections make room and which are refused.
	MaxConns int
	// Conns bounds the connections of this port and of others together, instead of MaxConns; nil: of this one only.
	Conns *ConnLimit
	// MaxBodyBytes bounds the body of one HTTP request. 0 = 4 MiB.
	MaxBodyBytes int
	// MaxMessageBytes bounds one message of the gRPC server. 0 = 4 MiB, its default.
	MaxMessageBytes int
	// BudgetBytes bounds the memory of all unanswered gRPC messages over 16 KiB and unfinished HTTP/1.1 requests over 64 KiB together. A
	// request beyond it waits for RoomPatience and is refused then: HTTP/1.1 with 503, gRPC by the server's codec, see TurnedAway. 0 = 32
	// MiB.
	BudgetBytes int64
	// CallBytes bounds the memory of gRPC calls that are open, with their headers, and of what their handlers hold for them
	// (From): see crowd.go. 0 = 64 MiB.
	CallBytes int64
	// CallRoom says how many bytes of open calls there may be at the moment, where others lend to them; nil: CallBytes. Any goroutine.
	CallRoom func() int64
	// AnswerBytes bounds the gRPC server's answers that clients have not taken, as far as its handlers ask (TakeAnswer). 0 = 48 MiB.
	AnswerBytes int64
	// SilenceTimeout is how long a new connection may wait before its first bytes, and how long an HTTP/1.1 request may come more slowly
	// than leastRate. 0 = 10 s.
	SilenceTimeout time.Duration
	// IdleTimeout is how long an HTTP connection may be kept alive between requests. 0 = 5 minutes.
	IdleTimeout time.Duration
	// RequestTimeout is how long a request may take to arrive, and how long the client may leave part of an answer
	// untaken. Requests over 64 KiB and messages get a second more for each 16 KiB. 0 = 30 s.
	RequestTimeout time.Duration
}

func (o *Options) fill() {
	if o.MaxConns == 0 {
		o.MaxConns = OpenFiles() / 4 * 3
	}
	if o.Conns == nil {
		o.Conns = NewConnLimit(o.MaxConns)
	}
	if o.MaxBodyBytes == 0 {
		o.MaxBodyBytes = 4 << 20
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = 4 << 20
	}
	if o.BudgetBytes == 0 {
		o.BudgetBytes = 32 << 20
	}
	if o.CallBytes == 0 {
		o.CallBytes = 64 << 20
	}
	if o.AnswerBytes == 0 {
		o.AnswerBytes = 48 << 20
	}
	if o.SilenceTimeout == 0 {
		o.SilenceTimeout = 10 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 5 * time.Minute
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 30 * time.Second
	}
	if o.RoomPatience == 0 {
		o.RoomPatience = min(o.RequestTimeout, 7*time.Second)
	}
}

// Port shares listeners among gRPC, JSON and HTTP/1.1. Its methods may be called from several goroutines.
type Port struct {
	opts       Options
	maxRequest int // bytes of one request with its headers and chunk marks
	grpc       *handoff
	json       *handoff // h2 that is not gRPC
	http1      [2]*fasthttp.Server
	http2      *http.Server

	now      atomic.Uint64 // seconds since New, as the warden counts them
	accepted atomic.Uint64 // connections so far
	shares
	draining  atomic.Bool
	askers    askers
	inflaters *inflaters
	stop      chan struct{} // closed by Shutdown
	stopOnce  sync.Once
	runOnce   sync.Once
	wg        sync.WaitGroup // every goroutine of this package but those of the two servers

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     int                    // of every kind
	silent    queue                  // connections whose protocol is not known yet, the oldest first
	unused    queue                  // connections of the gRPC server on which no call was ever begun, the oldest first
	clients   map[*client]struct{}   // HTTP/1.1 connections
	grpcConns map[*grpcConn]struct{} // connections of the gRPC server
	web       webConns               // HTTP/2 connections that are not the gRPC server's; it has a mutex of its own
	sites     map[netip.Addr]*siteAccount
}

// shares is the memory that the connections of a port share, and when it was last looked who holds too much of it.
type shares struct {
	budget   atomic.Int64 // the rest for requests
	calls    atomic.Int64 // the room of open calls; above their bound for moments
	waitRoom roomQueue    // the requests that wait for budget
	lent     callRoom
	answers  atomic.Int64 // the rest for answers
	untaken  atomic.Int64 // when a connection that takes no answer was last looked for, in ns since 1970
	evicted  atomic.Int64 // when a connection whose request does not arrive was last looked for, in ns since 1970
	cut      atomic.Int64 // when one was closed for its room, in ns since 1970
	relieved atomic.Int64 // when a connection that holds too much was last looked for, in ns since 1970
}

// New makes a port. Nothing is served until Serve; a gRPC server must serve GRPC before.
func New(opts Options) *Port {
	opts.fill()
	p := &Port{opts: opts, grpc: newHandoff(inProcess{}), json: newHandoff(inProcess{}), stop: make(chan struct{}),
		inflaters: newInflaters(), askers: askers{came: make(chan struct{}, 64)},
		listeners: make(map[net.Listener]struct{}), clients: make(map[*client]struct{}), grpcConns: make(map[*grpcConn]struct{}), sites: make(map[netip.Addr]*siteAccount)}
	p.maxRequest = opts.MaxBodyBytes + opts.MaxBodyBytes/2 + 1<<20
	p.budget.Store(opts.BudgetBytes)
	p.answers.Store(opts.AnswerBytes)
	p.http1[0], p.http1[1] = p.newHTTP1(false), p.newHTTP1(true)
	p.http2 = p.newHTTP2()
	opts.Conns.joinPort(p)
	return p
}

// GRPC is where the gRPC server accepts the connections that are its own. Its Addr has no meaning. The server must give each
// connection a window of GRPCWindow and needs no buffer to read.
func (p *Port) GRPC() net.Listener { return p.grpc }

// Protocols are the protocols of one listener.
type Protocols struct {
	TLS            *tls.Config // nil: cleartext. NextProtos is set by the port.
	AlsoPlain      bool        // with TLS: clients in cleartext are served, too
	NoGRPC, NoHTTP bool
}

// Serve accepts connections on l until Shutdown, which makes it return nil; any other error is the listener's. It may be
// called for several listeners at once.
func (p *Port) Serve(l net.Listener, offer Protocols) error {
	p.runOnce.Do(func() {
		p.wg.Go(p.warden)
		p.wg.Go(func() { _ = p.http2.Serve(p.json) }) // ends by Shutdown
	})
	p.mu.Lock()
	if p.draining.Load() {
		p.mu.Unlock()
		return l.Close()
	}
	p.listeners[l] = struct{}{}
	p.mu.Unlock()
	offer.TLS = withProtocols(offer)

	var pause time.Duration
	for {
		c, err := l.Accept()
		if err != nil {
			if p.draining.Load() {
				return nil
			}
			// Errors like too many open files are transient: go on, as other Go servers do.
			if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() {
				pause = min(max(2*pause, 5*time.Millisecond), time.Second)
				select {
				case <-time.After(pause):
					continue
				case <-p.stop:
					return nil
				}
			}
			return err
		}
		pause = 0
		site := Site(c.RemoteAddr())
		if !p.admit(c.RemoteAddr()) {
			_ = c.Close() // refused
			continue
		}
		go func() {
			defer p.wg.Done()
			p.begin(c, site, offer)
		}()
	}
}

// admit counts a connection and the goroutine that begins it in, or reports that it must be refused (ConnLimit).
func (p *Port) admit(from net.Addr) bool {
	if p.draining.Load() || !p.opts.Conns.Enter(from) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining.Load() {
		p.opts.Conns.Leave(from)
		return false
	}
	p.conns++
	p.accepted.Add(1)
	p.wg.Add(1) // with p.mu held: Shutdown waits only after it has seen the last of these
	return true
}

// leave counts a connection out. p.mu is held.
func (p *Port) leave(site netip.Addr) {
	p.conns--
	p.opts.Conns.leave(site)
}

// makeRoom is the port's Evict. A connection that has a call open and reads its answers has no rank.
func (p *Port) makeRoom(may func(netip.Addr) bool, rank Rank) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now.Load()
	switch rank {
	case Lacking:
		if first := p.silent.oldest(may); first != nil && first.second+1 < now {
			return p.hush(first)
		}
		if first := p.unused.oldest(may); first != nil && first.second+1 < now {
			return p.dismiss(first)
		}
		return p.evictSlow(may, now) || p.evictWeb(may, rank)
	case Crowding:
		many := p.opts.Conns.Many
		return many(p.silent.len) && p.hush(p.silent.oldest(may)) || many(p.unused.len) && p.dismiss(p.unused.oldest(may)) ||
			p.evictYoung(may, now, many) || p.evictWeb(may, rank)
	case Young:
		return p.hush(p.silent.oldest(may)) || p.dismiss(p.unused.oldest(may)) || p.evictYoung(may, now, func(int) bool { return true }) || p.evictWeb(may, rank)
	default:
		return p.evictIdle(may, now) || p.evictWeb(may, rank)
	}
}

// evictSlow closes the HTTP/1.1 connection whose request is due first, if it comes too slowly. Otherwise it closes the gRPC connection that
// holds the most without progress. p.mu is held.
func (p *Port) evictSlow(may func(netip.Addr) bool, now uint64) bool {
	var slowest *client
	grace := seconds(p.opts.SilenceTimeout) - min(seconds(p.opts.SilenceTimeout), seconds(stallGrace))
	due := now + grace + 1     // an even rate keeps a request due later than that
	for c := range p.clients { // any order: looks for the client that is due first
		at := due
		switch s := c.state.Load(); {
		case s&3 == reading && s>>2 < due:
			at = s >> 2
		case s&3 == writing && s>>2 < before(now) && before(now) <= due: // nothing of a piece was taken
			at = before(now)
		default:
			continue
		}
		if !c.evicted && may(c.site) {
			slowest, due = c, at
		}
	}
	if slowest != nil {
		p.evictClient(slowest)
		return true
	}
	var most int64
	var worst *grpcConn
	for i := range p.grpcConns { // any order: looks for the connection that holds the most
		if n := i.lacking(); n > most && !i.dismissed && may(i.site) {
			most, worst = n, i
		}
	}
	return worst != nil && p.evictGRPC(worst)
}

// evictYoung closes the HTTP/1.1 connection whose first request is due first. Otherwise it closes the gRPC connection that holds the most
// for requests of which none has come whole. enough says of how many such connections one may go. p.mu is held.
func (p *Port) evictYoung(may func(netip.Addr) bool, now uint64, enough func(young int) bool) bool {
	var first *client
	var due uint64
	young := 0
	for c := range p.clients { // any order: looks for the client that is due first
		if s := c.state.Load(); s&3 == reading && !c.evicted && !c.replied.Load() {
			if young++; (first == nil || s < due) && may(c.site) {
				first, due = c, s
			}
		}
	}
	if first != nil && enough(young) {
		p.evictClient(first)
		return true
	}
	var most int64
	var worst *grpcConn
	for i := range p.grpcConns { // any order: looks for the connection that holds the most
		if i.replied.Load() || i.dismissed {
			continue
		}
		n := i.Lacking(now + 1)
		if n == 0 || n < i.held.Load() {
			continue
		}
		if young++; n > most && may(i.site) {
			most, worst = n, i
		}
	}
	return worst != nil && enough(young) && p.evictGRPC(worst)
}

// evictWeb closes a connection over HTTP/2 that is not the gRPC server's. p.mu is held.
func (p *Port) evictWeb(may func(netip.Addr) bool, rank Rank) bool {
	c := p.web.evict(may, rank, p.opts.Conns)
	if c == nil {
		return false
	}
	p.leave(c.site)
	return true
}

// evictIdle closes the connection over HTTP/1.1 that has waited for a request for longest, or else one of the gRPC server without an open
// call. p.mu is held.
func (p *Port) evictIdle(may func(netip.Addr) bool, now uint64) bool {
	var longest *client
	for c := range p.clients { // any order: the smallest turn is looked for
		if c.state.Load()&3 == idle && !c.evicted && (longest == nil || c.turn.Load() < longest.turn.Load()) && may(c.site) {
			longest = c
		}
	}
	if longest != nil {
		p.evictClient(longest)
		return true
	}
	var quiet *grpcConn
	for i := range p.grpcConns { // any order: looks for the connection that has been quiet for longest
		if i.held.Load() == 0 && !i.dismissed && !i.unused.queued && i.quiet.Load()+1 < now &&
			(quiet == nil || i.quiet.Load() < quiet.quiet.Load()) && may(i.site) {
			quiet = i
		}
	}
	return quiet != nil && p.evictGRPC(quiet)
}

// evictClient closes a connection over HTTP/1.1 and counts it out. p.mu is held.
func (p *Port) evictClient(c *client) {
	c.evicted = true
	c.cut()
	p.leave(c.site)
}

// evictGRPC closes a connection of the gRPC server and counts it out: the server notices later. p.mu is held.
func (p *Port) evictGRPC(i *grpcConn) bool {
	i.dismissed = true
	i.Cut()
	p.leave(i.site)
	return true
}

// dismiss closes a connection of the gRPC server on which no call was ever begun; nil: none. p.mu is held.
func (p *Port) dismiss(e *place) bool {
	if e == nil {
		return false
	}
	c := e.conn
	p.unused.remove(e)
	return p.evictGRPC(c.(*grpcConn))
}

// hush closes a connection whose protocol is not known yet and counts it out; nil: none. p.mu is held.
func (p *Port) hush(e *place) bool {
	if e == nil {
		return false
	}
	c, site := e.conn, e.site
	p.silent.remove(e)
	_ = c.Close() // its goroutine sees the error
	p.leave(site)
	return true
}

// anySite lets connections of every address make room.
func anySite(netip.Addr) bool { return true }

// release counts a connection out.
func (p *Port) release(site netip.Addr) {
	p.mu.Lock()
	p.leave(site)
	p.mu.Unlock()
}

// counted is a connection of the gRPC server or of net/http, counted out when it is closed.
type counted struct {
	net.Conn
	port *Port
	site netip.Addr
	web  *webConn // of a connection that net/http serves
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.port.mu.Lock()
		defer c.port.mu.Unlock()
		if i, ok := c.Conn.(*grpcConn); ok && i.dismissed || c.web != nil && !c.port.web.leave(c.web) {
			return // it has made room and is counted out
		}
		c.port.leave(c.site)
	})
	return c.Conn.Close()
}

// Shutdown refuses new connections, lets requests that are being handled finish until ctx ends, and closes what is left.
// The gRPC server's connections are its own business. It returns ctx's error if requests had to be cut.
func (p *Port) Shutdown(ctx context.Context) error {
	p.draining.Store(true)
	p.mu.Lock()
	for l := range p.listeners { // any order: all are closed
		_ = l.Close() // nothing to be done about it
	}
	for p.hush(p.silent.oldest(anySite)) { // without a request yet
	}
	p.mu.Unlock()
	_, _ = p.grpc.Close(), p.json.Close() // they never fail
	err := p.http2.Shutdown(ctx)
	if err != nil {
		_ = p.http2.Close() // its error is ctx's
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for cut := ctx.Done(); p.close(cut == nil) > 0; {
		select {
		case <-tick.C:
		case <-cut:
			err, cut = ctx.Err(), nil
		}
	}
	p.stopOnce.Do(func() { close(p.stop) })
	p.wg.Wait()
	return err
}

// close closes idle HTTP/1.1 connections, or all, and returns how many there are still.
func (p *Port) close(all bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients { // any order: each is judged alone
		if all || c.state.Load()&3 == idle {
			c.cut()
		}
	}
	return len(p.clients)
}

// warden is the clock of the connections and closes those that take too long.
func (p *Port) warden() {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		now := uint64(time.Since(began) / time.Second)
		p.now.Store(now)
		p.mu.Lock()
		for c := range p.clients { // any order: each is judged alone
			if p.late(c, now) {
				c.cut()
			}
		}
		p.mu.Unlock()
		wall := time.Now()
		for _, i := range p.connections() { // without the port's mutex, which their checks do not need
			if i.Stalled(wall) || i.untaken(wall.Add(-p.opts.RequestTimeout).UnixNano()) {
				i.Cut() // the gRPC server notices
			}
		}
	}
}

// connections is those of the gRPC server.
func (p *Port) connections() []*grpcConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*grpcConn, 0, len(p.grpcConns))
	for i := range p.grpcConns { // any order: each is judged alone
		all = append(all, i)
	}
	return all
}

// late reports whether c has used up its time. The clock counts whole seconds, so each gets up to one more.
func (p *Port) late(c *client, now uint64) bool {
	s := c.state.Load()
	waited := time.Duration(int64(now)-int64(s>>2)) * time.Second
	switch s & 3 {
	case idle:
		return waited > p.opts.IdleTimeout
	case reading:
		return waited > 0 // it was due
	case writing:
		return waited > p.opts.RequestTimeout
	}
	return false
}

// due is the second of the port's clock at which a request should be complete, given its beginning and the bytes it has so far. It has
// RequestTimeout and a second more for each 16 KiB, and must come at leastRate once SilenceTimeout is over.
func (p *Port) due(began uint64, arrived int) uint64 {
	return began + min(seconds(p.opts.RequestTimeout)+uint64(arrived/slowest), seconds(p.opts.SilenceTimeout)+uint64(arrived/leastRate))
}

// seconds is d in whole seconds.
func seconds(d time.Duration) uint64 { return uint64(d / time.Second) }

// inProcess is the address of connections that never were on a network.
type inProcess struct{}

func (inProcess) Network() string { return "inprocess" }
func (inProcess) String() string  { return "inprocess" }

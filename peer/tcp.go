package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Timeouts of the TCP implementation. An idle connection is not cut off: a peer that vanished is noticed by TCP keep-alive
// or by the first write that stays unacknowledged, and raft's heartbeats on the control lane make sure there is one.
const (
	dialTimeout  = 2 * time.Second
	helloTimeout = 5 * time.Second
	writeTimeout = 10 * time.Second
	redialMin    = 50 * time.Millisecond
	// streamPatience is how long an incoming stream may be silent. It is short because the receiver takes no other stream
	// meanwhile, and a sender is never silent for long.
	streamPatience = time.Minute
	redialMax      = 500 * time.Millisecond
	// probeInterval is between two measurements of a round trip: sixty in the five minutes that graphs look at, and nothing
	// beside the heartbeats of those minutes.
	probeInterval = 5 * time.Second
)

// queueBytes bounds what waits for one lane of one peer. Beyond it frames are dropped, which raft and the forwarder
// survive; queueing without end would turn a slow member into a memory problem of its leader.
var queueBytes = [laneCount]int{1 << 20, 32 << 20, 32 << 20, 0}

// TCPOptions configure a TCP network.
type TCPOptions struct {
	// TLS makes every connection mutual TLS: it must hold a certificate, RootCAs and ClientCAs. Nil: cleartext.
	TLS *tls.Config
	// DialTLS is set where the two sides of a connection differ: the side that dials then uses it, and the side that
	// accepts uses TLS as it stands, so that its ClientAuth decides whether the other one must show a certificate.
	DialTLS *tls.Config
	// Members tells members' certificates from others that the same authority has signed. Nil: all are members'.
	Members *Certificates
	// AskedAt returns the address that a question says its asker is, or will be, a member at; "": none. Nil: no question says.
	AskedAt func(question []byte) string
	// MaxConns bounds the connections others have made to this member. 0 = 128, far more than the members of a cluster make.
	MaxConns int
	Logger   *slog.Logger
}

// TCP is the real Network. Create it with ListenTCP, then Start it.
type TCP struct {
	opts TCPOptions
	lns  []net.Listener // none: this member cannot be reached by others
	log  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	lobby *lobby // the connections others made to this member

	handler Handler // set by Start, before any goroutine reads it
	// streamPatience is for how long a stream that comes in may be silent; set before Start.
	streamPatience time.Duration

	mu      sync.Mutex
	cluster uint64              // 0 until Identify
	self    uint64              // 0 until Identify
	peers   map[uint64]*tcpPeer // guarded by mu
	conns   map[net.Conn]uint64 // accepted connections and whose they are, 0 before the hello; guarded by mu
	inbound map[uint64]inbound  // each peer's newest control lane to us; guarded by mu
	removed map[uint64]struct{} // peers refused for good; guarded by mu
}

// inbound is an accepted control lane. A peer may dial again before its old connection is found dead, so the end of one
// connection must not be taken for the end of another.
type inbound struct {
	conn  net.Conn
	since int64 // ns
}

// tcpPeer is one other member: an outgoing connection per lane.
type tcpPeer struct {
	id    uint64
	addr  atomic.Pointer[string]
	lanes [laneCount]*tcpLane
	stop  context.CancelFunc

	traffic Traffic
}

// pick is the address for the given attempt: a member with several is tried at each in turn.
func (p *tcpPeer) pick(try int) string {
	all := strings.Split(*p.addr.Load(), ",")
	return all[try%len(all)]
}

// tcpLane is the queue of one outgoing connection; one goroutine dials and writes.
type tcpLane struct {
	wake    chan struct{} // capacity 1
	traffic *Traffic      // of the peer, whose lanes share it

	mu    sync.Mutex // guards everything below
	queue [][]byte
	bytes int
	up    bool
	since time.Time
	// direct is the connection for writes by the sender itself; nil with TLS or when down.
	direct  syscall.RawConn
	writing bool   // the lane's goroutine has taken frames and not finished with them
	rest    []byte // what a direct write could not place, already framed
	scratch []byte
	probed  time.Time // when the probe left that is not answered yet; zero: none is out
}

// directMax is the largest frame the sender writes itself.
const directMax = 64 << 10

// writeDirect writes a frame from the sender's goroutine if the lane is idle and the socket takes it: waking another
// goroutine costs more than the write itself, four times on the way of every replicated command. It never blocks; what
// does not fit is left to the lane's goroutine. The caller holds mu.
func (l *tcpLane) writeDirect(frame []byte) (taken bool) {
	if l.direct == nil || l.writing || len(l.queue) > 0 || len(l.rest) > 0 || len(frame) > directMax {
		return false
	}
	var head [frameHeaderLen]byte
	putFrameHeader(head[:], frame)
	l.scratch = append(append(l.scratch[:0], head[:]...), frame...)
	n := 0
	err := l.direct.Write(func(fd uintptr) bool {
		var e error
		if n, e = syscall.Write(int(fd), l.scratch); e != nil {
			n = 0 // no room in the socket, or the connection is broken: the lane's goroutine finds out which
		}
		return true
	})
	if err != nil || n <= 0 {
		return false
	}
	l.traffic.Sent.Add(uint64(n))
	if n < len(l.scratch) {
		l.rest = append(l.rest[:0], l.scratch[n:]...)
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// ListenTCP binds addr ("" = do not listen) and more. An address is host:port, or unix:PATH for a socket file, which is
// made anew. Nothing is accepted before Start.
func ListenTCP(addr string, opts TCPOptions, more ...string) (*TCP, error) {
	t := &TCP{opts: opts, log: opts.Logger, streamPatience: streamPatience, peers: map[uint64]*tcpPeer{}, conns: map[net.Conn]uint64{},
		inbound: map[uint64]inbound{}, removed: map[uint64]struct{}{}, lobby: newLobby(opts.MaxConns)}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, a := range append([]string{addr}, more...) {
		if a == "" {
			continue
		}
		ln, err := listen(a)
		if err != nil {
			t.Close()
			return nil, fmt.Errorf("listen for members on %s: %w", a, err)
		}
		t.lns = append(t.lns, ln)
	}
	return t, nil
}

// Addr is the first bound address, "" if not listening.
func (t *TCP) Addr() string {
	if len(t.lns) == 0 {
		return ""
	}
	return t.lns[0].Addr().String()
}

// Start begins to accept connections. Until Identify only questions (Ask) are answered.
func (t *TCP) Start(h Handler) {
	t.handler = h
	for _, ln := range t.lns {
		t.wg.Go(func() { t.accept(ln) })
	}
}

func (t *TCP) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors and the like: do not spin
			continue
		}
		if !t.lobby.enter(c) {
			c.Close() // refused
			continue
		}
		t.wg.Go(func() {
			defer t.lobby.leave(c)
			t.serve(c)
		})
	}
}

// Identify says who this member is; from now on members may connect.
func (t *TCP) Identify(cluster, self uint64) {
	t.mu.Lock()
	t.cluster, t.self = cluster, self
	t.mu.Unlock()
}

// SetPeer implements Network.
func (t *TCP) SetPeer(id uint64, addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id == t.self || t.ctx.Err() != nil {
		return
	}
	delete(t.removed, id)
	if p := t.peers[id]; p != nil {
		p.addr.Store(&addr)
		return
	}
	ctx, stop := context.WithCancel(t.ctx)
	p := &tcpPeer{id: id, stop: stop}
	p.addr.Store(&addr)
	for l := range laneCount {
		if l == LaneSnapshot {
			continue // streams dial for themselves
		}
		lane := &tcpLane{wake: make(chan struct{}, 1), traffic: &p.traffic}
		p.lanes[l] = lane
		t.wg.Go(func() { t.runLane(ctx, p, l, lane) })
	}
	t.peers[id] = p
}

// RemovePeer implements Network.
func (t *TCP) RemovePeer(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removed[id] = struct{}{}
	if p := t.peers[id]; p != nil {
		p.stop()
		delete(t.peers, id)
	}
	for c, who := range t.conns {
		if who == id {
			c.Close()
		}
	}
}

// Send implements Network.
func (t *TCP) Send(to uint64, lane Lane, frame []byte) bool {
	t.mu.Lock()
	p := t.peers[to]
	t.mu.Unlock()
	if p == nil || p.lanes[lane] == nil {
		return false
	}
	l := p.lanes[lane]
	l.mu.Lock()
	if !l.up || l.bytes+len(frame) > queueBytes[lane] && l.bytes > 0 {
		l.mu.Unlock()
		p.traffic.SendFailures.Inc()
		return false
	}
	if l.writeDirect(frame) {
		l.mu.Unlock()
		return true
	}
	l.queue = append(l.queue, frame)
	l.bytes += len(frame)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// ConnectedFor implements Network.
func (t *TCP) ConnectedFor(id uint64) int64 {
	t.mu.Lock()
	p, in := t.peers[id], t.inbound[id]
	t.mu.Unlock()
	if p == nil || in.conn == nil {
		return 0
	}
	l := p.lanes[LaneControl]
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return 0
	}
	return min(int64(time.Since(l.since)), time.Now().UnixNano()-in.since) + 1
}

// Close drops everything and waits for the goroutines.
func (t *TCP) Close() error {
	t.cancel()
	for _, ln := range t.lns {
		ln.Close()
	}
	t.mu.Lock()
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
	return nil
}

func (t *TCP) dial(ctx context.Context, addr string, h hello) (net.Conn, *bufio.Reader, error) {
	d := net.Dialer{Timeout: dialTimeout}
	network, at := endpoint(addr)
	c, err := d.DialContext(ctx, network, at)
	if err != nil {
		return nil, nil, err
	}
	if t.opts.TLS != nil {
		cfg := t.opts.TLS
		if t.opts.DialTLS != nil {
			cfg = t.opts.DialTLS
		}
		cfg = cfg.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName, _, _ = net.SplitHostPort(at)
		}
		if t.opts.Members != nil {
			t.opts.Members.dialling(cfg, at)
		}
		c = tls.Client(c, cfg)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() }) // Close does not wait for an address that does not answer
	defer stop()
	c.SetDeadline(time.Now().Add(helloTimeout))
	var head [frameHeaderLen]byte
	payload := h.append(nil)
	putFrameHeader(head[:], payload)
	if _, err := c.Write(append(head[:], payload...)); err != nil {
		c.Close()
		return nil, nil, err
	}
	r := bufio.NewReaderSize(c, 64<<10)
	answer, err := readFrame(r, 4096)
	if err != nil {
		c.Close()
		return nil, nil, fmt.Errorf("hello: %w", unexpected(err))
	}
	if len(answer) > 0 { // a sentence: refused
		c.Close()
		return nil, nil, fmt.Errorf("%w: %s", ErrRefused, answer)
	}
	c.SetDeadline(time.Time{})
	return c, r, nil
}

// runLane keeps one outgoing connection: dial, write what is queued, start again when it breaks.
func (t *TCP) runLane(ctx context.Context, p *tcpPeer, lane Lane, l *tcpLane) {
	wait, quiet := redialMin, false
	for try := 0; ctx.Err() == nil; {
		addr := p.pick(try)
		t.mu.Lock()
		h := hello{kind: byte(lane), cluster: t.cluster, from: t.self, to: p.id}
		t.mu.Unlock()
		c, r, err := t.dial(ctx, addr, h)
		if err != nil {
			try++
			if lane == LaneControl && !quiet && ctx.Err() == nil {
				quiet = true // one line per outage
				t.log.Info("member unreachable", "member", fmt.Sprintf("%x", p.id), "addr", addr, "err", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			wait = min(wait*2, redialMax)
			continue
		}
		wait = redialMin
		if quiet {
			quiet = false
			t.log.Info("member reachable again", "member", fmt.Sprintf("%x", p.id))
		}
		l.mu.Lock()
		l.up, l.since = true, time.Now()
		l.queue, l.bytes, l.rest, l.writing, l.probed = nil, 0, nil, false, time.Time{}
		if tc, ok := c.(*net.TCPConn); ok {
			l.direct, _ = tc.SyscallConn()
		}
		l.mu.Unlock()
		t.handler.Reconnected(p.id, lane)
		closed := make(chan struct{})
		go func() {
			l.listen(r)
			c.Close()
			close(closed)
		}()
		l.writeTo(ctx, c, closed, lane == LaneControl)
		c.Close()
		<-closed
		l.mu.Lock()
		l.up, l.direct = false, nil
		p.traffic.SendFailures.Add(uint64(len(l.queue)))
		l.queue, l.bytes, l.rest = nil, 0, nil
		l.mu.Unlock()
		if lane == LaneControl && ctx.Err() == nil {
			p.traffic.Disconnects.Inc()
		}
	}
}

// listen reads what the other side has to say on a lane, which is only that it has seen a probe, until the connection is gone.
func (l *tcpLane) listen(r *bufio.Reader) {
	for {
		if _, err := readFrame(r, 0); err != nil {
			return
		}
		l.mu.Lock()
		began := l.probed
		l.probed = time.Time{}
		l.mu.Unlock()
		if began.IsZero() {
			return // an answer without a probe: the other side is no member
		}
		l.traffic.RoundTrip.Record(time.Since(began))
	}
}

// probe sends an empty frame, which the other side answers, unless one is out: then the member is slow, and the round trip that is
// being measured says by how much. The caller is the lane's goroutine, which looks at the queue next.
func (l *tcpLane) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.probed.IsZero() {
		return
	}
	l.probed = time.Now()
	if !l.writeDirect(nil) {
		l.queue = append(l.queue, nil)
	}
}

// writeTo writes what is queued until the connection is gone, and probes the member now and then.
func (l *tcpLane) writeTo(ctx context.Context, c net.Conn, closed <-chan struct{}, probing bool) {
	var due <-chan time.Time
	if probing {
		ticks := time.NewTicker(probeInterval)
		defer ticks.Stop()
		due = ticks.C
		l.probe()
	}
	var bufs net.Buffers
	var heads []byte
	for {
		l.mu.Lock()
		q, rest := l.queue, l.rest
		l.queue, l.bytes, l.rest = nil, 0, nil
		l.writing = len(q) > 0 || len(rest) > 0
		l.mu.Unlock()
		if len(q) == 0 && len(rest) == 0 {
			select {
			case <-l.wake:
				continue
			case <-due:
				l.probe()
				continue
			case <-closed:
				return
			case <-ctx.Done():
				return
			}
		}
		bufs = bufs[:0]
		if len(rest) > 0 {
			bufs = append(bufs, rest)
		}
		if need := len(q) * frameHeaderLen; cap(heads) < need {
			heads = make([]byte, need)
		}
		for i, f := range q {
			h := heads[:cap(heads)][i*frameHeaderLen : (i+1)*frameHeaderLen]
			putFrameHeader(h, f)
			bufs = append(bufs, h, f)
		}
		c.SetWriteDeadline(time.Now().Add(writeTimeout))
		out := bufs
		n, err := out.WriteTo(c)
		l.traffic.Sent.Add(uint64(n))
		if err != nil {
			l.traffic.SendFailures.Add(uint64(len(q))) // how many of them arrived nobody knows
			return
		}
		clear(bufs)
	}
}

// serve handles one accepted connection.
func (t *TCP) serve(c net.Conn) {
	defer c.Close()
	raw := c // the TCP connection: closing it ends TLS on it too
	t.mu.Lock()
	if t.ctx.Err() != nil { // Close has been through conns already
		t.mu.Unlock()
		return
	}
	t.conns[raw] = 0
	t.mu.Unlock()
	defer t.release(raw)
	if t.opts.TLS != nil {
		cfg := t.opts.TLS
		if t.opts.DialTLS == nil {
			cfg = cfg.Clone()
			cfg.ClientAuth = tls.RequireAndVerifyClientCert
		}
		tc := tls.Server(c, cfg)
		c.SetDeadline(time.Now().Add(helloTimeout))
		if err := tc.HandshakeContext(t.ctx); err != nil {
			t.log.Info("connection refused: TLS", "from", c.RemoteAddr().String(), "err", err)
			return
		}
		c = tc
	}
	c.SetDeadline(time.Now().Add(helloTimeout))
	r := bufio.NewReaderSize(c, 64<<10)
	b, err := readFrame(r, helloLen)
	if err != nil {
		return
	}
	h, err := decodeHello(b)
	w := bufio.NewWriter(c)
	cert, proven := shown(c), true
	if err == nil && h.kind != helloAsk {
		if proven, err = t.vouch(cert, h.from); err != nil {
			t.log.Info("connection refused", "from", c.RemoteAddr().String(), "member", fmt.Sprintf("%x", h.from), "err", err)
		}
	}
	if err == nil {
		err = t.admit(&h, raw)
	}
	if err != nil {
		writeFrame(w, []byte(err.Error()))
		w.Flush()
		return
	}
	if h.kind != helloAsk {
		t.lobby.known(raw)
	}
	if err := writeFrame(w, nil); err != nil || w.Flush() != nil {
		return
	}
	switch {
	case h.kind == helloAsk:
		q, err := readFrame(r, 1<<20)
		if err != nil {
			return
		}
		c.SetDeadline(time.Time{}) // the answer may have to wait for a commit
		var answer []byte
		if err = t.mayAsk(cert, q); err == nil {
			answer, err = t.handler.HandleAsk(q)
		}
		status := []byte{0}
		if err != nil {
			status, answer = []byte{1}, []byte(err.Error())
		}
		c.SetDeadline(time.Now().Add(writeTimeout))
		writeFrame(w, append(status, answer...))
		w.Flush()
	case Lane(h.kind) == LaneSnapshot:
		c.SetDeadline(time.Time{})
		status, from := []byte(nil), t.Traffic(h.from)
		waits := func() { c.SetReadDeadline(time.Now().Add(t.streamPatience)) }
		if err := t.handler.HandleStream(h.from, &streamReader{r: r, traffic: from, waits: waits}); err != nil {
			status = []byte(err.Error())
			from.lost(err)
		}
		c.SetDeadline(time.Now().Add(writeTimeout))
		writeFrame(w, status)
		w.Flush()
	default:
		c.SetDeadline(time.Time{})
		if proven {
			cert = nil
		}
		t.receive(&h, c, r, w, cert)
	}
}

// mayAsk says why a question from the holder of cert is not answered, nil if it is.
func (t *TCP) mayAsk(cert *x509.Certificate, question []byte) error {
	if t.opts.Members == nil || cert == nil {
		return nil
	}
	addr := ""
	if t.opts.AskedAt != nil {
		addr = t.opts.AskedAt(question)
	}
	return t.opts.Members.check(cert, addr)
}

// receive hands on the frames of a lane until its connection ends, and answers probes. A cert that is not nil is still to be
// compared with the member's address, once that is known.
func (t *TCP) receive(h *hello, c net.Conn, r *bufio.Reader, w *bufio.Writer, cert *x509.Certificate) {
	lane, from := Lane(h.kind), t.Traffic(h.from)
	for {
		f, err := readFrame(r, MaxFrameBytes)
		if from == nil {
			from = t.Traffic(h.from) // this member may not have heard of its addition before
		}
		if err != nil {
			if errors.Is(err, errFrame) {
				t.log.Warn("connection cut", "member", fmt.Sprintf("%x", h.from), "lane", lane.String(), "err", err)
			}
			from.lost(err)
			return
		}
		from.heard(f)
		if cert != nil {
			known, err := t.vouch(cert, h.from)
			if err != nil {
				t.log.Warn("connection cut", "member", fmt.Sprintf("%x", h.from), "lane", lane.String(), "err", err)
				return
			}
			if known {
				cert = nil
			}
		}
		if lane == LaneControl && len(f) == 0 {
			c.SetWriteDeadline(time.Now().Add(writeTimeout))
			if writeFrame(w, nil) != nil || w.Flush() != nil {
				return
			}
			continue
		}
		t.handler.HandleFrame(h.from, lane, f)
	}
}

// admit checks an accepted connection's hello against who we are, and records it.
func (t *TCP) admit(h *hello, c net.Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.kind != helloAsk {
		if t.self == 0 {
			return errors.New("not ready: this member has not joined a cluster yet")
		}
		if h.cluster != t.cluster {
			return errors.New("cluster id mismatch: this member belongs to another cluster")
		}
		if h.to != t.self {
			return fmt.Errorf("member id mismatch: this member is not %x", h.to)
		}
		if h.from == t.self || h.from == 0 {
			return errors.New("member id mismatch: a connection between a member and itself")
		}
		if _, gone := t.removed[h.from]; gone {
			return fmt.Errorf("member %x was removed from the cluster", h.from)
		}
		if Lane(h.kind) == LaneControl {
			t.inbound[h.from] = inbound{c, time.Now().UnixNano()}
		}
	}
	t.conns[c] = h.from
	return nil
}

// release forgets an accepted connection.
func (t *TCP) release(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.conns[c]
	delete(t.conns, c)
	if t.inbound[from].conn == c {
		delete(t.inbound, from)
	}
}

// SendStream implements Network.
func (t *TCP) SendStream(to uint64, write func(w io.Writer) error, done func(error)) {
	t.mu.Lock()
	p := t.peers[to]
	h := hello{kind: byte(LaneSnapshot), cluster: t.cluster, from: t.self, to: to}
	t.mu.Unlock()
	if p == nil {
		done(fmt.Errorf("stream to %x: unknown member", to))
		return
	}
	t.wg.Go(func() {
		err := func() error {
			c, r, err := t.dial(t.ctx, p.pick(0), h)
			if err != nil {
				return err
			}
			stop := context.AfterFunc(t.ctx, func() { c.Close() })
			defer stop()
			defer c.Close()
			s := &streamWriter{w: bufio.NewWriterSize(&streamConn{c: c, traffic: &p.traffic}, 64<<10), buf: make([]byte, 0, streamChunk)}
			if err := write(s); err != nil {
				return err // closing without the end mark tells the receiver
			}
			if err := s.finish(); err != nil {
				return err
			}
			c.SetReadDeadline(time.Now().Add(5 * time.Minute)) // the receiver builds and syncs a store
			status, err := readFrame(r, 4096)
			if err != nil {
				return unexpected(err)
			}
			if len(status) > 0 {
				return fmt.Errorf("%w: %s", ErrRefused, status)
			}
			return nil
		}()
		if err != nil {
			p.traffic.SendFailures.Inc()
		}
		done(err)
	})
}

// streamRate bounds a stream, in bytes per second. A snapshot comes from the disk the log is synced to and goes to one that
// others may share: at full speed it tripled everybody's p99 while it lasted. A gigabyte takes half a minute.
const streamRate = 32 << 20

// streamConn gives every write its own deadline (a stream may take long, a stuck receiver may not) and keeps to streamRate.
type streamConn struct {
	c       net.Conn
	due     time.Time // when the next write may begin
	traffic *Traffic
}

func (s *streamConn) Write(p []byte) (int, error) {
	now := time.Now()
	if wait := s.due.Sub(now); wait > 0 {
		time.Sleep(wait) // milliseconds: writes are of the buffer's size
		now = s.due
	}
	s.due = now.Add(time.Duration(len(p)) * time.Second / streamRate)
	s.c.SetWriteDeadline(now.Add(3 * writeTimeout))
	n, err := s.c.Write(p)
	s.traffic.Sent.Add(uint64(n))
	return n, err
}

// Ask sends one question to the process that listens on addr and returns the answer. A refusal wraps ErrRefused.
func (t *TCP) Ask(ctx context.Context, addr string, question []byte) ([]byte, error) {
	c, r, err := t.dial(ctx, addr, hello{kind: helloAsk})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	w := bufio.NewWriter(c)
	if err := writeFrame(w, question); err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	b, err := readFrame(r, 4<<20)
	if err != nil {
		return nil, unexpected(err)
	}
	if len(b) == 0 {
		return nil, errFrame
	}
	if b[0] != 0 {
		return nil, fmt.Errorf("%w: %s", ErrRefused, b[1:])
	}
	return b[1:], nil
}

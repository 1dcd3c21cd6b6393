package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Timeouts of the TCP implementation. An idle connection is not cut off. TCP keep-alive, or a write that stays unacknowledged, reveals a
// vanished peer; raft's heartbeats on the control channel provide such writes.
const (
	dialTimeout  = 2 * time.Second
	helloTimeout = 5 * time.Second
	writeTimeout = 10 * time.Second
	redialMin    = 50 * time.Millisecond
	// streamPatience is how long an incoming stream may be silent. It is short because the receiver takes no other stream
	// meanwhile, and a sender is never silent for long.
	streamPatience = time.Minute
	redialMax      = 500 * time.Millisecond
	// probeInterval is between two probes of a member. Two followers have nothing else to say to each other, and a member that has not answered
	// for SilentAfter is unreachable. It is little beside the heartbeats of a second.
	probeInterval = time.Second
)

// Watch is told of a connection before its handshake, with the configuration of that. It may add to the configuration, and may close the connection
// at any time.
type Watch func(conf *tls.Config, c net.Conn)

// TCPOptions configure a TCP network.
type TCPOptions struct {
	// TLS makes every connection mutual TLS: it must hold a certificate, RootCAs and ClientCAs. Nil: cleartext.
	TLS *tls.Config
	// DialTLS is set where the two sides of a connection differ. The dialling side then uses it. The accepting side uses TLS, whose
	// ClientAuth decides whether the dialling side must show a certificate.
	DialTLS *tls.Config
	// Roots returns the authorities of the moment, for the side that dials; nil: those of TLS.
	Roots func() *x509.CertPool
	// Watch is told of each connection that this side dials; nil: no call.
	Watch Watch
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
	lns  []net.Listener // none: this member cannot be reached by others; guarded by mu after Start
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
	inbound map[uint64]inbound  // each peer's newest control channel to us; guarded by mu
	removed map[uint64]struct{} // peers refused for good; guarded by mu
	// complained is when a line said that a connection was cut, zero if none did; guarded by mu.
	complained time.Time
	kept       int // lines that were kept back since; guarded by mu
}

// tcpPeer is one other member: an outgoing connection per channel.
type tcpPeer struct {
	id       uint64
	at       atomic.Pointer[places]
	channels [channelCount]*tcpChannel
	stop     context.CancelFunc

	traffic Traffic
	told    time.Time // when this member was told of the other one
}

// places are where a member is dialled. They never change.
type places struct {
	all []string // those of the member, then those that are dialled if none of them answers
	own int      // how many of all are the member's
}

// placesOf puts each address in once.
func placesOf(addr string, also []string) *places {
	at := &places{all: strings.Split(addr, ",")}
	at.own = len(at.all)
	for _, a := range also {
		if a != "" && !slices.Contains(at.all, a) {
			at.all = append(at.all, a)
		}
	}
	return at
}

func (a *places) equal(b *places) bool { return a.own == b.own && slices.Equal(a.all, b.all) }

// pick is the address for the given attempt: each is tried in turn.
func (a *places) pick(try int) string { return a.all[try%len(a.all)] }

// hears reports whether a member has a connection to this one, on any channel. Until the last of them is read to its end, frames of an
// ended process can still be handed over.
func (t *TCP) hears(id uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, who := range t.conns {
		if who == id {
			return true
		}
	}
	return false
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

// Listen binds more addresses, after Start, and accepts connections there. It is called by one goroutine.
func (t *TCP) Listen(addrs ...string) error {
	for _, a := range addrs {
		ln, err := listen(a)
		if err != nil {
			return fmt.Errorf("listen for members on %s: %w", a, err)
		}
		t.mu.Lock()
		t.lns = append(t.lns, ln)
		t.mu.Unlock()
		t.wg.Go(func() { t.accept(ln) })
	}
	return nil
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

// Identify sets this member's ids; from now on members may connect.
func (t *TCP) Identify(cluster, self uint64) {
	t.mu.Lock()
	t.cluster, t.self = cluster, self
	t.mu.Unlock()
}

// SetPeer implements Network.
func (t *TCP) SetPeer(id uint64, addr string, also ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id == t.self || t.ctx.Err() != nil {
		return
	}
	delete(t.removed, id)
	at := placesOf(addr, also)
	if p := t.peers[id]; p != nil {
		if !p.at.Load().equal(at) {
			p.at.Store(at)
		}
		return
	}
	ctx, stop := context.WithCancel(t.ctx)
	p := &tcpPeer{id: id, stop: stop, told: time.Now()}
	p.at.Store(at)
	for l := range channelCount {
		if l == ChannelSnapshot {
			continue // streams dial for themselves
		}
		channel := &tcpChannel{wake: make(chan struct{}, 1), traffic: &p.traffic}
		p.channels[l] = channel
		t.wg.Go(func() { t.runChannel(ctx, p, l, channel) })
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
func (t *TCP) Send(to uint64, channel Channel, frame []byte) bool {
	t.mu.Lock()
	p := t.peers[to]
	t.mu.Unlock()
	if p == nil || p.channels[channel] == nil {
		return false
	}
	l := p.channels[channel]
	l.mu.Lock()
	if !l.up || l.bytes+len(frame) > queueBytes[channel] && l.bytes > 0 {
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
	heardFor, silent := p.traffic.hearing()
	if silent {
		return 0
	}
	l := p.channels[ChannelControl]
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up || !l.probed.IsZero() && time.Since(l.probed) >= SilentAfter {
		return 0
	}
	return min(int64(time.Since(l.since)), time.Now().UnixNano()-in.since, int64(heardFor)) + 1
}

// Close drops everything and waits for the goroutines.
func (t *TCP) Close() error {
	t.cancel()
	t.mu.Lock()
	for _, ln := range t.lns {
		ln.Close()
	}
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
	return nil
}

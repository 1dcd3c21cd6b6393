package outcall

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// conn is a connection over HTTP/1.1. One call has it at a time. An idle one has no buffer, so that thousands may be kept.
type conn struct {
	net.Conn
	remote netip.AddrPort
	r      *bufio.Reader // reads through budget; nil while it is kept
	budget int64         // bytes that may still be read, of the part of the answer that is being read
	heard  bool          // a byte has come since the request
	sent   bool          // the request was written whole
	used   time.Time     // when it was put aside
	quiet  func() bool   // whether no byte has come unasked and the service has not hung up
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, remote: remote(c), quiet: quietOf(c)}
}

// awake readies it for a request.
func (c *conn) awake() {
	c.r = readers.Get().(*bufio.Reader)
	c.r.Reset((*budgeted)(c))
	c.heard, c.sent = false, false
}

// rest takes back its buffer.
func (c *conn) rest() {
	if c.r != nil {
		c.r.Reset(nil)
		readers.Put(c.r)
		c.r = nil
	}
}

// budgeted is the reading side of a conn.
type budgeted conn

var errTooLong = errors.New("the answer is longer than what is read of one")

// Read implements io.Reader.
func (b *budgeted) Read(p []byte) (int, error) {
	if b.budget <= 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > b.budget {
		p = p[:b.budget]
	}
	n, err := b.Conn.Read(p)
	b.budget -= int64(n)
	b.heard = b.heard || n > 0
	return n, err
}

// clientTLS is what each connection's configuration is copied from.
func clientTLS(c *tls.Config) *tls.Config {
	if c == nil {
		c = &tls.Config{}
	}
	c = c.Clone()
	c.NextProtos = []string{"http/1.1"}
	if c.ClientSessionCache == nil {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(256)
	}
	return c
}

// handshake makes a TLS connection of raw, which is closed if that fails.
func (n *Net) handshake(ctx context.Context, raw net.Conn, host string) (net.Conn, error) {
	cfg := n.tls.Clone()
	cfg.ServerName = host
	c := tls.Client(raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close() // the handshake's error is the one to tell
		return nil, err
	}
	return c, nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() // a context's deadline is one as well
}

package wire

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Server has what all connections share. Its exported fields are set before the first call of Serve and not changed after it.
type Server struct {
	Version  string      // that clients are told, such as 8.0.36-holdfast
	TLS      *tls.Config // nil: without. Where it is set, clients from beyond loopback have to use it
	Accounts Accounts
	// Open makes the session of a client that has proved who it is. An error is sent, and ends the connection.
	Open func(ctx context.Context, c *Client) (Session, error)
	// Entered hears that the client of a connection that was given to Serve has logged in; nil: nobody does.
	Entered func(nc net.Conn)
	// Key returns the key with which a client without TLS hides its password. It is called each time a client needs it: the caller keeps the
	// key that it has made.
	Key func() (*rsa.PrivateKey, error)
	// Plugin is the one that the greeting names, CachingSHA2 or NativePassword. Empty: CachingSHA2.
	Plugin    string
	Collation byte // of the greeting: utf8mb4_general_ci is 45

	MaxPacket     int           // bytes; 0: 64 MiB
	LoginTimeout  time.Duration // 0: 10 s
	IdleTimeout   time.Duration // between two commands, wait_timeout; 0: 8 hours
	ReadTimeout   time.Duration // for more of a packet that has begun, net_read_timeout; 0: 30 s
	WriteTimeout  time.Duration // for a piece of an answer to leave, net_write_timeout; 0: 60 s
	MaxStatements int64         // prepared statements of all connections; 0: 1,000,000
	Room          Room          // memory of packets above a connection's own buffer

	proved     Proved
	throttle   throttle
	crypts     crypts
	statements atomic.Int64

	mu    sync.Mutex
	conns map[uint32]*conn // that are logged in; guarded by mu
	last  uint32           // id that was given; guarded by mu
	awake bool             // the sentry runs; guarded by mu
}

const (
	defaultMaxPacket     = 64 << 20
	defaultLoginTimeout  = 10 * time.Second
	defaultIdleTimeout   = 8 * time.Hour
	defaultReadTimeout   = 30 * time.Second
	defaultWriteTimeout  = time.Minute
	defaultMaxStatements = 1_000_000
)

// orElse returns v, or the default where v is zero.
func orElse[T int | int64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Serve speaks with one client until its connection ends, and closes the connection. Ending ctx interrupts the statement that runs and ends
// the connection.
func (s *Server) Serve(ctx context.Context, nc net.Conn) {
	s.mu.Lock()
	s.last++
	id := s.last
	s.mu.Unlock()
	c := &conn{server: s, nc: nc, id: id}
	c.serve(ctx)
}

// Refuse tells a client why it is not served, in one packet, and closes the connection. It waits a second at most for the packet to leave.
func (s *Server) Refuse(nc net.Conn, e *Error) {
	_ = nc.SetDeadline(time.Now().Add(time.Second)) // the write ends at once if it fails
	c := &conn{server: s, nc: nc}                   // no state goes with the error: the client has not heard yet that the server knows them
	c.out.to = nc
	c.fail(e)
	c.out.flush()
	_ = nc.Close() // nothing is left to do with it
}

// Connections is how many connections were served since the start.
func (s *Server) Connections() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Kill interrupts the statement that a connection runs. whole ends the connection too. It reports whether there is such a connection.
func (s *Server) Kill(id uint32, whole bool) bool {
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c == nil {
		return false
	}
	c.interrupt(whole)
	return true
}

func (s *Server) enter(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = map[uint32]*conn{}
	}
	s.conns[c.id] = c
	if !s.awake {
		s.awake = true
		go s.sentry()
	}
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c.id)
}

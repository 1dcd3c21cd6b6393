package port

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Limited is a listener for a server of net/http that holds a bounded number of connections. ConnLimit decides which connections make room
// and which are refused.
type Limited struct {
	net.Listener
	conns *ConnLimit
	web   webConns
}

// Limit bounds l. The server must be given to Watch before it serves.
func Limit(l net.Listener, max int) *Limited {
	limited := &Limited{Listener: l, conns: NewConnLimit(max)}
	limited.conns.Join(func(may func(netip.Addr) bool, rank Rank) bool {
		c := limited.web.evict(may, rank, limited.conns)
		if c == nil {
			return false
		}
		limited.conns.leave(c.site)
		return true
	})
	return limited
}

// Watch has a server tell its Limited listeners what their connections do.
func Watch(s *http.Server) { watchWeb(s) }

// Accept implements net.Listener.
func (l *Limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.conns.Enter(c.RemoteAddr()) {
			_ = c.Close() // refused
			continue
		}
		web := l.web.enter(Site(c.RemoteAddr()), func() { _ = c.Close() })
		return &limited{Conn: &arriving{c, web}, of: l, web: web}, nil
	}
}

// limited is counted out when it is closed.
type limited struct {
	net.Conn
	of   *Limited
	web  *webConn
	once sync.Once
}

// NetConn is the connection below.
func (c *limited) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *limited) Close() error {
	c.once.Do(func() {
		if c.of.web.leave(c.web) {
			c.of.conns.leave(c.web.site)
		}
	})
	return c.Conn.Close()
}

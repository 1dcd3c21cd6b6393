package port

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Limited is a listener for a server of net/http that holds a bounded number of connections. When all places are taken, the
// connection that has been without a request for longest makes room; if none is, the new one is closed.
type Limited struct {
	net.Listener
	max int

	mu    sync.Mutex
	idle  queue
	conns map[net.Conn]*place // of idle; a place that is not queued: the connection is in a request
}

// Limit bounds l. The server must be given State as its ConnState.
func Limit(l net.Listener, max int) *Limited {
	return &Limited{Listener: l, max: max, conns: map[net.Conn]*place{}}
}

// Accept implements net.Listener.
func (l *Limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c = &limited{c, l}
		l.mu.Lock()
		if len(l.conns) >= l.max {
			if longest := l.idle.pop(netip.Addr{}); longest != nil {
				delete(l.conns, longest)
				_ = longest.(*limited).Conn.Close() // the server notices
			}
		}
		full := len(l.conns) >= l.max
		if !full {
			l.conns[c] = l.idle.push(c, netip.Addr{}, 0)
		}
		l.mu.Unlock()
		if !full {
			return c, nil
		}
		_ = c.(*limited).Conn.Close() // refused
	}
}

// State is for http.Server.ConnState.
func (l *Limited) State(c net.Conn, s http.ConnState) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.conns[c]
	switch {
	case !ok:
	case s == http.StateActive:
		l.idle.remove(e)
	case s == http.StateIdle && !e.queued:
		l.conns[c] = l.idle.push(c, netip.Addr{}, 0)
	}
}

// limited is counted out when it is closed.
type limited struct {
	net.Conn
	of *Limited
}

func (c *limited) Close() error {
	c.of.mu.Lock()
	if e, ok := c.of.conns[c]; ok {
		c.of.idle.remove(e)
		delete(c.of.conns, c)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

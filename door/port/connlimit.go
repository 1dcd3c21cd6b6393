package port

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// Gate bounds the connections of several ports together: each of them takes a descriptor and memory of the same process,
// which needs some for its log and its store. Its methods may be called from several goroutines.
type Gate struct {
	max  int64
	open atomic.Int64
	// Failed hears of TLS handshakes that failed, from any goroutine; nil: nobody does. It is set before the first connection.
	Failed func(from net.Addr, err error)

	mu    sync.Mutex
	ports []*Port
}

// NewGate makes a gate for so many connections.
func NewGate(max int) *Gate { return &Gate{max: int64(max)} }

func (g *Gate) join(p *Port) {
	g.mu.Lock()
	g.ports = append(g.ports, p)
	g.mu.Unlock()
}

// enter counts a connection in, or reports that all places are taken.
func (g *Gate) enter() bool {
	if g.open.Add(1) > g.max {
		g.open.Add(-1)
		return false
	}
	return true
}

func (g *Gate) leave() { g.open.Add(-1) }

// makeRoom has a port other than p close a silent connection and reports whether one did. No port's mutex is held.
func (g *Gate) makeRoom(p *Port) bool {
	if g.open.Load() < g.max {
		return false // the connection was refused for another reason than places
	}
	g.mu.Lock()
	others := slices.Clone(g.ports)
	g.mu.Unlock()
	for _, o := range others {
		if o == p {
			continue
		}
		o.mu.Lock()
		made := o.evict()
		o.mu.Unlock()
		if made {
			return true
		}
	}
	return false
}

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
			if longest := l.idle.pop(); longest != nil {
				delete(l.conns, longest)
				_ = longest.(*limited).Conn.Close() // the server notices
			}
		}
		full := len(l.conns) >= l.max
		if !full {
			l.conns[c] = l.idle.push(c, 0)
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
		l.conns[c] = l.idle.push(c, 0)
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

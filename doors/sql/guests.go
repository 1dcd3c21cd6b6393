package sql

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// guests are connections whose clients have not logged in. The server speaks first here, so a client that says nothing is one that does not
// log in. Its methods may be called from any goroutine.
type guests struct {
	mu sync.Mutex
	of map[net.Conn]*guest // guarded by mu
}

// guest is one connection, until it ends. guests.mu guards it.
type guest struct {
	nc     net.Conn
	began  time.Time
	known  bool // it has logged in
	closed bool // it made room and is counted out
}

// loginGrace is how long a login may take before its connection makes room for another client's.
const loginGrace = 3 * time.Second

func (g *guests) enter(nc net.Conn) *guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[net.Conn]*guest{}
	}
	one := &guest{nc: nc, began: time.Now()}
	g.of[nc] = one
	return one
}

// loggedIn notes that a connection stays: it is never closed to make room.
func (g *guests) loggedIn(nc net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one := g.of[nc]; one != nil {
		one.known = true
		delete(g.of, nc)
	}
}

// leave counts a connection out that has ended.
func (g *guests) leave(conns Conns, one *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !one.known {
		delete(g.of, one.nc)
	}
	if !one.closed {
		one.closed = true
		conns.Leave(one.nc.RemoteAddr())
	}
}

// evict closes the connection that has tried to log in for longest, counts it out, and reports whether there was one that has for longer than
// loginGrace. only is an address, IPv6 without its last 64 bits; the zero Addr: any.
func (g *guests) evict(conns Conns, only netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	var oldest *guest
	for _, one := range g.of { // any order: the oldest is looked for
		if (!only.IsValid() || within(only, one.nc.RemoteAddr())) && (oldest == nil || one.began.Before(oldest.began)) {
			oldest = one
		}
	}
	if oldest == nil || time.Since(oldest.began) < loginGrace {
		return false
	}
	delete(g.of, oldest.nc)
	oldest.closed = true
	_ = oldest.nc.Close() // its goroutine sees the error
	conns.Leave(oldest.nc.RemoteAddr())
	return true
}

// within reports whether a client's address is only, or in the 64 bits of IPv6 that it stands for.
func within(only netip.Addr, from net.Addr) bool {
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return false
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		addr = netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return addr == only
}

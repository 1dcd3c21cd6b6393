package sql

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/serve/port"
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
	site   netip.Addr // port.Site of its client
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
	one := &guest{nc: nc, site: port.Site(nc.RemoteAddr()), began: time.Now()}
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
func (g *guests) leave(conns *port.ConnLimit, one *guest) {
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

// evict is the door's port.Evict. Connections whose clients have tried to log in for longer than loginGrace are Lacking, the others that have not
// logged in are Young, and Crowding if there are many. Among equals the one that came first goes. One that has logged in has no rank.
func (g *guests) evict(conns *port.ConnLimit, may func(netip.Addr) bool, rank port.Rank) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rank == port.Idle || rank == port.Crowding && !conns.Many(len(g.of)) {
		return false
	}
	var oldest *guest
	for _, one := range g.of { // any order: the oldest is looked for
		if (oldest == nil || one.began.Before(oldest.began)) && may(one.site) {
			oldest = one
		}
	}
	if oldest == nil || rank == port.Lacking && time.Since(oldest.began) < loginGrace {
		return false
	}
	delete(g.of, oldest.nc)
	oldest.closed = true
	_ = oldest.nc.Close() // its goroutine sees the error
	conns.Leave(oldest.nc.RemoteAddr())
	return true
}

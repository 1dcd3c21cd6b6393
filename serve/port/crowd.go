package port

import (
	"net"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/intake"
)

// LingerCost is what a handler should hold for a call that stays open after its whole request has come: a stream, or one that waits for
// other clients.
const LingerCost = intake.CallCost - intake.WholeCost

// relieveInterval is between two looks for the connection that holds the most.
const relieveInterval = 5 * time.Millisecond

// From is the address of a connection's client, and the connection's account: what its open calls hold of the memory all of them
// share. The gRPC server hands it to handlers as the peer's address. Its methods may be called from several goroutines.
type From struct {
	net.Addr
	of    *grpcConn
	asker *client // instead of of: see Asker
}

// RemoteAddr implements net.Conn; it is a From.
func (i *grpcConn) RemoteAddr() net.Addr { return &From{Addr: i.Conn.RemoteAddr(), of: i} }

// Hold takes n bytes for something that lasts as long as a call, or reports that there is no room: the connection holds half of
// what there is already, or all is taken and none holds more than this one. Every n that was taken must be given back.
func (f *From) Hold(n int64) bool {
	i := f.of
	if i.held.Add(n) <= i.port.opts.CallBytes/2 {
		if i.port.calls.Add(-n) >= 0 {
			return true
		}
		if i.port.relieve(i) {
			return true
		}
		i.port.calls.Add(n)
	}
	i.held.Add(-n)
	return false
}

// GiveBack returns what Hold has taken.
func (f *From) GiveBack(n int64) {
	f.of.held.Add(-n)
	f.of.port.calls.Add(n)
}

// Crowded reports whether this client's calls must be refused: all there is for open calls is taken, and this is one of the
// connections that hold a good deal of it; or it has half of it alone.
func (f *From) Crowded() bool {
	p, held := f.of.port, f.of.held.Load()
	return p.calls.Load() < 0 && held > p.opts.CallBytes/64 || held > p.opts.CallBytes/2
}

// Crowded reports whether any client's calls may have to be refused: a cheap question to ask before From.Crowded.
func (p *Port) Crowded() bool { return p.calls.Load() < p.opts.CallBytes/2 }

// relieve closes the connection whose calls hold the most and reports whether that was another than the one that asks for more.
// It looks at every connection, so it does that only from time to time; in between, connections that hold little get what they
// ask for.
func (p *Port) relieve(asks *grpcConn) bool {
	little := asks.held.Load() <= p.opts.CallBytes/64
	now := time.Now().UnixNano()
	last := p.relieved.Load()
	if now-last < int64(relieveInterval) || !p.relieved.CompareAndSwap(last, now) {
		return little
	}
	most := asks
	for _, i := range p.connections() {
		if i.held.Load() > most.held.Load() {
			most = i
		}
	}
	if most == asks {
		return little
	}
	most.Cut() // the gRPC server notices, and its calls end
	return true
}

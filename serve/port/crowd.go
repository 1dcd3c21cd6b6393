package port

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/intake"
)

// Open calls share CallBytes (docs/adr/0026-open-calls.md). A call is charged once, for the memory it holds. The port charges it when it
// begins, and gives back most of that when its request has come whole. A handler that goes on holding the call (Stay) takes that over.
//
//   - A stream, a watch or a lock that stays is never cut for its room, as long as its transport takes the events. At the limit the
//     newcomer is refused.
//   - Once three quarters are taken, an address that holds more than a 64th may let nothing new stay. The last quarter is for others.
//   - Staying calls leave the last sixteenth to calls that are answered at once. Such calls are refused only to a connection that has a
//     quarter of all in them. Where all is taken, they are also refused to an address that has more than a 64th in them.
//   - When room runs out, the connection is closed that holds the most for requests that do not come, or whose client takes nothing.

// relieveInterval is between two looks for the connection that holds the most.
const relieveInterval = 5 * time.Millisecond

// lingerCost is given back when a call's request has come whole, and taken again by a handler that still holds the call.
const lingerCost = intake.CallCost - intake.WholeCost

// account is the room held by the calls of a connection, or of all connections of an address. Any goroutine.
type account struct {
	held    atomic.Int64 // bytes of open calls, and of what their handlers hold for them
	staying atomic.Int64 // the part of it that handlers have let stay
}

// passing is what calls hold that are to be answered at once, or whose request has not come.
func (a *account) passing() int64 { return a.held.Load() - a.staying.Load() }

// siteAccount is the account of an address. port.mu guards conns.
type siteAccount struct {
	account
	conns int
}

// enterSite returns the account of an address, one of its own for a connection without an address. port.mu is held.
func (p *Port) enterSite(site netip.Addr) *siteAccount {
	if !site.IsValid() {
		return new(siteAccount)
	}
	s := p.sites[site]
	if s == nil {
		s = new(siteAccount)
		p.sites[site] = s
	}
	s.conns++
	return s
}

// leaveSite is called once for each enterSite. The room still held by the connection's calls goes back to their account. port.mu is held.
func (p *Port) leaveSite(site netip.Addr) {
	if s := p.sites[site]; s != nil {
		if s.conns--; s.conns == 0 {
			delete(p.sites, site)
		}
	}
}

// From is the address of a connection's client, and the connection's account: its open calls' part of the shared memory. The gRPC server
// hands it to handlers as the peer's address. Its methods may be called from several goroutines.
type From struct {
	net.Addr
	of    *grpcConn
	asker *client // instead of of: see Asker
}

// RemoteAddr implements net.Conn; it is a From.
func (i *grpcConn) RemoteAddr() net.Addr { return &From{Addr: i.Conn.RemoteAddr(), of: i} }

// charge counts n bytes, which may be negative, of open calls.
func (i *grpcConn) charge(n int64) {
	i.held.Add(n)
	i.at.held.Add(n)
	i.port.calls.Add(n)
}

// stay adds n bytes, which may be negative, to the charge for staying calls.
func (i *grpcConn) stay(n int64) {
	i.staying.Add(n)
	i.at.staying.Add(n)
}

// Staying is a call that stays open after its request has come. Its methods may be called from any goroutine, any number of times. Nil
// stands for a call of this process itself, which is not charged.
type Staying struct {
	of *grpcConn

	mu    sync.Mutex
	whole bool // the port holds no more for it than for a call that is answered at once. guarded by mu
	left  bool // guarded by mu
}

// Stay lets a call stay open: a stream, or a call that waits for other clients. whole: its request has come whole. False: there is no room,
// and nothing is held. Otherwise Left must be called when the handler ends.
func (f *From) Stay(whole bool) (*Staying, bool) {
	i, n := f.of, int64(0)
	if whole {
		n = lingerCost
	}
	i.charge(n)
	if !i.port.mayStay(i) {
		i.charge(-n)
		return nil, false
	}
	i.stay(intake.CallCost)
	return &Staying{of: i, whole: whole}, true
}

// Whole notes that the client has ended its side: the port has given back what the call, which stays, goes on holding.
func (s *Staying) Whole() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.whole && !s.left {
		s.whole = true
		s.of.charge(lingerCost)
	}
}

// Left ends Stay.
func (s *Staying) Left() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return
	}
	s.left = true
	if s.whole {
		s.of.charge(-lingerCost)
	}
	s.of.stay(-intake.CallCost)
}

// Hold takes n bytes for something that lasts as long as a call that stays, or reports that there is no room. Every n that was taken must be
// given back.
func (f *From) Hold(n int64) bool {
	i := f.of
	i.charge(n)
	if !i.port.mayStay(i) {
		i.charge(-n)
		return false
	}
	i.stay(n)
	return true
}

// GiveBack returns what Hold has taken.
func (f *From) GiveBack(n int64) {
	f.of.charge(-n)
	f.of.stay(-n)
}

// Crowded reports whether a call of this client must be refused, which the port has charged already. stays: its handler will ask Stay.
func (f *From) Crowded(stays bool) bool {
	i, p := f.of, f.of.port
	if stays {
		return !p.mayStay(i)
	}
	all := p.callRoom()
	return i.passing() > all/4 || p.calls.Load() > all && i.at.passing() > shareOf(all)
}

// Crowded reports whether any client's calls may have to be refused: a cheap question to ask before From.Crowded.
func (p *Port) Crowded() bool { return p.calls.Load() > p.callRoom()/4 }

// mayStay judges what connection i wants to let stay, and has charged already.
func (p *Port) mayStay(i *grpcConn) bool {
	all := p.callRoom()
	taken := p.calls.Load()
	if crowded(taken, all) && i.at.held.Load() > shareOf(all) {
		return false
	}
	if taken <= all-all/16 {
		return true
	}
	return p.relieve(i)
}

// relieve closes the connection that holds the most without progress and reports whether there was one but asks: its room is about to come.
// It looks at every connection, so it does that only from time to time.
func (p *Port) relieve(asks *grpcConn) bool {
	now := time.Now().UnixNano()
	last := p.relieved.Load()
	if now-last < int64(relieveInterval) || !p.relieved.CompareAndSwap(last, now) {
		return false
	}
	var most int64
	var worst *grpcConn
	for _, i := range p.connections() {
		if n := i.lacking(); n > most {
			most, worst = n, i
		}
	}
	if worst == nil {
		return false
	}
	worst.Cut() // the gRPC server notices, and its calls end
	return worst != asks
}

// lacking returns the bytes that a connection holds without progress. It is all of them if its client takes no answers, or those of
// incomplete requests if they are most of them. Otherwise it is none.
func (i *grpcConn) lacking() int64 {
	now, held := i.port.now.Load(), i.held.Load()
	if i.blocked(now) {
		return held
	}
	if n := i.Lacking(before(now)); n > held/2 {
		return n
	}
	return 0
}

// blocked reports whether a write has waited for the client for longer than stallGrace.
func (i *grpcConn) blocked(now uint64) bool {
	began := i.writing.Load()
	return began != 0 && began-1 < before(now)
}

// before is the second up to which what has made no progress since lacks it.
func before(now uint64) uint64 {
	const grace = uint64(stallGrace / time.Second)
	return now - min(now, grace)
}

// CallUse is how much of a port's room for open calls is taken, in bytes.
type CallUse struct {
	Port        string
	Taken, Most int64
}

// Near reports whether addresses will be held to their shares soon, or are.
func (u CallUse) Near() bool { return near(u.Taken, u.Most) }

// callUse returns the calls open now.
func (p *Port) callUse() CallUse { return CallUse{p.opts.Name, p.calls.Load(), p.callRoom()} }

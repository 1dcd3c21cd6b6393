package port

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ConnLimit bounds the connections of several ports together. Each takes a descriptor and memory of the same process, which needs some for
// its log and its store. Its methods may be called from several goroutines.
//
// Once three quarters of the places are taken, an address with more than a 64th of all gets no further place. Of an IPv6 address the first
// 64 bits count. It gets a new one only in exchange for one of its own. When all are taken, connections make room in the order of Rank. A
// connection that makes progress is never closed: the newcomer is.
type ConnLimit struct {
	max int64
	// Failed hears of TLS handshakes that failed, from any goroutine; nil: no call. It is set before the first connection.
	Failed func(from string, err error)

	mu     sync.Mutex
	missed map[netip.Addr]time.Time // when no connection could make room for a client of an address. guarded by mu
	open   int64                    // guarded by mu
	sites  map[netip.Addr]int64     // connections by Site, without those that have none. guarded by mu
	evict  []Evict                  // guarded by mu
	ports  []*Port                  // guarded by mu
}

// Rank says which connections make room first.
type Rank int

const (
	// Lacking connections should have made progress. Their client has been silent for a second, or a request comes too slowly, or an answer
	// is not taken.
	Lacking Rank = iota
	// Crowding connections are Young, and there are so many of them that a client that has just come has time to say something (Many).
	Crowding
	// Idle connections wait for their next request.
	Idle
	// Young connections have never been answered, and their first request has not come whole.
	Young
)

// Evict closes one connection of a rank, counts it out, and reports whether there was one. may says of an address (Site) whether its
// connections may be closed. A ConnLimit calls it without any mutex of its own or of a Port.
type Evict func(may func(site netip.Addr) bool, rank Rank) bool

// NewConnLimit makes one for so many connections.
func NewConnLimit(max int) *ConnLimit {
	return &ConnLimit{max: int64(max), sites: map[netip.Addr]int64{}, missed: map[netip.Addr]time.Time{}}
}

// Join adds a holder of connections that can make room for those of others.
func (l *ConnLimit) Join(evict Evict) {
	l.mu.Lock()
	l.evict = append(l.evict, evict)
	l.mu.Unlock()
}

// joinPort is Join for a port: operators are told of its open calls together with the connections.
func (l *ConnLimit) joinPort(p *Port) {
	l.Join(p.makeRoom)
	l.mu.Lock()
	l.ports = append(l.ports, p)
	l.mu.Unlock()
}

// Calls returns the present use of each port's open calls. Ports without a name are left out.
func (l *ConnLimit) Calls() (all []CallUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.ports {
		if p.opts.Name != "" {
			all = append(all, p.callUse())
		}
	}
	return all
}

// Enter counts a connection of a client in, or reports that it must be refused. It is refused if its address exceeds its share or all
// places are taken, and no connection can make room.
func (l *ConnLimit) Enter(from net.Addr) bool {
	site := Site(from)
	for exchanged := false; ; {
		verdict := l.take(site, exchanged)
		if verdict == entered {
			return true
		}
		if exchanged && verdict == full || !l.makeRoom(site, verdict == overShare) {
			return false
		}
		exchanged = verdict == overShare
	}
}

// Leave counts a connection of a client out.
func (l *ConnLimit) Leave(from net.Addr) { l.leave(Site(from)) }

// verdict is what take says.
type verdict int

const (
	entered   verdict = iota
	full              // any connection without progress may make room
	overShare         // only one of the same address may
)

// take counts a connection in if it may enter. exchanged: one of its address has just been closed for it.
func (l *ConnLimit) take(site netip.Addr, exchanged bool) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch held := l.sites[site]; {
	case site.IsValid() && !exchanged && crowded(l.open, l.max) && held > shareOf(l.max):
		return overShare
	case l.open >= l.max:
		return full
	}
	l.add(site, 1)
	return entered
}

// force counts a connection in that is there already.
func (l *ConnLimit) force(site netip.Addr) {
	l.mu.Lock()
	l.add(site, 1)
	l.mu.Unlock()
}

func (l *ConnLimit) leave(site netip.Addr) {
	l.mu.Lock()
	l.add(site, -1)
	l.mu.Unlock()
}

// add counts n connections of an address. l.mu is held.
func (l *ConnLimit) add(site netip.Addr, n int64) {
	l.open += n
	if !site.IsValid() {
		return
	}
	if l.sites[site] += n; l.sites[site] == 0 {
		delete(l.sites, site)
	}
}

// missPause is the time without a new search for room after one that found none for an address. A search looks at every connection, and a
// flood would cause one for each of its own. An address that has its share waits longer.
const (
	missPause      = 10 * time.Millisecond
	missPauseShare = 100 * time.Millisecond
	mostMissed     = 1024 // addresses whose misses are remembered
)

// makeRoom has a holder of connections close one in favour of a client of an address, and reports whether one did. With own it must be one
// of that address. No mutex is held.
//
// A connection that lacks progress makes room for any client. One that is idle makes room for a client of an address that has fewer
// connections, or of its own for want of another. A crowd pushes out its own young connections before those of other addresses: a new
// client is left the time to send something.
func (l *ConnLimit) makeRoom(site netip.Addr, own bool) bool {
	l.mu.Lock()
	all, has := slices.Clone(l.evict), l.sites[site]
	pause := missPause
	if own {
		pause = missPauseShare
	}
	missed := time.Since(l.missed[site]) < pause
	l.mu.Unlock()
	if missed {
		return false
	}
	same := func(of netip.Addr) bool { return of == site }
	richer := func(of netip.Addr) bool { return l.has(of) > has+1 }
	pressing := func(of netip.Addr) bool { return same(of) || richer(of) }
	looks := []struct {
		may  func(netip.Addr) bool
		rank Rank
	}{{pressing, Lacking}, {anySite, Lacking}, {richer, Young}, {same, Crowding}, {richer, Idle}, {anySite, Young}, {same, Idle}}
	if own {
		looks = looks[:4]
		for i := range looks {
			looks[i].may, looks[i].rank = same, Rank(i)
		}
	}
	for _, look := range looks {
		for _, evict := range all {
			if evict(look.may, look.rank) {
				return true
			}
		}
	}
	l.mu.Lock()
	if len(l.missed) >= mostMissed {
		clear(l.missed)
	}
	l.missed[site] = time.Now()
	l.mu.Unlock()
	return false
}

// Many reports whether so many young connections are Crowding.
func (l *ConnLimit) Many(young int) bool { return int64(young) > l.max/4 }

// has is how many connections an address has.
func (l *ConnLimit) has(site netip.Addr) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sites[site]
}

// ConnUse is how many places of a ConnLimit are taken, and by which address most.
type ConnUse struct {
	Open, Most int64
	From       netip.Addr // with the most connections; not valid: none is open over a network
	Here       int64      // its connections
}

// Use returns the places taken now.
func (l *ConnLimit) Use() ConnUse {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := ConnUse{Open: l.open, Most: l.max}
	for site, n := range l.sites { // any order: the one with the most, the smaller address of two
		if n > u.Here || n == u.Here && site.Less(u.From) {
			u.From, u.Here = site, n
		}
	}
	return u
}

// Near reports whether addresses will be held to their shares soon, or are.
func (u ConnUse) Near() bool { return near(u.Open, u.Most) }

// String prints the places taken, for people.
func (u ConnUse) String() string {
	s := fmt.Sprintf("%d of %d connections are open", u.Open, u.Most)
	if u.From.IsValid() {
		from := u.From.String()
		if u.From.Is6() {
			from = netip.PrefixFrom(u.From, 64).String()
		}
		s += fmt.Sprintf(", %d of them from %s", u.Here, from)
	}
	return s
}

package port

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ConnLimit bounds the connections of several ports together: each of them takes a descriptor and memory of the same process,
// which needs some for its log and its store. Its methods may be called from several goroutines.
//
// Once three quarters of the places are taken, an address with more than a 64th of all (IPv6: the first 64 bits) gets a new one only in
// exchange for one of its own that makes no progress. When all are taken, any connection without progress makes room for a client of any
// other address. A connection that makes progress is never closed: the newcomer is.
type ConnLimit struct {
	max int64
	// Failed hears of TLS handshakes that failed, from any goroutine; nil: nobody does. It is set before the first connection.
	Failed func(from string, err error)

	mu       sync.Mutex
	missed   time.Time                               // when no connection could make room; guarded by mu
	missedOf netip.Addr                              // for a client of this address, the zero Addr: of any; guarded by mu
	open     int64                                   // guarded by mu
	sites    map[netip.Addr]int64                    // connections by siteOf, without those that have none. guarded by mu
	evict    []func(only netip.Addr, well bool) bool // guarded by mu
	ports    []*Port                                 // guarded by mu
}

// NewConnLimit makes one for so many connections.
func NewConnLimit(max int) *ConnLimit {
	return &ConnLimit{max: int64(max), sites: map[netip.Addr]int64{}}
}

// Join adds a holder of connections that can make room for those of others. evict closes a connection that makes no progress, counts it out, and
// reports whether there was one. With well it closes one that waits for its next request, or has just come. only is the address it must come
// from (siteOf), the zero Addr: any. evict is called without any mutex of a ConnLimit or a Port.
func (l *ConnLimit) Join(evict func(only netip.Addr, well bool) bool) {
	l.mu.Lock()
	l.evict = append(l.evict, evict)
	l.mu.Unlock()
}

// joinPort is Join for a port, whose open calls operators are told of together with the connections.
func (l *ConnLimit) joinPort(p *Port) {
	l.Join(p.makeRoom)
	l.mu.Lock()
	l.ports = append(l.ports, p)
	l.mu.Unlock()
}

// Calls looks at what the open calls of each port hold now. Ports without a name are left out.
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

// Enter counts a connection of a client in, or reports that it must be refused: its address has its share and more, or all places are taken,
// and no connection lacks progress that could make room.
func (l *ConnLimit) Enter(from net.Addr) bool {
	site := siteOf(from)
	for exchanged := false; ; {
		switch l.take(site, exchanged) {
		case entered:
			return true
		case full:
			if exchanged || !l.makeRoom(netip.Addr{}) {
				return false
			}
		case overShare:
			if exchanged = l.makeRoom(site); !exchanged {
				return false
			}
		}
	}
}

// Leave counts a connection of a client out.
func (l *ConnLimit) Leave(from net.Addr) { l.leave(siteOf(from)) }

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

// missPause is how long no room is looked for after there was none: looking takes a look at every connection, and a flood would ask for each of its
// own.
const missPause = 10 * time.Millisecond

// makeRoom has a holder of connections close one without progress, or else one between two requests, and reports whether one did. No mutex is held.
func (l *ConnLimit) makeRoom(only netip.Addr) bool {
	l.mu.Lock()
	all := slices.Clone(l.evict)
	missed := l.missedOf == only && time.Since(l.missed) < missPause
	l.mu.Unlock()
	if missed {
		return false
	}
	for _, well := range []bool{false, true} {
		for _, evict := range all {
			if evict(only, well) {
				return true
			}
		}
	}
	l.mu.Lock()
	l.missed, l.missedOf = time.Now(), only
	l.mu.Unlock()
	return false
}

// ConnUse is how many places of a ConnLimit are taken, and by which address most.
type ConnUse struct {
	Open, Most int64
	From       netip.Addr // with the most connections; not valid: none is open over a network
	Here       int64      // its connections
}

// Use looks at what is taken now.
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

// String says what is taken, for people.
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

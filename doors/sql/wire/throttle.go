package wire

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

const (
	// freeFailures is how many logins from an address may fail before its next ones wait.
	freeFailures = 5
	// leastPause and mostPause are between two logins of an address that has failed more often. Each failure doubles the pause.
	leastPause = 100 * time.Millisecond
	mostPause  = time.Second
	// mostWait is how long a login waits for its turn. One that would wait longer is refused.
	mostWait = 5 * time.Second
	// forgetAfter is how long an address keeps its failures.
	forgetAfter = time.Minute
	// mostAddresses bounds the addresses that are remembered.
	mostAddresses = 10_000
)

// throttle slows down addresses whose logins fail, and no others: guessing passwords gets one try a second, over however many connections. A
// login that succeeds clears its address. The zero throttle is ready. Any goroutine.
type throttle struct {
	mu  sync.Mutex
	all map[netip.Prefix]*failures // guarded by mu
}

type failures struct {
	n    int
	last time.Time
	turn time.Time // when the next login may begin
}

// enter returns how long a login has to wait for its turn. false: too many wait already.
func (t *throttle) enter(of netip.Prefix, now time.Time) (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.all[of]
	if f == nil || f.n < freeFailures || now.Sub(f.last) > forgetAfter {
		return 0, true
	}
	turn := now
	if f.turn.After(now) {
		turn = f.turn
	}
	if turn.Sub(now) > mostWait {
		return 0, false
	}
	f.turn = turn.Add(min(leastPause<<min(f.n-freeFailures, 10), mostPause))
	return turn.Sub(now), true
}

// failed counts a login that has failed.
func (t *throttle) failed(of netip.Prefix, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.all[of]
	if f == nil {
		t.makeRoom(now)
		f = &failures{}
		t.all[of] = f
	}
	if now.Sub(f.last) > forgetAfter {
		f.n = 0
	}
	f.n, f.last = f.n+1, now
}

// makeRoom forgets addresses if there are too many: those whose failures are old, or any one.
func (t *throttle) makeRoom(now time.Time) {
	if t.all == nil {
		t.all = map[netip.Prefix]*failures{}
	}
	if len(t.all) < mostAddresses {
		return
	}
	for of, f := range t.all { // any order: each is judged by itself
		if now.Sub(f.last) > forgetAfter {
			delete(t.all, of)
		}
	}
	for of := range t.all { // any order: one has to go
		if len(t.all) < mostAddresses {
			return
		}
		delete(t.all, of)
	}
}

// passed clears an address.
func (t *throttle) passed(of netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, of)
}

// addressOf is what failures are counted by: an IPv4 address, or the /64 of an IPv6 address, all of which one stranger may have. The zero Prefix
// stands for clients without an IP address.
func addressOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	bits := 64
	if ip = ip.Unmap(); ip.Is4() {
		bits = 32
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// localhost is the host of clients from loopback.
const localhost = "localhost"

// HostOf is the host that a client comes from, as accounts and errors name it.
func HostOf(a net.Addr) string {
	if a == nil {
		return localhost
	}
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return localhost
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// crypts bounds the goroutines that compute SHA-crypt and RSA for logins, to half of the processors: strangers cannot take all of them. The zero
// crypts is ready. Any goroutine.
type crypts struct {
	once   sync.Once
	places chan struct{}
}

// run calls fn in one of the places. false: none became free in time.
func (c *crypts) run(ctx context.Context, patience time.Duration, fn func()) bool {
	c.once.Do(func() { c.places = make(chan struct{}, max(runtime.NumCPU()/2, 1)) })
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case c.places <- struct{}{}:
	case <-late.C:
		return false
	case <-ctx.Done():
		return false
	}
	defer func() { <-c.places }()
	fn()
	return true
}

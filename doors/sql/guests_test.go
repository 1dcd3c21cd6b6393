package sql

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port"
)

// visitor is a connection of a client at an address.
type visitor struct {
	net.Conn
	from   net.Addr
	closed int
}

func (v *visitor) RemoteAddr() net.Addr { return v.from }
func (v *visitor) Close() error         { v.closed++; return nil }

// TestALoginThatDoesNotComeMakesRoom: when all places are taken, the connection that has tried to log in for longest makes room for a client, one
// that has logged in never, and each is counted out once.
func TestALoginThatDoesNotComeMakesRoom(t *testing.T) {
	limit := port.NewConnLimit(4)
	var g guests
	limit.Join(func(may func(netip.Addr) bool, rank port.Rank) bool { return g.evict(limit, may, rank) })
	of := func(addr string) func(netip.Addr) bool {
		return func(site netip.Addr) bool { return site == netip.MustParseAddr(addr) }
	}
	come := func(addr string, ago time.Duration) (*visitor, *guest) {
		t.Helper()
		v := &visitor{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}
		if !limit.Enter(v.from) {
			return v, nil
		}
		one := g.enter(v)
		one.began = time.Now().Add(-ago)
		return v, one
	}
	known, inside := come("192.0.2.1:1", time.Hour)
	g.loggedIn(known)
	g.loggedIn(known)
	oldest, first := come("192.0.2.2:1", 2*loginGrace)
	old, second := come("[2001:db8::1]:1", loginGrace+time.Second)
	fresh, third := come("192.0.2.4:1", 0)
	newcomer, fourth := come("192.0.2.5:1", 0)
	if fourth == nil || oldest.closed != 1 || old.closed+fresh.closed+known.closed != 0 || limit.Use().Open != 4 {
		t.Fatalf("%+v makes room: %v", oldest, limit.Use())
	}
	if g.evict(limit, of("192.0.2.4"), port.Lacking) || g.evict(limit, of("192.0.2.1"), port.Lacking) || g.evict(limit, of("192.0.2.1"), port.Young) ||
		g.evict(limit, of("192.0.2.4"), port.Idle) {
		t.Error("a client that has just come, or has logged in, makes room")
	}
	if !g.evict(limit, of("2001:db8::"), port.Lacking) || old.closed != 1 || limit.Use().Open != 3 {
		t.Errorf("a login from the network of IPv6: closed %d times, %v", old.closed, limit.Use())
	}
	if !g.evict(limit, of("192.0.2.4"), port.Young) || fresh.closed != 1 || limit.Use().Open != 2 {
		t.Errorf("a client that has just come makes room before those that have logged in: closed %d times, %v", fresh.closed, limit.Use())
	}
	for _, one := range []*guest{inside, first, second, third, fourth, inside, first, second, third, fourth} {
		g.leave(limit, one)
	}
	if limit.Use().Open != 0 || len(g.of) != 0 || newcomer.closed != 0 {
		t.Errorf("after all have left: %v, %d guests", limit.Use(), len(g.of))
	}
	// In the door a client is a guest until it has logged in.
	r := newRig(t)
	c := r.connect("")
	defer c.Close()
	wait.Until(t, "the client is no guest any more", func() bool {
		all := &r.d.serving.guests
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.of) == 0
	})
}

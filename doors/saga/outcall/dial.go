package outcall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// minDialTime is what each of several addresses of a name gets at least before the next is tried.
const minDialTime = 500 * time.Millisecond

// dial connects to a target. Names are resolved here and the addresses dialled as such, so that no second resolution happens between the
// judgement and the connection. The error is, or wraps, a *refusal if policy has refused every address that could be tried.
func (n *Net) dial(ctx context.Context, t *target) (net.Conn, error) {
	addrs := []netip.Addr{t.addr}
	if !t.addr.IsValid() {
		if r := n.judge.name(t.host); r != nil {
			return nil, r
		}
		var err error
		if addrs, err = n.o.Lookup(ctx, t.host); err != nil {
			return nil, fmt.Errorf("resolve %s: %w", t.host, err)
		}
		if len(addrs) == 0 {
			return nil, fmt.Errorf("resolve %s: the name has no address", t.host)
		}
	}
	n.meter.Dials.Inc()
	var failed error
	for i, addr := range addrs {
		conn, err := n.dialOne(ctx, netip.AddrPortFrom(addr, t.port), t.host, len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if r := (*refusal)(nil); failed == nil || errors.As(failed, &r) {
			failed = err // an error of a tried address says more than that of an untried one
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// dialOne dials one address, the first of so many that are left. The judgement stands where the socket exists and is not yet
// connected: it sees the very address that the kernel is given.
func (n *Net) dialOne(ctx context.Context, at netip.AddrPort, host string, left int) (net.Conn, error) {
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return refuse("dial %s: %v", address, err)
		}
		if r := n.judge.address(at, host); r != nil {
			return r
		}
		return nil
	}}
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		d.Timeout = max(time.Until(deadline)/time.Duration(left), minDialTime)
	}
	return d.DialContext(ctx, "tcp", at.String())
}

// remote is where a connection leads.
func remote(c net.Conn) netip.AddrPort {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// lookup is the system's resolver.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

package port

import (
	"net"
	"net/netip"
)

// Site returns the part of a client's address by which limits count: an IPv4 address, or the first 64 bits of an IPv6 address. A single
// machine has all IPv6 addresses with the same 64 bits. The zero Addr stands for connections that come over no network; no share bounds
// them.
func Site(a net.Addr) netip.Addr {
	var addr netip.Addr
	switch a := a.(type) {
	case nil:
		return addr
	case *net.TCPAddr:
		addr = a.AddrPort().Addr()
	default:
		at, err := netip.ParseAddrPort(a.String())
		if err != nil {
			return addr
		}
		addr = at.Addr()
	}
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		addr = netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return addr
}

// crowded reports whether three quarters of all are taken. From then on a client with more than shareOf may have nothing more: the last
// quarter is for the others.
func crowded(taken, all int64) bool { return taken >= all-all/4 }

// near reports whether crowded is near, which operators are told.
func near(taken, all int64) bool { return taken >= all/8*5 }

// shareOf is the bound of one address once it is crowded. Where there are few places, a program with some connections is no crowd.
func shareOf(all int64) int64 { return max(all/64, 4) }

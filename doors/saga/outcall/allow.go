package outcall

import (
	"fmt"
	"net/netip"
	"strings"
)

// Allow is the operator's list of permitted targets: addresses, and hosts as they stand in URLs. The zero value is none.
type Allow struct {
	prefixes []netip.Prefix
	hosts    map[string]bool         // lower case, without a final dot
	ports    map[netip.AddrPort]bool // of plain addresses
	named    map[hostPort]bool
}

type hostPort struct {
	host string
	port uint16
}

// ParseAllow reads a flag's words. Each is an address, a block of addresses (CIDR), the name of a host, or an address or name with one
// port, 10.0.0.7:8080. The error says which word cannot be read.
func ParseAllow(words []string) (a Allow, err error) {
	for _, word := range words {
		word = strings.TrimSpace(word)
		if p, err := netip.ParsePrefix(word); err == nil {
			a.prefixes = append(a.prefixes, plainPrefix(p))
			continue
		}
		if ip, err := netip.ParseAddr(strings.Trim(word, "[]")); err == nil {
			ip = plain(ip)
			a.prefixes = append(a.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		if at, err := netip.ParseAddrPort(word); err == nil {
			if a.ports == nil {
				a.ports = map[netip.AddrPort]bool{}
			}
			a.ports[netip.AddrPortFrom(plain(at.Addr()), at.Port())] = true
			continue
		}
		name, number, withPort := strings.Cut(word, ":")
		host, err := hostName(name)
		var port uint16
		if err == nil && withPort {
			port, err = parsePort(number)
		}
		if err != nil {
			return Allow{}, fmt.Errorf("%q is neither an address, a block of addresses (such as 10.0.0.0/8) nor the name of a host, and none of them with a port: %w", word, err)
		}
		if withPort {
			if a.named == nil {
				a.named = map[hostPort]bool{}
			}
			a.named[hostPort{host, port}] = true
			continue
		}
		if a.hosts == nil {
			a.hosts = map[string]bool{}
		}
		a.hosts[host] = true
	}
	return a, nil
}

// exactly reports whether this very port was named, at the address or by the name that the URL has for it.
func (a Allow) exactly(at netip.AddrPort, host string) bool {
	return a.ports[netip.AddrPortFrom(plain(at.Addr()), at.Port())] || a.named[hostPort{host, at.Port()}]
}

// host reports whether the name was named.
func (a Allow) host(name string) bool { return a.hosts[name] }

// addr reports whether the address, a plain one, was named.
func (a Allow) addr(ip netip.Addr) bool {
	for _, p := range a.prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

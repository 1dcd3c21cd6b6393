package outcall

import (
	"fmt"
	"net/netip"
	"strings"
)

// Allow are targets that somebody has named: addresses, and hosts as they stand in URLs. The zero value is none.
type Allow struct {
	prefixes []netip.Prefix
	hosts    map[string]bool // lower case, without a final dot
}

// ParseAllow reads what was written in a flag: each word is an address, a block of addresses (CIDR) or the name of a host. The error
// says which word cannot be read.
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
		host, err := hostName(word)
		if err != nil {
			return Allow{}, fmt.Errorf("%q is neither an address, a block of addresses (such as 10.0.0.0/8) nor the name of a host: %w", word, err)
		}
		if a.hosts == nil {
			a.hosts = map[string]bool{}
		}
		a.hosts[host] = true
	}
	return a, nil
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

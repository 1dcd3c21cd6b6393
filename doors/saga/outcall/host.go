package outcall

import (
	"errors"
	"net/netip"
	"strings"
)

// plain is the address without what gives one address several spellings: IPv4 inside IPv6, and zones.
func plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// hostName is the name of a host as it is compared and resolved: lower case, without a final dot. A name that some resolver could take for
// an address is refused. 127.1, 0x7f000001, 2130706433 and 017700000001 are all 127.0.0.1 to the C library.
func hostName(s string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if name == "" || len(name) > 253 {
		return "", errors.New("a host's name has 1 to 253 letters")
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return "", errors.New("a host's name has letters, digits, hyphens and dots; others are written as punycode (xn--…)")
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" || strings.Contains(name, "..") || name[0] == '.' {
		return "", errors.New("a part of the host's name between two dots is empty")
	}
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return "", errors.New("an IPv4 address is written as four decimal numbers")
	}
	return name, nil
}

// plainPrefix is plain for a block: ::ffff:10.0.0.0/104 is 10.0.0.0/8.
func plainPrefix(p netip.Prefix) netip.Prefix {
	bits := p.Bits()
	if p.Addr().Is4In6() {
		bits = max(bits-96, 0)
	}
	return netip.PrefixFrom(plain(p.Addr()), bits).Masked()
}

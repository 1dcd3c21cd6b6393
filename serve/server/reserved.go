package server

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// reserved are the addresses of the ports that only members and operators may reach: a door that connects to what clients name must leave
// them alone. Where the other members' operators listen is not in the log; it is taken to be this member's admin port at their peer
// addresses, as it is wherever one file of settings serves all. It may be called from any goroutine.
func (s *Server) reserved() (all []netip.AddrPort) {
	add := func(host, port string) {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
			return
		}
		if host == "localhost" || host == "" {
			all = append(all, netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(n)))
		}
	}
	adminPort := ""
	if s.setup.Admin != nil {
		host, port, err := net.SplitHostPort(s.setup.Admin.Addr)
		if err == nil {
			adminPort = port
			add(host, port)
		}
	}
	for _, p := range s.setup.Peers {
		if host, port, err := net.SplitHostPort(p.Addr); err == nil {
			add(host, port)
		}
	}
	n := s.members.Load()
	if n == nil {
		return all
	}
	for _, m := range n.Members() {
		for _, at := range m.PeerURLs {
			hostPort := at
			if u, err := url.Parse(at); err == nil && u.Host != "" {
				hostPort = u.Host
			}
			host, port, err := net.SplitHostPort(hostPort)
			if err != nil {
				continue
			}
			add(host, port)
			if adminPort != "" {
				add(host, adminPort)
			}
		}
	}
	return all
}

package server

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reserved are the addresses of the cluster's own ports. A door that connects to addresses named by clients must leave them alone. It must
// do so always for those of members and operators, and for those of doors unless an operator has named them. The log has no ports of other
// members' operators and clients, beyond the URLs that members publish. They are taken to be this member's ports at the other members' peer
// addresses. That is right wherever one file of settings serves all. Its functions may be called from any goroutine, for every call to a
// service.
type reserved struct {
	s *Server

	mu       sync.Mutex // guards the rest
	bound    []string   // host:port of this member's doors, once they listen
	until    time.Time
	members  []netip.AddrPort
	doors    []netip.AddrPort
	resolved map[string]*resolved // by name of a host
}

// resolved is the addresses of a name.
type resolved struct {
	addrs []netip.Addr
	until time.Time
	asked bool // it is being resolved
}

const (
	// reservedFor is for how long the addresses are kept: members seldom change.
	reservedFor = time.Second
	// resolvedFor is the same of a name's addresses.
	resolvedFor = 30 * time.Second
)

// listens notes where doors listen, as Host.Bound has it: "kv=127.0.0.1:2379".
func (r *reserved) listens(at []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range at {
		if _, addr, ok := strings.Cut(one, "="); ok {
			r.bound = append(r.bound, addr)
		}
	}
	r.until = time.Time{}
}

// Members are the ports of members and operators.
func (r *reserved) Members() []netip.AddrPort {
	members, _ := r.all()
	return members
}

// Doors are the ports of clients.
func (r *reserved) Doors() []netip.AddrPort {
	_, doors := r.all()
	return doors
}

func (r *reserved) all() (members, doors []netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.After(r.until) {
		r.collect()
		r.until = now.Add(reservedFor)
	}
	return r.members, r.doors
}

// collect makes both lists anew. The caller holds mu.
func (r *reserved) collect() {
	su := r.s.setup
	members, doors := []netip.AddrPort{}, []netip.AddrPort{}
	var everywhere []string // ports that other members have too
	adminPort := ""
	if su.Admin != nil {
		host, port, err := net.SplitHostPort(su.Admin.Addr)
		if err == nil {
			adminPort = port
			r.add(&members, host, port)
		}
	}
	for _, p := range su.Peers {
		if host, port, err := net.SplitHostPort(p.Addr); err == nil {
			r.add(&members, host, port)
		}
	}
	door := func(addr string) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || port == "0" {
			return
		}
		r.add(&doors, host, port)
		if !slices.Contains(everywhere, port) {
			everywhere = append(everywhere, port)
		}
	}
	for _, d := range su.Services {
		for _, p := range d.Places {
			if p.Network == "tcp" {
				door(p.Addr)
			}
		}
	}
	for _, addr := range r.bound {
		door(addr)
	}
	if n := r.s.members.Load(); n != nil {
		for _, m := range n.Members() {
			for _, at := range m.PeerURLs {
				host, port, ok := splitURL(at)
				if !ok {
					continue
				}
				r.add(&members, host, port)
				if adminPort != "" {
					r.add(&members, host, adminPort)
				}
				for _, port := range everywhere {
					r.add(&doors, host, port)
				}
			}
			for _, at := range m.ClientURLs {
				if host, port, ok := splitURL(at); ok {
					r.add(&doors, host, port)
				}
			}
		}
	}
	r.members, r.doors = members, doors
}

// splitURL returns host and port of a URL, or of an address without a scheme.
func splitURL(at string) (host, port string, ok bool) {
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		at = u.Host
	}
	host, port, err := net.SplitHostPort(at)
	return host, port, err == nil
}

// add adds an address, or those of a name. The caller holds mu.
func (r *reserved) add(to *[]netip.AddrPort, host, port string) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		*to = append(*to, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
		return
	}
	if host == "localhost" || host == "" {
		*to = append(*to, netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(n)))
		return
	}
	for _, ip := range r.resolve(host) {
		*to = append(*to, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
	}
}

// resolve returns the addresses of a name, as they were when they were last known. The caller holds mu.
func (r *reserved) resolve(host string) []netip.Addr {
	known := r.resolved[host]
	if known == nil {
		known = &resolved{}
		if r.resolved == nil {
			r.resolved = map[string]*resolved{}
		}
		r.resolved[host] = known
	}
	if !known.asked && time.Now().After(known.until) {
		known.asked = true
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), resolvedFor)
			defer cancel()
			addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			r.mu.Lock()
			defer r.mu.Unlock()
			known.asked = false
			if err != nil { // the known ones stay, and the next call asks again
				return
			}
			known.addrs, known.until, r.until = addrs, time.Now().Add(resolvedFor), time.Time{}
		}()
	}
	return known.addrs
}

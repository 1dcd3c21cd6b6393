package outcall

import (
	"fmt"
	"net"
	"net/netip"
)

// refusal is the reason for not calling a target. It is an error type of its own so that it is recognized inside any library's wrapping.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

func refuse(format string, args ...any) *refusal { return &refusal{fmt.Sprintf(format, args...)} }

// judge is Policy at work.
type judge struct {
	Policy
	interfaces func() []netip.Addr // this machine's addresses
}

func newJudge(p Policy) judge { return judge{Policy: p, interfaces: interfaceAddrs} }

// target judges what a URL says, before a name in it is resolved. The dialled address is judged as well.
func (j *judge) target(t *target) *refusal {
	if t.addr.IsValid() {
		return j.address(netip.AddrPortFrom(t.addr, t.port), t.host)
	}
	return j.name(t.host)
}

// name judges a name before it is resolved. Its addresses are judged as well.
func (j *judge) name(host string) *refusal {
	if metadataNames[host] && !j.Allow.host(host) {
		return refuse("%s is the metadata service of a cloud, which is not called unless it is among the allowed targets", host)
	}
	return nil
}

// address judges an address that is about to be dialled, or that a connection in use leads to. host is how the URL names it.
func (j *judge) address(at netip.AddrPort, host string) *refusal {
	ip := plain(at.Addr())
	exactly := j.Allow.exactly(at, host)
	if j.own(j.Own, ip, at.Port()) {
		return refuse("%s is this cluster's own administration or peer address, which is never called", at)
	}
	if !exactly && j.own(j.Doors, ip, at.Port()) {
		return refuse(ownDoor, at)
	}
	kind := kindOf(ip)
	for _, inner := range embedded(ip) { // the address that a gateway or a tunnel would make of it
		if j.own(j.Own, inner, at.Port()) {
			return refuse("%s stands for this cluster's own administration or peer address, which is never called", at)
		}
		if !exactly && j.own(j.Doors, inner, at.Port()) {
			return refuse(ownDoor, at)
		}
		if kind == "" {
			kind = kindOf(inner)
		}
	}
	if kind == "" || exactly {
		return nil
	}
	if j.Allow.addr(ip) || j.Allow.host(host) {
		return nil
	}
	return refuse("%s is %s, which is not called unless it is among the allowed targets", at, kind)
}

// ownDoor refuses one of Policy.Doors.
const ownDoor = "%s is a port at which this cluster serves clients, which is called only if it is among the allowed targets as HOST:PORT (--saga-allow-targets)"

// own reports whether this cluster listens there, at one of some addresses.
func (j *judge) own(all func() []netip.AddrPort, ip netip.Addr, port uint16) bool {
	if all == nil {
		return false
	}
	here, known := false, false // whether ip is an address of this machine, asked only if a port is the same
	for _, o := range all() {
		if o.Port() != port {
			continue
		}
		mine := plain(o.Addr())
		if mine == ip {
			return true
		}
		if !known {
			here, known = j.local(ip), true
		}
		if here && j.local(mine) {
			return true
		}
	}
	return false
}

// local reports whether a connection to the address ends at this machine.
func (j *judge) local(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	for _, mine := range j.interfaces() {
		if plain(mine) == ip {
			return true
		}
	}
	return false
}

// interfaceAddrs asks the kernel. A machine that does not say has none beyond the loopback ones.
func interfaceAddrs() (all []netip.Addr) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, n := range nets {
		if n, ok := n.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, ip)
			}
		}
	}
	return all
}

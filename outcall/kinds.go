package outcall

import "net/netip"

// metadataNames are the names under which clouds offer a machine its own credentials.
var metadataNames = map[string]bool{
	"metadata.google.internal":     true,
	"metadata.goog":                true,
	"metadata":                     true,
	"instance-data":                true,
	"instance-data.ec2.internal":   true,
	"metadata.azure.internal":      true,
	"metadata.azure.com":           true,
	"metadata.tencentyun.com":      true,
	"metadata.platformequinix.com": true,
	"metadata.packet.net":          true,
	"rancher-metadata":             true,
}

// metadataAddrs are their addresses beside the link-local ones.
var metadataAddrs = map[netip.Addr]bool{
	netip.MustParseAddr("fd00:ec2::254"):   true, // AWS
	netip.MustParseAddr("fd00:ec2::23"):    true, // AWS, pods
	netip.MustParseAddr("fd20:ce::254"):    true, // Google
	netip.MustParseAddr("100.100.100.200"): true, // Alibaba
	netip.MustParseAddr("168.63.129.16"):   true, // Azure
	netip.MustParseAddr("192.0.0.192"):     true, // Oracle
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	reserved    = netip.MustParsePrefix("240.0.0.0/4") // 255.255.255.255 among it
	siteLocal   = netip.MustParsePrefix("fec0::/10")
)

// kindOf says what kind of address a plain one is, if that kind is called only where somebody has named it.
func kindOf(ip netip.Addr) string {
	switch {
	case metadataAddrs[ip]:
		return "the metadata service of a cloud"
	case ip.IsLinkLocalUnicast():
		return "a link-local address"
	case ip.IsMulticast():
		return "a multicast address"
	case ip.IsUnspecified(), thisNetwork.Contains(ip):
		return "no address of a machine"
	case reserved.Contains(ip), siteLocal.Contains(ip):
		return "a reserved address"
	}
	return ""
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	compatible = netip.MustParsePrefix("::/96") // but :: and ::1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
)

// embedded is the IPv4 address that a gateway or tunnel makes of an IPv6 one.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return ip, false
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), translated.Contains(ip), compatible.Contains(ip) && !ip.IsLoopback() && !ip.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return ip, false
}

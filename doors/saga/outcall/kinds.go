package outcall

import (
	"bytes"
	"net/netip"
)

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

// kindOf names the kind of a plain address if that kind is called only where the operator allows it.
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
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	compatible = netip.MustParsePrefix("::/96") // but :: and ::1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
)

// embedded are the IPv4 addresses that a gateway or tunnel could make of an IPv6 one. A network that translates under a prefix of its own
// (RFC 6052) cannot be known from here.
func embedded(ip netip.Addr) (all []netip.Addr) {
	if !ip.Is6() {
		return nil
	}
	b := ip.As16()
	v4 := func(b0, b1, b2, b3 byte) { all = append(all, netip.AddrFrom4([4]byte{b0, b1, b2, b3})) }
	switch {
	case nat64.Contains(ip), translated.Contains(ip), compatible.Contains(ip) && !ip.IsLoopback() && !ip.IsUnspecified():
		v4(b[12], b[13], b[14], b[15])
	case sixToFour.Contains(ip):
		v4(b[2], b[3], b[4], b[5])
	case teredo.Contains(ip):
		v4(^b[12], ^b[13], ^b[14], ^b[15])
	case localNAT64.Contains(ip):
		// RFC 6052 has a place for each length of the prefix, with nothing behind it. Where it could be several, all are judged.
		rest := func(from int) bool { return bytes.Count(b[from:], []byte{0}) == len(b)-from }
		if rest(11) {
			v4(b[6], b[7], b[9], b[10])
		}
		if rest(12) {
			v4(b[7], b[9], b[10], b[11])
		}
		if rest(13) {
			v4(b[9], b[10], b[11], b[12])
		}
		if !rest(12) {
			v4(b[12], b[13], b[14], b[15])
		}
	}
	if (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP, under any prefix
		v4(b[12], b[13], b[14], b[15])
	}
	return all
}

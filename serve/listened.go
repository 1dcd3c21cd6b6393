package serve

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// procTables are where Linux lists the TCP sockets of this process's network, proc_pid_net(5).
var procTables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// stateListen is TCP_LISTEN in those tables.
const stateListen = "0A"

// listened reports whether a socket listens where an address of ours would be bound. A machine without IPv6 lacks one of the tables.
func listened(addr string, tables ...string) (bool, error) {
	ours, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return false, err
	}
	ip, _ := netip.AddrFromSlice(ours.IP) // without a host it is the zero value, which is everywhere
	ip = ip.Unmap()
	everywhere := !ip.IsValid() || ip.IsUnspecified()
	read := 0
	for _, table := range tables {
		b, err := os.ReadFile(table)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		read++
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line) // number, local address, remote address, state
			if len(f) < 4 || f[3] != stateListen {
				continue
			}
			theirs, err := procAddr(f[1])
			if err != nil {
				return false, fmt.Errorf("%s: %w", table, err)
			}
			if int(theirs.Port()) == ours.Port && (everywhere || theirs.Addr().IsUnspecified() || theirs.Addr() == ip) {
				return true, nil
			}
		}
	}
	if read == 0 {
		return false, errors.New("this system has no list of sockets")
	}
	return false, nil
}

// procAddr reads 0100007F:8FB5, which is 127.0.0.1:36789: words of the address as this machine would print them, and the port.
func procAddr(v string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(v, ":")
	b, err := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", v)
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}

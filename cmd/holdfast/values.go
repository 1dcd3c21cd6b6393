package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/internal/budget"
)

// address is a TCP address to listen on or to dial; the zero value means off.
type address struct{ host, port string }

func (a address) off() bool      { return a.port == "" }
func (a address) wildcard() bool { return a.host == "" || a.host == "0.0.0.0" || a.host == "::" }

// loopback reports whether only this machine can reach it. A host name other than localhost may resolve to anything and
// counts as beyond.
func (a address) loopback() bool {
	if a.host == "localhost" {
		return true
	}
	ip := net.ParseIP(a.host)
	return ip != nil && ip.IsLoopback()
}

func (a address) String() string {
	if a.off() {
		return "off"
	}
	return net.JoinHostPort(a.host, a.port)
}

func parseAddress(v string) (address, error) {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return address{}, errors.New("not an address; write host:port, for example 127.0.0.1:2379")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return address{}, errors.New("the port is not a number from 0 to 65535; write host:port")
	}
	return address{host, port}, nil
}

func setAddress(dst *address, v string) (err error) {
	if v == "off" {
		*dst = address{}
		return nil
	}
	*dst, err = parseAddress(v)
	if err != nil {
		return errors.New(strings.Replace(err.Error(), "write host:port", "write host:port or off", 1))
	}
	return nil
}

// dialable is parseAddress for an address to connect to.
func dialable(v string) (address, error) {
	a, err := parseAddress(v)
	if err == nil && (a.wildcard() || a.port == "0") {
		err = errors.New("nobody can dial that; write the member's host:port")
	}
	return a, err
}

func setJoin(dst *string, v string) error {
	a, err := dialable(v)
	if err != nil {
		return err
	}
	*dst = a.String()
	return nil
}

// namedAddress is one entry of --peers.
type namedAddress struct {
	name string
	address
}

// parsePeers reads n1=host:port,n2=host:port,….
func parsePeers(v string) ([]namedAddress, error) {
	var out []namedAddress
	for item := range strings.SplitSeq(v, ",") {
		item = strings.TrimSpace(item)
		name, at, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not name=host:port; write n1=host:port,n2=host:port,n3=host:port", item)
		}
		a, err := dialable(at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", item, err)
		}
		for _, o := range out {
			if o.name == name {
				return nil, fmt.Errorf("%s is named twice; every member needs a name of its own", name)
			}
			if o.address == a {
				return nil, fmt.Errorf("%s and %s have the same address; every member needs its own", o.name, name)
			}
		}
		out = append(out, namedAddress{name, a})
	}
	if len(out)%2 == 0 {
		return nil, fmt.Errorf("%d members survive no more failures than %d; name 1, 3 or 5", len(out), len(out)-1)
	}
	return out, nil
}

func peerNames(peers []namedAddress) []string {
	var out []string
	for _, p := range peers {
		out = append(out, p.name)
	}
	return out
}

func findPeer(peers []namedAddress, name string) (namedAddress, bool) {
	for _, p := range peers {
		if p.name == name {
			return p, true
		}
	}
	return namedAddress{}, false
}

// units of sizes, longest suffix first. Only powers of 1024: nobody should have to know which MB is meant.
var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// setSize reads a number of bytes such as 256MiB or 1.5GiB.
func setSize(dst *int64, v string) error {
	for _, u := range units {
		number, ok := strings.CutSuffix(v, u.suffix)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || f < 0 || math.IsInf(f, 0) || math.IsNaN(f) || f*float64(u.bytes) >= 1<<62 {
			break
		}
		*dst = int64(f * float64(u.bytes))
		return nil
	}
	return errors.New("not a size; write for example 256MiB or 2GiB")
}

// minMemory is what a server without doors needs; what the doors need is known once all is (config.check).
var minMemory = budget.Least(budget.Doors{})

func setMemory(dst *int64, v string) error {
	if err := setSize(dst, v); err != nil {
		return err
	}
	if *dst < minMemory {
		return fmt.Errorf("too little to run in; give at least %dMiB", (minMemory+1<<20-1)>>20)
	}
	return nil
}

// sizeString prints bytes for a person: 1.5 GiB.
func sizeString(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	for i := 3; i > 0; i-- {
		if u := units[i]; n >= u.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.bytes), u.suffix)
		}
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// passwordInURL finds a password in a URL, which no flag of ours takes but people may write.
var passwordInURL = regexp.MustCompile(`(://[^/:@,]*):[^@]*@`)

// withoutPassword makes a setting fit to be printed: errors go to logs that many people read.
func withoutPassword(v string) string { return passwordInURL.ReplaceAllString(v, "$1:…@") }

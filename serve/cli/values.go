package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
)

// Address is a TCP address to listen on or to dial; the zero value means off.
type Address struct{ Host, Port string }

// Off reports whether there is no address. Wildcard reports whether it stands for every address of this machine.
func (a Address) Off() bool      { return a.Port == "" }
func (a Address) Wildcard() bool { return a.Host == "" || a.Host == "0.0.0.0" || a.Host == "::" }

// Loopback reports whether only this machine can reach it. A host name other than localhost may resolve to anything and
// counts as beyond.
func (a Address) Loopback() bool {
	if a.Host == "localhost" {
		return true
	}
	ip := net.ParseIP(a.Host)
	return ip != nil && ip.IsLoopback()
}

// String prints host:port, or off.
func (a Address) String() string {
	if a.Off() {
		return "off"
	}
	return net.JoinHostPort(a.Host, a.Port)
}

// ParseAddress reads host:port; the host may be empty.
func ParseAddress(v string) (Address, error) {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return Address{}, errors.New("not an address; write host:port, for example 127.0.0.1:2379")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return Address{}, errors.New("the port is not a number from 0 to 65535; write host:port")
	}
	return Address{host, port}, nil
}

// SetAddress is ParseAddress for a flag, which may be off.
func SetAddress(dst *Address, v string) (err error) {
	if v == "off" {
		*dst = Address{}
		return nil
	}
	*dst, err = ParseAddress(v)
	if err != nil {
		return errors.New(strings.Replace(err.Error(), "write host:port", "write host:port or off", 1))
	}
	return nil
}

// Dialable is ParseAddress for an address to connect to.
func Dialable(v string) (Address, error) {
	a, err := ParseAddress(v)
	if err == nil && (a.Wildcard() || a.Port == "0") {
		err = errors.New("nobody can dial that; write the member's host:port")
	}
	return a, err
}

// units of sizes, longest suffix first. Only powers of 1024: no reader should have to guess which MB is meant.
var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// SetSize reads a number of bytes such as 256MiB or 1.5GiB.
func SetSize(dst *int64, v string) error {
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

// SizeString prints bytes for a person: 1.5 GiB.
func SizeString(n int64) string {
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

// SetBool reads a yes or no.
func SetBool(dst *bool, v string) error {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return errors.New("not a yes or no; write true or false")
	}
	*dst = b
	return nil
}

package outcall

import (
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// deaf listens at an address and takes no connection: those that try wait, as for a machine that is gone.
func deaf(t *testing.T, ip [4]byte, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: ip}); err != nil {
		t.Skip("the port is taken at the second address:", err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(port)).String()
	wait.Until(t, "its queue is full", func() bool {
		c, err := net.DialTimeout("tcp", at, 100*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err != nil
	})
}

// TestASecondAddressHasItsShareOfTheTime: of a name with two addresses the first is a machine that is gone, and the call gets through all the same.
func TestASecondAddressHasItsShareOfTheTime(t *testing.T) {
	t.Parallel()
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	deaf(t, [4]byte{127, 0, 0, 9}, int(at.Port()))
	n := newNet(t, Options{Timeout: 4 * time.Second, Lookup: names(map[string][]string{"two.test": {"127.0.0.9", "127.0.0.1"}})})
	_, port, _ := net.SplitHostPort(at.String())
	wait.Until(t, "a call gets through", func() bool { return do(t, n, &Request{URL: "http://two.test:" + port}).Outcome == OK })
}

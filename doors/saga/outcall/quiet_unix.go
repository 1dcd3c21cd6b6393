//go:build unix

package outcall

import (
	"crypto/tls"
	"net"
	"syscall"
)

// quietOf returns a function that checks an idle connection without waiting. It is true if the other side has neither closed it nor sent
// anything: both make it useless.
func quietOf(c net.Conn) func() bool {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return func() bool { return true }
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return func() bool { return false }
	}
	return func() (quiet bool) {
		err := raw.Control(func(fd uintptr) {
			var one [1]byte
			_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			quiet = err == syscall.EAGAIN
		})
		return err == nil && quiet
	}
}

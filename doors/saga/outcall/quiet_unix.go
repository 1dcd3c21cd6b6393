//go:build unix

package outcall

import (
	"crypto/tls"
	"net"
	"syscall"
)

// quietOf returns a function that reports, without waiting, whether a connection that nobody reads from has neither been closed by the
// other side nor been sent anything: both mean that it is of no further use.
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

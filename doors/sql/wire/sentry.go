package wire

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sentryEvery is how long a statement runs before the sentry looks whether its client is still there, and how long between two looks.
const sentryEvery = 250 * time.Millisecond

// sentry interrupts statements whose client has gone, so that the session's locks do not wait for the statement's end. While a statement runs
// nobody reads from its connection. A goroutine that reads for each connection was rejected: it costs its stack for every idle client. The
// sentry ends with the last connection.
func (s *Server) sentry() {
	for {
		time.Sleep(sentryEvery)
		s.mu.Lock()
		if len(s.conns) == 0 {
			s.awake = false
			s.mu.Unlock()
			return
		}
		var slow []*conn
		for _, c := range s.conns { // any order: each is looked at by itself
			if c.isSlow() {
				slow = append(slow, c)
			}
		}
		s.mu.Unlock()
		for _, c := range slow {
			if hungUp(c.raw) {
				c.interrupt(true)
			}
		}
	}
}

// isSlow reports whether the statement that runs has run since the last call.
func (c *conn) isSlow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	slow := c.running && c.seen == c.ran
	c.seen = c.ran
	return slow
}

// hungUp reports whether the other side of a TCP connection has closed it. Bytes that were not read yet do not hide that.
func hungUp(nc net.Conn) bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(polled, 0)
		gone = err == nil && n > 0
	})
	return gone || err != nil
}

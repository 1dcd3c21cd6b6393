package wire

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Go looks for what has come on sockets when a processor has nothing else to run, and otherwise every 10 ms. A client whose next command is there when
// its last answer has gone, as one is whose thread the kernel runs before the server's, keeps its processor meanwhile, and two such clients keep all others
// waiting. Therefore a connection that has not waited for its client stands back after some statements: behind all whose commands have come.

// straightStatements is how many statements a connection runs without waiting for its client before it stands back.
const straightStatements = 8

// socket reads from a connection, and notes whether it had to wait. It belongs to the goroutine that reads.
type socket struct {
	nc     net.Conn
	raw    syscall.RawConn // nil: it is no socket, and counts as one that waits
	waited bool            // since the reader has set it to false

	// Of the read that runs.
	into []byte
	n    int
	err  error
	try  func(fd uintptr) bool // made once: a read costs no allocation for it
}

func newSocket(nc net.Conn) *socket {
	s := &socket{nc: nc, waited: true}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	s.try = func(fd uintptr) bool {
		for {
			if s.n, s.err = unix.Read(int(fd), s.into); s.err != unix.EINTR {
				break
			}
		}
		if s.err == unix.EAGAIN {
			s.waited = true
			return false
		}
		return true
	}
	return s
}

// Read implements io.Reader, with the errors of a net.Conn.
func (s *socket) Read(b []byte) (int, error) {
	if s.raw == nil || len(b) == 0 {
		s.waited = true // as far as is known
		return s.nc.Read(b)
	}
	s.into = b
	err := s.raw.Read(s.try)
	s.into = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != nil:
		return 0, &net.OpError{Op: "read", Net: s.nc.LocalAddr().Network(), Source: s.nc.LocalAddr(), Addr: s.nc.RemoteAddr(), Err: s.err}
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

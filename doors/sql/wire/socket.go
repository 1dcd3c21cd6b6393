package wire

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync"
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
	raw    syscall.RawConn // nil: waiting is not noted
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
		return s.nc.Read(b)
	}
	s.into = b
	err := s.raw.Read(s.try)
	s.into = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != nil:
		return 0, &net.OpError{Op: "read", Net: s.nc.LocalAddr().Network(), Source: s.nc.LocalAddr(), Addr: s.nc.RemoteAddr(), Err: os.NewSyscallError("read", s.err)}
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// bell is an event among those of the sockets: who rings it is woken behind all sockets on which something has come before.
type bell struct {
	f    *os.File
	raw  syscall.RawConn
	rung bool
	ring func(fd uintptr) bool
}

// one is what is added to an event's counter, which nobody reads: each addition is an event.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	b := &bell{f: os.NewFile(uintptr(fd), "bell")}
	if b.raw, err = b.f.SyscallConn(); err != nil {
		return nil, err
	}
	b.ring = func(fd uintptr) bool {
		if b.rung {
			return true
		}
		b.rung = true
		_, err := unix.Write(int(fd), one)
		return err != nil // no event comes
	}
	return b, nil
}

// bells are those that nobody waits for. As many are made as connections stand back at a time, which are few.
var bells struct {
	mu  sync.Mutex
	all []*bell // guarded by mu
}

// mostBells is how many bells are kept.
const mostBells = 16

// standBack returns when all who wait for a socket on which something has come have been given their turn.
func standBack() {
	bells.mu.Lock()
	var b *bell
	if n := len(bells.all); n > 0 {
		b = bells.all[n-1]
		bells.all = bells.all[:n-1]
	}
	bells.mu.Unlock()
	if b == nil {
		var err error
		if b, err = newBell(); err != nil {
			runtime.Gosched()
			return
		}
	}
	b.rung = false
	_ = b.raw.Read(b.ring) // it fails for a closed file, which this one is not
	bells.mu.Lock()
	defer bells.mu.Unlock()
	if len(bells.all) < mostBells {
		bells.all = append(bells.all, b)
		return
	}
	_ = b.f.Close() // nothing was written to be lost
}

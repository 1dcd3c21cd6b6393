// Package bell lets a goroutine stand back behind all whose sockets have something to read.
//
// Go asks the kernel which sockets have something only when a processor has nothing else to run, and otherwise every 10 ms. A goroutine that always finds
// something keeps its processor meanwhile, and runtime.Gosched does not help: the queue in which the goroutine waits then is looked at first.
package bell

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// bell is an event among those of the sockets: the goroutine that rings it is woken behind all sockets on which something has come before.
type bell struct {
	f    *os.File
	raw  syscall.RawConn
	rung bool
	ring func(fd uintptr) bool
}

// one is added to an event's counter, which is never read: each addition is an event.
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

// bells are the bells that no goroutine waits for. As many are made as connections stand back at a time, which are few.
var bells struct {
	mu  sync.Mutex
	all []*bell // guarded by mu
}

// mostBells is how many bells are kept.
const mostBells = 16

// StandBack lets goroutines go first that wait for a socket on which something has come. Where the kernel has no more files it only calls runtime.Gosched.
// Any goroutine.
func StandBack() {
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
	runtime.Gosched()      // of all for whom something has come, the one that was noted last runs first
	bells.mu.Lock()
	defer bells.mu.Unlock()
	if len(bells.all) < mostBells {
		bells.all = append(bells.all, b)
		return
	}
	_ = b.f.Close() // nothing was written to be lost
}

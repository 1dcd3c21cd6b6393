package proctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// PortsVariable is the environment variable with the first and last port that this process may give to servers, as 12000-15999. Programs
// that run beside each other need it.
const PortsVariable = "HOLDFAST_TEST_PORTS"

// given are the ports this process has named already: they may have no listener yet, or none for a moment. The lock on each one's file
// tells other processes that run tests on this machine, and goes with this process.
var given struct {
	sync.Mutex
	ports map[int]*os.File
}

// freePorts returns n different loopback addresses without a listener. They lie below the range the kernel takes for outgoing connections
// (32768 on). The kernel must not give a killed node's port to a connection before the restart. 20000 to 20999 are left to etcd's own
// suites, which always listen there.
func freePorts(n int) ([]string, error) {
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = map[int]*os.File{}
	}
	low, high := 12000, 31999
	if limits := os.Getenv(PortsVariable); limits != "" {
		if n, err := fmt.Sscanf(limits, "%d-%d", &low, &high); n != 2 || err != nil || low < 1024 || high < low || high > 31999 {
			return nil, fmt.Errorf("%s=%s: want two ports, as 12000-15999", PortsVariable, limits)
		}
	}
	var out []string
	for range 10000 {
		port := low + rand.IntN(high-low+1)
		if port/1000 == 20 || given.ports[port] != nil {
			continue
		}
		// Before the test for a listener: it may be the port of another process's node that is just restarting.
		lock, err := reserve(port)
		if err != nil {
			return nil, err
		}
		if lock == nil {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			lock.Close()
			continue
		}
		l.Close()
		given.ports[port] = lock
		if out = append(out, addr); len(out) == n {
			return out, nil
		}
	}
	return nil, fmt.Errorf("find %d free ports from %d to %d: too many are taken", n, low, high)
}

// reserve takes a port for this process, until it ends. nil: another one has it.
func reserve(port int) (*os.File, error) {
	dir := filepath.Join(os.TempDir(), "holdfast-test-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("reserve port %d: %w", port, err)
	}
	return f, nil
}

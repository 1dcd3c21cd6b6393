package suite

import (
	"context"
	"fmt"
	"net"
	"time"
)

// etcd's suites listen at these ports, five for each member and up to seven members, even if another process has them.
const (
	firstPort = 20000
	lastPort  = firstPort + 7*5 - 1
)

// portPatience is how long another run of a suite on this machine is waited for.
const portPatience = 2 * time.Minute

// AwaitPorts waits until the suites' ports are free. A test that cannot bind says nothing about the server.
func AwaitPorts(ctx context.Context) error {
	deadline := time.Now().Add(portPatience)
	for {
		taken := takenPort()
		if taken == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("port %d is in use, and the suite needs %d to %d", taken, firstPort, lastPort)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func takenPort() int {
	for p := firstPort; p <= lastPort; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return p
		}
		l.Close()
	}
	return 0
}

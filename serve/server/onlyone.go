package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/holdfastdb/holdfast/core/disk"
)

// claim is this process's word to all others of this machine that it runs as one member. A copy of a data directory has the same member in it,
// and its lock says nothing of the original's.
type claim struct{ l net.Listener }

// testCopies is an environment variable that lets copies of one member run on one machine, as on two: a test of what else notices them.
const testCopies = "HOLDFAST_TEST_COPIES"

// claimMember refuses to run as a member that another process of this user runs as on this machine. Containers with networks of their own
// do not see each other. Neither do processes of other users, which could otherwise keep a member from starting. The caller releases the
// claim.
func claimMember(dir string, member uint64) (*claim, error) {
	if os.Getenv(testCopies) != "" {
		return &claim{}, nil
	}
	name := fmt.Sprintf("@holdfast/member/%x", member)
	l, err := net.Listen("unix", name)
	if err == nil {
		return &claim{l}, nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return &claim{}, nil // this system has no such names
	}
	if pid, ours := runsAs(name); ours {
		lock, err := disk.OS().Lock(filepath.Join(dir, "LOCK"))
		switch {
		case errors.Is(err, disk.ErrLocked): // it uses the directory itself, which the node says
			return &claim{}, nil
		case err == nil:
			lock.Unlock()
		}
		return nil, fmt.Errorf("%s is the data directory of member %x, and process %d runs as that member on this machine: one of the two directories "+
			"is a copy, and two processes with one identity lose writes; stop one, and begin its directory anew", dir, member, pid)
	}
	return &claim{}, nil
}

func (c *claim) release() {
	if c != nil && c.l != nil {
		c.l.Close()
	}
}

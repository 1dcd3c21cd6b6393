package server

import (
	"net"
	"os"
	"syscall"
)

// runsAs returns the other process that has the name of a member, and whether it is of this user. This process itself is no other one.
func runsAs(name string) (pid int32, ours bool) {
	c, err := net.Dial("unix", name)
	if err != nil {
		return 0, false // it has ended
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *syscall.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); e != nil || err != nil {
		return 0, false
	}
	return cred.Pid, int(cred.Uid) == os.Geteuid() && int(cred.Pid) != os.Getpid()
}

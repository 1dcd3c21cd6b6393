package main

import (
	"os/exec"
	"syscall"
	"time"
)

// ownGroup puts a run and what it starts into a process group, which is killed as one when the run's time is over. Servers on a
// terminal of their own leave the group; the terminal's end, which goes away with the run, hangs up on them.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
}

package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"
)

// ownGroup puts a run and its processes into a process group, which is killed as one when the run's time is over. Servers on a terminal of
// their own leave the group; the terminal's end, which goes away with the run, hangs up on them.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
}

// insideVar tells a copy of this program that it is the first process of a new network and has to become the test.
const insideVar = "HOLDFAST_SUITE_INSIDE"

// apart runs args in a network and with process ids of their own. The tests' common ports are then not shared, and everything a test
// started dies with it. This program starts once more in there to switch the loopback on.
func apart(ctx context.Context, dir string, args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), insideVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd, nil
}

// Inside turns a copy of this program that apart started into the test it is for; elsewhere it does nothing. main calls it first.
func Inside() {
	if os.Getenv(insideVar) == "" {
		return
	}
	err := os.Unsetenv(insideVar)
	if err == nil {
		err = loopbackUp()
	}
	if err == nil {
		err = ownProc()
	}
	if err == nil {
		if len(os.Args) == 1 { // CanApart asks whether it can be done
			os.Exit(0)
		}
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "suite: enter a network of its own:", err)
	os.Exit(1)
}

// CanApart reports whether this machine lets this user make networks; an error says why not.
func CanApart(ctx context.Context) error {
	cmd, err := apart(ctx, "", nil)
	if err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) > 0 {
		err = errors.New(string(out))
	}
	return err
}

// aloneVar tells a copy of this program that Alone has started it.
const aloneVar = "HOLDFAST_SUITE_ALONE"

// Alone has the whole program run in a network and with process ids of its own. It starts the program once more in there with the same
// arguments, and ends with its status. In there, where main has called Inside before, it returns nil; an error says why this machine does
// not let this user make networks.
func Alone() error {
	if os.Getenv(aloneVar) != "" {
		return os.Unsetenv(aloneVar)
	}
	ctx := context.Background()
	if err := CanApart(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd, err := apart(ctx, "", append([]string{self}, os.Args[1:]...))
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, aloneVar+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}

// ownProc shows the new process ids in /proc, where servers look their own up.
func ownProc() error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// loopbackUp switches on the only interface a new network has.
func loopbackUp() error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	var req struct { // struct ifreq of netdevice(7), with its flags
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req))); no != 0 {
		return fmt.Errorf("switch on the loopback: %w", no)
	}
	addrs, err := net.InterfaceAddrs()
	if err == nil && len(addrs) == 0 {
		err = errors.New("the loopback has no address")
	}
	return err
}

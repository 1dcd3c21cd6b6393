package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// inOwnNetwork is the variable that tells this program that it has been started in a network of its own.
const inOwnNetwork = "HOLDFAST_BENCH_NETWORK"

// ownNetwork runs this program again in a network namespace of its own, and ends with it; in there it returns. DTM's ports lie in the range
// from which the kernel takes ports for outgoing connections. With one client's connection there, or one that ended a minute ago, the
// coordinator cannot listen. Ports of other programs' servers do not matter either.
func ownNetwork() error {
	if os.Getenv(inOwnNetwork) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			return fmt.Errorf("ip link set lo up: %w: %s", err, out)
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte("8083,36789-36790"), 0o644)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inOwnNetwork+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	runtime.LockOSThread() // the child is told when the thread that started it ends, not when the process does
	// Ctrl-C reaches both; the child decides when it is over.
	signal.Ignore(os.Interrupt)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("a network namespace of its own: %w; run it as root, or with -here where nobody else uses ports 8083 and 36789", err)
	}
	go func() {
		for s := range stop {
			_ = cmd.Process.Signal(s) // if it has ended, Wait says so
		}
	}()
	err = cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		return err
	}
	os.Exit(0)
	return nil
}

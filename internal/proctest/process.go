// Package proctest runs real server processes for tests, benchmarks and conformance runs. It starts them on free loopback ports, kills,
// pauses and restarts them by process id, keeps their logs and reads their CPU time. It is not a supervisor: nothing restarts by itself,
// and every process dies with the program that started it.
package proctest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one child process that can be started again after it ended. Safe for concurrent use.
type Process struct {
	path string
	args []string
	log  string // file that stdout and stderr are appended to, over all starts

	mu     sync.Mutex
	env    []string // beside this program's own
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended; nil before the first start
	err    error         // how cmd ended; read after exited
}

// NewProcess describes a process; Start runs it.
func NewProcess(log, path string, args ...string) *Process {
	return &Process{path: path, args: args, log: log}
}

// Bin is the path of the program.
func (p *Process) Bin() string { return p.path }

// Setenv gives the process variables beside those of this program, as NAME=value, from its next start on.
func (p *Process) Setenv(env ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.env = append(p.env, env...)
}

// Start runs the process; it fails if it is still running.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s: still running as %d", p.path, p.cmd.Process.Pid)
	}
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close() // the child has its own descriptor
	fmt.Fprintf(f, "--- start %s %s\n", p.path, strings.Join(p.args, " "))
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.Env = append(append(os.Environ(), "HOLDFAST_MEMORY="+Memory), p.env...)
	// A group of its own, so that Ctrl-C reaches the test and not the servers; and no server survives a test that was
	// itself killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.path, err)
	}
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(exited)
	}()
	return nil
}

// running needs mu.
func (p *Process) running() bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Running reports whether the process has been started and has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// Exited is closed when the present run has ended; nil before the first start.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// ExitError is how the last run ended: nil for status 0. Meaningful once Exited is closed.
func (p *Process) ExitError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// PID is the process id of the present or last run, 0 before the first.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// signal does nothing to a process that has ended: its id may already be another's.
func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(s)
}

// Kill ends the process with SIGKILL and waits until it is gone. Killing one that has ended is no error.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL, 5*time.Minute) }

// Term asks with SIGTERM and waits up to the timeout; after that it kills and returns an error.
func (p *Process) Term(timeout time.Duration) error { return p.end(syscall.SIGTERM, timeout) }

func (p *Process) end(s syscall.Signal, timeout time.Duration) error {
	if err := p.signal(s); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		return err
	}
	select {
	case <-p.Exited():
		return nil
	case <-time.After(timeout):
	}
	if s == syscall.SIGKILL {
		return fmt.Errorf("process %d did not end within %s of SIGKILL", p.PID(), timeout)
	}
	return errors.Join(fmt.Errorf("process %d did not end within %s of %s", p.PID(), timeout, s), p.Kill())
}

// Pause stops the process as it stands (SIGSTOP): its connections stay open and its clocks run on.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// LogFile is the file with everything the process has printed, over all its runs.
func (p *Process) LogFile() string { return p.log }

// LogTail is the last n lines printed.
func (p *Process) LogTail(n int) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// CPU is the user and system time the present run has used, of all its threads. It is the clock that clock_getcpuclockid(3) names for the
// process. /proc/PID/stat has steps of 10 ms, a fourteenth of the CPU for 250 requests of a quiet client.
func (p *Process) CPU() (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED: time on a processor, in user and system mode
	var t unix.Timespec
	if err := unix.ClockGettime(^int32(p.PID())<<3|scheduled, &t); err != nil {
		return 0, fmt.Errorf("read cpu time of %s: %w", p.path, err)
	}
	return time.Duration(t.Nano()), nil
}

// RSS is the resident memory of the present run in bytes.
func (p *Process) RSS() (int64, error) { return p.status("VmRSS:") }

// PeakRSS is the most it has had.
func (p *Process) PeakRSS() (int64, error) { return p.status("VmHWM:") }

func (p *Process) status(field string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("read memory of process %d: no %s", p.PID(), field)
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// importing runs holdfast in the background, as background does with the tool.
func (e *env) importing(args ...string) *importProcess {
	p := &importProcess{e: e, done: make(chan struct{})}
	if e.err != nil {
		close(p.done)
		return p
	}
	p.cmd = exec.Command(e.holdfast, args...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		e.failf("start the import: %w", err)
		close(p.done)
		return p
	}
	go func() {
		_ = p.cmd.Wait() // the exit status is read by wait
		close(p.done)
	}()
	return p
}

type importProcess struct {
	e    *env
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer // guarded by mu
}

// Write gathers what it prints.
func (p *importProcess) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *importProcess) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *importProcess) until(text string) {
	p.e.until("the import prints "+text, time.Minute, func() bool { return strings.Contains(p.output(), text) })
	if p.e.err != nil {
		p.kill()
		p.e.err = fmt.Errorf("%w; it printed %q", p.e.err, p.output())
	}
}

func (p *importProcess) interrupt() {
	if p.e.err == nil {
		_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended, which wait reports
	}
}

func (p *importProcess) kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.done
	}
}

func (p *importProcess) wait(status int) {
	if p.e.err != nil {
		p.kill()
		return
	}
	select {
	case <-p.done:
		if got := p.cmd.ProcessState.ExitCode(); got != status {
			p.e.failf("the import ended with status %d, not %d: %s", got, status, p.output())
		}
	case <-time.After(time.Minute):
		p.kill()
		p.e.failf("the import did not end: %s", p.output())
	}
}

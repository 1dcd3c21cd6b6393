package proctest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

func TestProcessLife(t *testing.T) {
	p := NewProcess(filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c", "echo up; while :; do :; done")
	if p.Running() || p.Kill() != nil {
		t.Fatal("a process never started must not run, and killing it is no error")
	}
	for range 2 {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err == nil {
			t.Fatal("second start of a running process succeeded")
		}
		waitCPU(t, p, 20*time.Millisecond)
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		before := cpu(t, p)
		time.Sleep(100 * time.Millisecond)
		if used := cpu(t, p) - before; used > 10*time.Millisecond {
			t.Errorf("used %s while paused", used)
		}
		if err := p.Resume(); err != nil {
			t.Fatal(err)
		}
		waitCPU(t, p, before+20*time.Millisecond)
		if rss, err := p.RSS(); err != nil || rss < 64<<10 || rss > 64<<20 {
			t.Errorf("RSS = %d, %v", rss, err)
		}
		if err := p.Kill(); err != nil || p.Running() || p.ExitError() == nil {
			t.Fatalf("after Kill: %v, running %v, exit %v", err, p.Running(), p.ExitError())
		}
	}
	if n := strings.Count(p.LogTail(10)+"\n", "\nup\n"); n != 2 {
		t.Errorf("log of two runs has %d lines 'up':\n%s", n, p.LogTail(10))
	}
}

func TestTermThatIsIgnored(t *testing.T) {
	p := NewProcess(filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.HasSuffix(p.LogTail(5), "\nup") {
		time.Sleep(5 * time.Millisecond)
	}
	if err := p.Term(100 * time.Millisecond); err == nil || p.Running() {
		t.Fatalf("Term = %v, running %v; want an error and a dead process", err, p.Running())
	}
}

// TestCPUIsTheKernels: the clock of another process is what /proc has of it, which is in steps of 10 ms for each of two numbers.
func TestCPUIsTheKernels(t *testing.T) {
	p := NewProcess(filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c", "while :; do :; done")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	waitCPU(t, p, 200*time.Millisecond)
	before := cpu(t, p)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	after := cpu(t, p)
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var ticks time.Duration
	for _, s := range f[11:13] { // fields 14 and 15, user and system
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		ticks += time.Duration(n) * 10 * time.Millisecond
	}
	if ticks < before-25*time.Millisecond || ticks > after+25*time.Millisecond {
		t.Errorf("%v and %v by the clock, %v by /proc between them", before, after, ticks)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if d, err := p.CPU(); err == nil {
		t.Errorf("%v of a process that has ended", d)
	}
}

// TestFreePorts: ports are on loopback, named once, not where etcd's suites listen, and in a range of this process's own where
// it has one.
func TestFreePorts(t *testing.T) {
	for _, c := range []struct {
		limits      string
		low, high   int
		ports, good int
	}{{"", 12000, 31999, 500, 500}, {"19000-21999", 19000, 21999, 300, 300}, {"20500-20999", 0, 0, 1, 0}, {"12-x", 0, 0, 1, 0}} {
		t.Setenv(PortsVariable, c.limits)
		seen := map[string]bool{}
		ports, err := freePorts(c.ports)
		if len(ports) != c.good || (err == nil) != (c.good > 0) {
			t.Fatalf("%q: %d ports, %v", c.limits, len(ports), err)
		}
		for _, p := range ports {
			n, err := strconv.Atoi(strings.TrimPrefix(p, "127.0.0.1:"))
			if err != nil || n < c.low || n > c.high || n/1000 == 20 || seen[p] {
				t.Errorf("%q: %s is not a port of its own", c.limits, p)
			}
			seen[p] = true
		}
	}
}

func cpu(t *testing.T, p *Process) time.Duration {
	t.Helper()
	d, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func waitCPU(t *testing.T, p *Process, atLeast time.Duration) {
	t.Helper()
	for end := time.Now().Add(wait.Limit(t)); cpu(t, p) < atLeast; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s of cpu time after 10 s", cpu(t, p))
		}
	}
}

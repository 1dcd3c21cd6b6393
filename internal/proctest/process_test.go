package proctest

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
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
		if used := cpu(t, p) - before; used > clockTick {
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

func TestParseCPU(t *testing.T) {
	for _, c := range []struct {
		stat string
		want time.Duration
		bad  bool
	}{
		{stat: "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 12 30 0 0 20 0 1 0 5 6 7", want: 420 * time.Millisecond},
		{stat: "7 (short) S 1 7", bad: true},
		{stat: "", bad: true},
	} {
		got, err := parseCPU(c.stat)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("parseCPU(%q) = %s, %v", c.stat, got, err)
		}
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
	for began := time.Now(); cpu(t, p) < atLeast; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%s of cpu time after 10 s", cpu(t, p))
		}
	}
}

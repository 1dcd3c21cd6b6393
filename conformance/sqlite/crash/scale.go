package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

func (r *run) scales() []step {
	return []step{
		{name: "scale: 5,000 idle databases", long: true, do: func(ctx context.Context, p *place) (string, error) { return r.idle(ctx, p, 5000) }},
		{name: "scale: a snapshot of 1.2 GiB and a transaction of 200 MB", long: true, do: r.large},
	}
}

// idle has one agent keep many unused databases.
func (r *run) idle(ctx context.Context, p *place, n int) (string, error) {
	p.bucket.Slow(0)
	m, err := p.machine("idle")
	if err != nil {
		return "", err
	}
	if err := r.story("close", m.db, "-", 0); err != nil {
		return "", err
	}
	b, err := os.ReadFile(m.db)
	if err != nil {
		return "", err
	}
	args := []string{"sqlite", "replicate", "--quiet", "--replica", p.url("idle")}
	for i := range n {
		name := filepath.Join(m.dir, fmt.Sprintf("%d.db", i))
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return "", err
		}
		args = append(args, name)
	}
	m.agent = proctest.NewProcess(filepath.Join(p.dir, "idle.log"), r.bin, args...)
	began := time.Now()
	if err := m.agent.Start(); err != nil {
		return "", err
	}
	// The bucket reads all its names for every list, which takes most of the time. It has settled when every database has a manifest and nothing was asked for a while.
	var last bucket.Counts
	for still := time.Now(); time.Since(still) < 10*time.Second || last.Puts < 2*n; time.Sleep(200 * time.Millisecond) {
		if c := p.bucket.Counts(); c != last {
			last, still = c, time.Now()
		}
		if time.Since(began) > 10*time.Minute || ctx.Err() != nil || !m.agent.Running() {
			return "", fmt.Errorf("not settled after %s: %+v; the agent:\n%s", span(time.Since(began)), last, m.agent.LogTail(5))
		}
	}
	took := time.Since(began) - 10*time.Second
	cpu, err := m.agent.CPU()
	if err != nil {
		return "", err
	}
	time.Sleep(time.Minute)
	asked := p.bucket.Counts().Minus(last).All()
	rss, err := m.agent.RSS()
	if err != nil {
		return "", err
	}
	peak, err := m.agent.PeakRSS()
	if err != nil {
		return "", err
	}
	after, err := m.agent.CPU()
	if err != nil {
		return "", err
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.agent.PID()))
	if err != nil {
		return "", err
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", m.agent.PID()))
	if err != nil {
		return "", err
	}
	note := fmt.Sprintf("settled in %s; then in a minute %d requests, %s of CPU; %d MiB resident (%d at most), %d file descriptors, %d threads", span(took), asked,
		after-cpu, rss>>20, peak>>20, len(fds), len(threads))
	if asked > 0 || rss > 300<<20 {
		return "", fmt.Errorf("%s; wanted are 0 requests and 300 MiB", note)
	}
	return note, nil
}

// story runs one of testdata/story.py.
func (r *run) story(name, db, extension string, seconds float64) error {
	out, err := exec.Command("/usr/bin/python3", filepath.Join(r.root, "conformance/sqlite/crash/testdata/story.py"), name, db, extension, fmt.Sprint(seconds)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("story %s: %w: %s", name, err, out)
	}
	return nil
}

// above is how much more memory than at rest an agent may take for a large snapshot or transaction.
const above = 40 << 20

// large measures the agent's memory while it stores a large database, and a large transaction.
func (r *run) large(ctx context.Context, p *place) (string, error) {
	small, err := p.machine("small")
	if err != nil {
		return "", err
	}
	if err := r.story("close", small.db, "-", 0.2); err != nil {
		return "", err
	}
	if err := small.start("file://"+filepath.Join(p.dir, "small.replica"), nil); err != nil {
		return "", err
	}
	time.Sleep(8 * time.Second) // it rests then
	rest, err := small.agent.PeakRSS()
	if err != nil {
		return "", err
	}
	m, err := p.machine("large")
	if err != nil {
		return "", err
	}
	if err := r.story("gigabyte", m.db, "-", 1); err != nil {
		return "", err
	}
	url := "file://" + filepath.Join(p.dir, "large.replica")
	began := time.Now()
	if err := m.start(url, nil, "--ack", "local"); err != nil {
		return "", err
	}
	for !m.stored(p) {
		if time.Since(began) > 5*time.Minute || ctx.Err() != nil {
			return "", fmt.Errorf("no snapshot after %s; the agent:\n%s", span(time.Since(began)), m.agent.LogTail(5))
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(began)
	snapshot, err := m.agent.PeakRSS()
	if err != nil {
		return "", err
	}
	if err := r.story("transaction", m.db, r.extension, 1); err != nil {
		return "", err
	}
	time.Sleep(5 * time.Second)
	transaction, err := m.agent.PeakRSS()
	if err != nil {
		return "", err
	}
	if err := m.agent.Term(time.Minute); err != nil {
		return "", err
	}
	if _, err := p.compare(url, m); err != nil {
		return "", err
	}
	note := fmt.Sprintf("at rest %d MiB at most; 1.1 GB stored in %s with %d MiB, 200 MB more with %d MiB", rest>>20, span(took), snapshot>>20, transaction>>20)
	if snapshot > rest+above || transaction > rest+above {
		return "", fmt.Errorf("%s; wanted are %d MiB above rest", note, above>>20)
	}
	return note, nil
}

// stored reports whether the large replica has one: then its first files are stored.
func (m *machine) stored(p *place) bool {
	b, err := os.ReadFile(filepath.Join(p.dir, "large.replica", "holdfast", "manifest"))
	return err == nil && strings.Contains(string(b), "\nfile 0 ")
}

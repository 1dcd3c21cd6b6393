package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// Cost is the door's cost for servers that do not use it.
type Cost struct {
	VersionCPUms  float64 `json:"version_cpu_ms"` // of `holdfast version`, the median of ten
	IdleOffMB     float64 `json:"idle_rss_without_mb"`
	IdleOnMB      float64 `json:"idle_rss_with_mb"`
	StrippedBytes int64   `json:"stripped_bytes"`
}

// idle is how long a server has rested when its memory is read.
const idle = 5 * time.Second

// costs measures it.
func (b *bench) costs(ctx context.Context, dir string) (c Cost, err error) {
	var cpu []float64
	for range 10 {
		cmd := exec.CommandContext(ctx, b.bin, "version")
		if err := cmd.Run(); err != nil {
			return c, err
		}
		cpu = append(cpu, float64((cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Microseconds())/1000)
	}
	c.VersionCPUms = host.Median(cpu)
	if c.IdleOffMB, err = b.idle(filepath.Join(dir, "off"), "off"); err != nil {
		return c, err
	}
	at, err := proctest.FreeAddress()
	if err != nil {
		return c, err
	}
	if c.IdleOnMB, err = b.idle(filepath.Join(dir, "on"), at); err != nil {
		return c, err
	}
	stripped := filepath.Join(dir, "stripped")
	if out, err := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", stripped, "./cmd/holdfast").CombinedOutput(); err != nil {
		return c, fmt.Errorf("%w: %s", err, out)
	}
	info, err := os.Stat(stripped)
	if err == nil {
		c.StrippedBytes = info.Size()
	}
	return c, err
}

// idle is the memory of a server of keys that rests, in MB, with the door at an address or off.
func (b *bench) idle(dir, sql string) (float64, error) {
	kv, err := proctest.FreeAddress()
	if err != nil {
		return 0, err
	}
	p := proctest.NewProcess(dir+".log", b.bin, "serve", "--data", dir, "--kv", kv, "--sql", sql, "--admin", "off", "--memory", proctest.Memory)
	if err := p.Start(); err != nil {
		return 0, err
	}
	time.Sleep(idle)
	if !p.Running() {
		return 0, fmt.Errorf("the server has ended:\n%s", p.LogTail(5))
	}
	rss, err := p.RSS()
	if e := p.Kill(); err == nil {
		err = e
	}
	return float64(rss) / 1e6, err
}

// String is the line of the report.
func (c Cost) String() string {
	return fmt.Sprintf("holdfast version: %.0f ms of CPU; a server of keys that rests: %.1f MB with the door off, %.1f MB with it; %.1f MB stripped",
		c.VersionCPUms, c.IdleOffMB, c.IdleOnMB, float64(c.StrippedBytes)/1e6)
}

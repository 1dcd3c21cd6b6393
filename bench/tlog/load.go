package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// hammer is Tessera's, which sends until the time is over.
func hammer(ctx context.Context, writers int, url, key string, during time.Duration, tools, _ string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(tools, "hammer"), "--log_public_key="+key, "--log_url="+url, "--max_read_ops=0",
		fmt.Sprintf("--num_writers=%d", writers), "--max_write_ops=100000", "--dup_chance=0", "--show_ui=false",
		fmt.Sprintf("--max_runtime=%s", during))
}

// hammerWarnings counts the lines that say that something is wrong. Without a goal the hammer always ends with status 1.
func hammerWarnings(f *figure, _ error, said string, _ []byte) error {
	for line := range strings.Lines(said) {
		if strings.ContainsRune("WEF", rune(line[0])) && !strings.Contains(line, "runtime") {
			f.Warnings++
		}
	}
	return nil
}

// ours is the load tool of the program that is measured. Nothing is verified while it runs.
func ours(ctx context.Context, writers int, url, key string, during time.Duration, _, bin string) *exec.Cmd {
	return exec.CommandContext(ctx, bin, "bench", "tlog", url, "--vkey", key, "--writers", fmt.Sprint(writers),
		"--duration", during.String(), "--verify", "none", "--json")
}

// ourReport takes the percentiles and what went wrong.
func ourReport(f *figure, failed error, said string, figures []byte) error {
	var r struct {
		PushedBack int `json:"pushed_back"`
		Failed     int `json:"failed"`
		Queue      struct {
			P50 float64 `json:"p50_ms"`
			P99 float64 `json:"p99_ms"`
		} `json:"time_in_queue"`
	}
	if failed != nil {
		return fmt.Errorf("%s: %w: %s", withOurs, failed, strings.TrimSpace(said))
	}
	if err := json.Unmarshal(figures, &r); err != nil {
		return fmt.Errorf("%s: %w in %q", withOurs, err, figures)
	}
	f.P50, f.P99 = append(f.P50, r.Queue.P50), append(f.P99, r.Queue.P99)
	f.Warnings += r.PushedBack + r.Failed
	return nil
}

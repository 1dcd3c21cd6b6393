// Package v2 repeats the published benchmark of etcd's v2 HTTP API by hey, on three members. It has one key, values of 64 and 256 bytes,
// and 1, 64 and 256 clients. They read and write at the leader only and at all members at once. It does so against etcd 3.4 with v2 enabled
// and against Holdfast in alternating rounds on one machine. It leaves a table, every round as JSON and a plot. Reads are repeated by wrk,
// because hey itself is most of what it measures there.
//
// It is not a load generator: hey and wrk are. It does not compare with the published figures, which come from other machines; it shows
// them.
package v2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// Config is the list of measurements. All fields must be set.
type Config struct {
	Clients         []int    // concurrent clients; one client goes to the leader only
	Sizes           []int    // bytes of the value
	Ops             []string // "read", "write"
	Tools           []string // "hey", "wrk"; writes are by hey only
	Targets         []string // "leader", "all"
	Rounds, Seconds int
	Dir             string // data directories are made in it and removed; one file system for both servers
	JSON, Plot      string // files to write
	Hey, Wrk        string // programs
	Etcd, Holdfast  string
	Memory          string // --memory of Holdfast
}

// Servers in the order in which they are shown.
const (
	etcd     = "etcd 3.4"
	holdfast = "holdfast"
)

var servers = []string{etcd, holdfast}

// Report is the JSON file.
type Report struct {
	Began     time.Time    `json:"began"`
	Machine   host.Machine `json:"machine"`
	Seconds   int          `json:"seconds_each"`
	Lines     []Line       `json:"table"`
	Published []Published  `json:"published"`
	Rounds    []Round      `json:"rounds"`
	Failures  []string     `json:"failures"`
}

// Run measures, prints to w as it goes and writes the files. Runs that do not count make an error in the end, and so does the end of ctx.
// The counting results are shown and written all the same.
func Run(ctx context.Context, cfg *Config, w io.Writer) error {
	cells, err := cfg.cells()
	if err != nil {
		return err
	}
	rep := &Report{Began: time.Now(), Seconds: cfg.Seconds, Published: published}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// One of its own: what else is in the directory named by the flag is not ours to remove.
	if dir, err = os.MkdirTemp(dir, "kv."); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if rep.Machine, err = host.Describe(dir); err != nil {
		return err
	}
	n := len(cells) * len(servers) * cfg.Rounds
	fmt.Fprintf(w, "%s\nholdfast with --memory %s\nv2: %d measurements of %d s, %s at least\n", rep.Machine, cfg.Memory, n, cfg.Seconds, time.Duration(n*cfg.Seconds)*time.Second)

	var stopped error // half an hour of figures is not thrown away because the last minutes are missing
	for r := range cfg.Rounds {
		if err := rep.round(ctx, cfg, cells, dir, r, w); err != nil {
			if ctx.Err() == nil || len(rep.Rounds) == 0 {
				return err
			}
			stopped = fmt.Errorf("stopped in round %d of %d: %w", r+1, cfg.Rounds, err)
			break
		}
	}
	if rep.Machine.SyncAfter, err = host.SyncTime(dir); err != nil {
		return err
	}
	rep.Lines = summarize(cells, rep.Rounds)
	fmt.Fprintf(w, "\nfdatasync before %.3f ms, after %.3f ms\n", rep.Machine.SyncBefore, rep.Machine.SyncAfter)
	printTable(w, rep.Lines)
	if err := rep.write(cfg); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nplot: %s\nevery round: %s\n", cfg.Plot, cfg.JSON)
	if bad := len(rep.Failures); stopped == nil && bad > 0 {
		return fmt.Errorf("%d of %d measurements do not count", bad, bad+len(rep.Rounds))
	}
	return stopped
}

// round measures every cell once on servers started for it. Each cell's servers take turns, and another begins each time, so
// that a slow spell of the machine falls on both alike.
func (rep *Report) round(ctx context.Context, cfg *Config, cells []Cell, dir string, r int, w io.Writer) error {
	bed, err := newBed(cfg, dir)
	if err != nil {
		return err
	}
	defer bed.close()
	for i, c := range cells {
		for j := range servers {
			server := servers[(i+j+r)%len(servers)]
			got, err := bed.measure(ctx, cfg, server, c, r+1)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				rep.Failures = append(rep.Failures, fmt.Sprintf("%s, %s, round %d: %v", server, c, r+1, err))
				fmt.Fprintf(w, "  %-9s %s, round %d DOES NOT COUNT: %v\n", server, c, r+1, err)
				continue
			}
			fmt.Fprintln(w, "  "+got.String())
			rep.Rounds = append(rep.Rounds, *got)
		}
	}
	return nil
}

func (rep *Report) write(cfg *Config) error {
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(writeFile(cfg.JSON, append(b, '\n')), writeFile(cfg.Plot, chart(rep)))
}

func writeFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

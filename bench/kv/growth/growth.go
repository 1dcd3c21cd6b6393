// Package growth measures the quantities that grow most for a user of a key-value store: history, watches that resume, watchers, keys,
// leases, long values. Each experiment fills a fresh server from a seed and measures it. It is repeated in alternating rounds against etcd
// and Holdfast (and the floor server, where values move). The results are compared with bars.go.
//
// It is no test of correctness, but counts the results. An answer with too few keys or events is an error, and the round does not count.
package growth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// Config is what is measured, and how often.
type Config struct {
	Etcd, Holdfast, Floor string // binaries
	// Flags are more flags of Holdfast's, and Against another build of it, measured in etcd's place; "" for etcd.
	Flags   []string
	Against string
	Dir     string // where data directories are made and removed
	JSON    string
	Plot    string
	Only    string // experiments whose names match
	Rounds  int
	Load    time.Duration // how long one lasts
	Full    bool          // sizes of 5 million keys too
}

const (
	etcd     = "etcd"
	holdfast = "holdfast"
	floor    = "floor"
)

// Figure is what one server did in one row of the table. A field that is 0 was not measured.
type Figure struct {
	Row   string  `json:"row"`
	CPU   float64 `json:"server_cpu_us_per_op,omitempty"`
	Rate  float64 `json:"per_second,omitempty"`
	P50   float64 `json:"p50_ms,omitempty"`
	P99   float64 `json:"p99_ms,omitempty"`
	Worst float64 `json:"worst_ms,omitempty"`
	RSS   float64 `json:"largest_rss_mib,omitempty"`
}

// Round is one experiment with one server.
type Round struct {
	Experiment string        `json:"experiment"`
	Server     string        `json:"server"`
	Number     int           `json:"round"`
	Took       time.Duration `json:"took_ns"`
	Figures    []Figure      `json:"figures"`
}

// Report is the JSON file.
type Report struct {
	Began    time.Time    `json:"began"`
	Machine  host.Machine `json:"machine"`
	Seconds  float64      `json:"seconds"`
	Lines    []Line       `json:"lines"`
	Bars     bars.List    `json:"bars"`
	Rounds   []Round      `json:"rounds"`
	Failures []string     `json:"failures"`
}

// experiment fills one kind of server and measures it.
type experiment struct {
	name  string
	nodes int
	floor bool // the floor server too
	full  bool // only with Full
	run   func(ctx context.Context, b *bed) ([]Figure, error)
}

// experiments is the table, in its order.
func experiments() []experiment {
	var all []experiment
	for _, part := range [][]experiment{pastExperiments(), resumeExperiments(), watcherExperiments(), restartExperiments(), countExperiments(), leaseExperiments(), valueExperiments(),
		manyExperiments(), deleteExperiments(), memoryExperiments(), killExperiments()} {
		all = append(all, part...)
	}
	return all
}

// Run measures, prints the table and the bars, and writes the JSON file and the plot.
func Run(ctx context.Context, cfg *Config, out io.Writer) error {
	only, err := regexp.Compile(cfg.Only)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(dir, "growth."); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rep := &Report{Began: time.Now(), Seconds: cfg.Load.Seconds()}
	if rep.Machine, err = host.Describe(dir); err != nil {
		return err
	}
	fmt.Fprintln(out, rep.Machine)
	fmt.Fprintln(out, "holdfast with", strings.Join(cfg.Flags, " "))
	touched, page, err := host.Touch(ctx)
	if err != nil {
		return err
	}
	rep.Machine.TouchedMiB, rep.Machine.PageUS = touched>>20, float64(page)/float64(time.Microsecond)
	fmt.Fprintf(out, "touched %d MiB of memory once, %.1f us a page\n", rep.Machine.TouchedMiB, rep.Machine.PageUS)
	for _, e := range experiments() {
		if !only.MatchString(e.name) || e.full && !cfg.Full {
			continue
		}
		servers := []string{etcd, holdfast}
		if e.floor {
			servers = append(servers, floor)
		}
		for round := range cfg.Rounds {
			// Another server begins each round, so that a slow spell of the machine falls on all alike.
			for i := range servers {
				server := servers[(i+round)%len(servers)]
				began := time.Now()
				got, err := cfg.measure(ctx, dir, server, e, round)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					rep.Failures = append(rep.Failures, fmt.Sprintf("%s, %s, round %d: %v", e.name, server, round+1, err))
					fmt.Fprintf(out, "%s, %s, round %d DOES NOT COUNT: %v\n", e.name, server, round+1, err)
					continue
				}
				rep.Rounds = append(rep.Rounds, Round{e.name, server, round + 1, time.Since(began), got})
				fmt.Fprintf(out, "%s, %s, round %d, %.0f s\n", e.name, server, round+1, time.Since(began).Seconds())
				for i := range got {
					fmt.Fprintln(out, "  ", got[i].String())
				}
			}
		}
	}
	if rep.Machine.SyncAfter, err = host.SyncTime(dir); err != nil {
		return err
	}
	rep.Lines = lines(rep.Rounds)
	rep.Bars = judge(rep.Lines, cfg.Only == "")
	fmt.Fprintf(out, "\nfdatasync before %.3f ms, after %.3f ms\n\n", rep.Machine.SyncBefore, rep.Machine.SyncAfter)
	printLines(out, rep.Lines)
	fmt.Fprintln(out)
	rep.Bars.Print(out)
	if err := rep.write(cfg); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nevery round: %s\nplot: %s\n", cfg.JSON, cfg.Plot)
	if len(rep.Failures) > 0 {
		return fmt.Errorf("%d of %d measurements do not count", len(rep.Failures), len(rep.Failures)+len(rep.Rounds))
	}
	return nil
}

func (r *Report) write(cfg *Config) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(cfg.JSON), 0o755), os.WriteFile(cfg.JSON, append(b, '\n'), 0o644), os.WriteFile(cfg.Plot, chart(r), 0o644))
}

// measure runs one experiment with a fresh server.
func (cfg *Config) measure(ctx context.Context, dir, server string, e experiment, round int) ([]Figure, error) {
	dir, err := os.MkdirTemp(dir, server)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b, err := newBed(ctx, dir, cfg.kind(server), e.nodes)
	if err != nil {
		return nil, err
	}
	defer b.close()
	b.lasts, b.seed = cfg.Load, uint64(round+1)
	return e.run(ctx, b)
}

// quota is more than any experiment stores.
const quota = "8589934592"

func (cfg *Config) kind(server string) proctest.Server {
	switch server {
	case holdfast:
		return proctest.Holdfast(cfg.Holdfast, append([]string{"--kv-quota", "8GiB"}, cfg.Flags...)...)
	case floor:
		return proctest.Floor(cfg.Floor)
	}
	if cfg.Against != "" {
		return proctest.Holdfast(cfg.Against, append([]string{"--kv-quota", "8GiB"}, cfg.Flags...)...)
	}
	return proctest.Etcd(cfg.Etcd, "--quota-backend-bytes", quota)
}

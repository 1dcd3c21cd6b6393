// Command tlog measures adds to a transparency log beside Tessera's own servers, which answer after the entry is durable just as Holdfast
// does, in alternating rounds on one machine:
//
//   - proofs: how long an add takes, for Holdfast alone, until the proof in its answer is verified;
//   - hammer: Tessera's unmodified load tool against conformance-posix and Holdfast; with 16 writers also against a server around the
//     Tessera library whose batches and checkpoints wait as little as the library allows (bench/tlog/personality);
//   - ours: the same by `holdfast bench tlog`, which takes less of the processor and has the times of single adds; after each round the
//     whole log is derived again with `holdfast tlog verify`;
//   - small: the machine of Tessera's published report, with one processor and 1 GB of memory, and its load;
//   - mysql: Tessera's conformance/mysql v1.0.2 on MariaDB, and Holdfast publishing to the same MariaDB;
//   - bundles: full bundles of entries read with gzip, as the monitors of a log do;
//   - many: a thousand logs in one server, for Holdfast alone.
//
// It prints a table in the shape of that report with the servers' CPU and bytes on disk per add. It says of each of the project's own bars
// whether it was reached, and leaves every round as JSON and a plot.
//
// It measures the growth of the tree over a window, by the size in the checkpoint. The load is paced so that it never waits for its own
// budget. A load tool needs the processor as well. At many writers on few cores the ratio of rates says less about the servers than their
// CPU per add does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// warmup is how long a load runs before the window begins.
const warmup = 2 * time.Second

// bench is one call of this program.
type bench struct {
	tools, bin string // where Tessera's programs are, and ours
	dir        string // of the servers' data
	rounds     int
	window     time.Duration // side by side
	small      time.Duration // on the small machine, where the load has no limit
	mysqlTime  time.Duration // on MariaDB
	writers    []int         // of the hammer
	ourWriters []int

	report *Report
}

// part is one of the things this program does.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

// parts of the whole, in the order in which they run.
var parts = []part{
	{"proofs", (*bench).proofs},
	{"hammer", func(b *bench, ctx context.Context) error { return b.sideBySide(ctx, withHammer, b.writers) }},
	{"ours", func(b *bench, ctx context.Context) error { return b.sideBySide(ctx, withOurs, b.ourWriters) }},
	{"small", (*bench).smallMachine},
	{"mysql", (*bench).mysql},
	{"bundles", (*bench).bundles},
	{"many", (*bench).many},
}

func main() {
	b := &bench{}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	which := flag.String("parts", strings.Join(names, ","), "what to measure")
	writers := flag.String("writers", "16,256,512,1024", "numbers of writers of the hammer")
	ourWriters := flag.String("our-writers", "16,1024", "numbers of writers of `holdfast bench tlog`")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds with 16 and 1,024 writers, of which the bars speak; the others have one. The table has medians")
	flag.DurationVar(&b.window, "window", 10*time.Second, "time over which the growth of a tree is taken; whole seconds, because one server signs but once a second")
	flag.DurationVar(&b.small, "small-window", 30*time.Second, "the same on the small machine at full load; the published report has 30 s")
	flag.DurationVar(&b.mysqlTime, "mysql-window", 20*time.Second, "the same with MariaDB")
	flag.StringVar(&b.tools, "tools", "build/peers/tessera", "where scripts/tessera.sh put its programs")
	flag.StringVar(&b.bin, "holdfast", "bin/holdfast", "the server")
	jsonFile := flag.String("json", "build/bench/tlog.json", "where every round goes")
	plotFile := flag.String("plot", "build/bench/tlog.svg", "where the plot goes")
	flag.Parse()
	var err error
	if b.writers, err = numbers(*writers); err == nil {
		b.ourWriters, err = numbers(*ourWriters)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err == nil {
		err = b.run(ctx, strings.Split(*which, ","), *jsonFile, *plotFile)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench tlog:", err)
		os.Exit(1)
	}
}

func numbers(list string) (out []int, err error) {
	for item := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of numbers of writers", list)
		}
		out = append(out, n)
	}
	return out, nil
}

// run measures the parts asked for. A part that fails does not keep the next one from being measured, and the results so far are shown and
// written all the same. The end of ctx ends them all.
func (b *bench) run(ctx context.Context, which []string, jsonFile, plotFile string) error {
	for _, name := range which {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("no part %q", name)
		}
	}
	if err := os.MkdirAll("build/bench", 0o755); err != nil {
		return err
	}
	var err error
	if b.dir, err = os.MkdirTemp("build/bench", "tlog."); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.report = &Report{Began: time.Now()}
	if b.report.Machine, err = host.Describe(b.dir); err != nil {
		return err
	}
	fmt.Println(b.report.Machine)
	var failed error
	for _, p := range parts {
		if !slices.Contains(which, p.name) || ctx.Err() != nil {
			continue
		}
		if err := p.run(b, ctx); err != nil {
			fmt.Printf("  %s DOES NOT COUNT: %v\n", p.name, err)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	if b.report.Machine.SyncAfter, err = host.SyncTime(b.dir); err != nil {
		return err
	}
	b.report.Bars = judge(b.report)
	b.report.print(os.Stdout)
	if err := b.report.write(jsonFile, plotFile); err != nil {
		return err
	}
	fmt.Printf("\nplot: %s\nevery round: %s\n", plotFile, jsonFile)
	return failed
}

// sideBySide measures the servers under one load, in turns, with each number of writers.
func (b *bench) sideBySide(ctx context.Context, tool string, writers []int) error {
	for _, n := range writers {
		servers, rounds := []string{posix, holdfast}, 1
		if n == fewWriters {
			servers = []string{posix, personality, holdfast}
		}
		if n == fewWriters || n == manyWriters {
			rounds = b.rounds
		}
		var figures []*Figure
		for _, s := range servers {
			figures = append(figures, b.report.figure(wholeMachine, s, load{Tool: tool, Writers: n}))
		}
		for round := range rounds {
			for i := range figures { // the first one has the colder machine
				f := figures[(i+round)%len(figures)]
				if err := b.measure(ctx, f, b.window, place{}); err != nil {
					return fmt.Errorf("%s, %d writers: %w", f.Server, n, err)
				}
			}
		}
	}
	return nil
}

// Command archive measures what it costs to have the log in a bucket too, and how long it takes to get it back from there:
//
//   - dial: puts by clients that wait for each answer, without an archive, with one (--ack commit), and answered when the bucket has them
//     (--ack archive). The store's uploads take a set time; beside each round the time of bare uploads is measured;
//   - large: the same with large values and --ack commit alone, for the CPU of a shipped megabyte;
//   - quiet: requests of a server that has nothing to do, and of one with ten puts a second;
//   - restore: a gigabyte brought back from a bucket and from a directory.
//
// The store is in this process (internal/bucket), so what it uses of the processors is the load's and not the server's. Every put goes to a
// real server that syncs its log. Tables, bars and a plot are printed and written as in the other benchmarks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/internal/bucket"
)

// bench is one call of this program.
type bench struct {
	bin     string // Holdfast
	dir     string // of all data
	rounds  int
	window  time.Duration
	clients int
	delays  []time.Duration // of an upload
	gb      float64         // what is restored

	store  *bucket.Bucket
	report *Report
}

// part is one of the things this program does.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

// parts of the whole, in the order in which they run.
var parts = []part{{"dial", (*bench).dial}, {"large", (*bench).large}, {"quiet", (*bench).quiet}, {"restore", (*bench).restore}}

func main() {
	b := &bench{}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	which := flag.String("parts", strings.Join(names, ","), "what to measure")
	delays := flag.String("delays", "5ms,50ms", "how long an upload takes")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds of the parts with load; the tables have medians")
	flag.DurationVar(&b.window, "window", 10*time.Second, "how long a round is measured")
	flag.IntVar(&b.clients, "clients", 64, "clients, each of which waits for its answer")
	flag.Float64Var(&b.gb, "gb", 1, "gigabytes (10^9) of values that are restored")
	flag.StringVar(&b.bin, "holdfast", "bin/holdfast", "the server")
	jsonFile := flag.String("json", "build/bench/archive.json", "where every round goes")
	plotFile := flag.String("plot", "build/bench/archive.svg", "where the plot goes")
	flag.Parse()
	var err error
	for d := range strings.SplitSeq(*delays, ",") {
		delay, bad := time.ParseDuration(d)
		b.delays, err = append(b.delays, delay), errors.Join(err, bad)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err == nil {
		err = b.run(ctx, strings.Split(*which, ","), *jsonFile, *plotFile)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench archive:", err)
		os.Exit(1)
	}
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
	if b.dir, err = os.MkdirTemp("build/bench", "archive."); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.store, err = bucket.Start(); err != nil {
		return err
	}
	defer b.store.Close()
	if err := b.store.Setenv(); err != nil {
		return err
	}
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

// Command saga measures coordinators of transactions across services: DTM 1.19 on MariaDB, Holdfast, and a floor that only decodes, syncs
// and calls (bench/saga/floor), in alternating rounds on one machine:
//
//   - published: the table of DTM's published report in its own shape, with its own bench service and ApacheBench, on a MariaDB that is the
//     business database for all of them; DTM's tables are in a MariaDB of their own, so that its time can be told;
//   - own: two empty branches, by a load tool of ours that keeps its connections and is services and starter at once;
//   - failures: the same with one and with fifty in a hundred that have to be compensated;
//   - recovery: 10,000 sagas whose second call hangs, kill -9, restart, until the last has finished;
//   - beside: 300 sagas a second beside 30 a second to a service that never answers;
//   - delayed: 10,000 delayed messages over ten seconds, and with the leader of three killed meanwhile;
//   - timers: a million open timers, a restart, and those that are due then.
//
// It prints tables with the coordinator's CPU per saga, and says of each of the project's own bars whether it was reached. Every round is
// left as JSON, with a plot. Coordinators listen at DTM's own port, which the bench service has built in, so everything runs in a network
// of its own (home.go). Every answer is compared with the services' calls and the databases' content. A round with one failed request, one
// missing call or one too many is void.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// bench is one call of this program.
type bench struct {
	programs string // directory of DTM's server and the bench service
	bin      string // Holdfast
	floorBin string
	dir      string // of all data
	rounds   int
	window   time.Duration // of a measurement
	works    []string      // of the published table
	servers  []string
	clients  []int         // of our own load
	beside   time.Duration // of one run beside a service that never answers
	timers   int           // open ones, in the part of that name
	patience time.Duration // for recovery

	report *Report
}

// part is one of the things this program does.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

// parts of the whole, in the order in which they run.
var parts = []part{
	{"published", (*bench).published},
	{"own", (*bench).own},
	{"failures", (*bench).failures},
	{"recovery", (*bench).recovery},
	{"beside", (*bench).besideHanging},
	{"delayed", (*bench).delayed},
	{"timers", (*bench).openTimers},
}

func main() {
	b := &bench{}
	which := flag.String("parts", strings.Join(partNames(), ","), "what to measure")
	works := flag.String("works", strings.Join(workNames(), ","), "rows of the published table")
	servers := flag.String("servers", strings.Join(serverNames, ","), "coordinators; a bar needs those of which it speaks")
	clients := flag.String("clients", "20,64", "numbers of clients of our own load; the bars speak of both")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds; the tables have medians")
	flag.DurationVar(&b.window, "window", 10*time.Second, "time of one measurement")
	flag.DurationVar(&b.beside, "beside", 120*time.Second, "time of one run beside a service that never answers")
	flag.IntVar(&b.timers, "timers", 1_000_000, "open timers")
	flag.DurationVar(&b.patience, "patience", 2*time.Minute, "how long a recovery is watched")
	flag.StringVar(&b.programs, "dtm", "build/peers/dtm-bench", "where scripts/dtmbench.sh put its programs")
	flag.StringVar(&b.bin, "holdfast", "bin/holdfast", "the server")
	flag.StringVar(&b.floorBin, "floor", "build/bench/floor-saga", "bench/saga/floor")
	jsonFile := flag.String("json", "build/bench/saga.json", "where every round goes")
	plotFile := flag.String("plot", "build/bench/saga.svg", "where the plot goes")
	here := flag.Bool("here", false, "use this machine's network, not one of its own: needs ports 36789 and 8083, and nobody else's connections")
	flag.Parse()
	err := b.setUp(*works, *servers, *clients)
	if err == nil && !*here {
		err = ownNetwork()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err == nil {
		err = b.run(ctx, words(*which), *jsonFile, *plotFile)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench saga:", err)
		os.Exit(1)
	}
}

// setUp reads the lists and makes paths absolute: some programs run in directories of their own.
func (b *bench) setUp(works, servers, clients string) (err error) {
	b.works, b.servers = words(works), words(servers)
	for _, w := range b.works {
		if !slices.Contains(workNames(), w) {
			return fmt.Errorf("no row %q; there are %s", w, strings.Join(workNames(), ", "))
		}
	}
	for _, s := range b.servers {
		if !slices.Contains(serverNames, s) {
			return fmt.Errorf("no coordinator %q; there are %s", s, strings.Join(serverNames, ", "))
		}
	}
	for _, item := range words(clients) {
		n := 0
		if _, err := fmt.Sscan(item, &n); err != nil || n < 1 {
			return fmt.Errorf("%q is no number of clients", item)
		}
		b.clients = append(b.clients, n)
	}
	for _, path := range []*string{&b.programs, &b.bin, &b.floorBin} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

func words(list string) (out []string) {
	for w := range strings.SplitSeq(list, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

func partNames() (out []string) {
	for _, p := range parts {
		out = append(out, p.name)
	}
	return out
}

// run measures the parts asked for. A part that fails does not keep the next one from being measured, and the results so far are shown and
// written all the same. The end of ctx ends them all.
func (b *bench) run(ctx context.Context, which []string, jsonFile, plotFile string) error {
	for _, name := range which {
		if !slices.Contains(partNames(), name) {
			return fmt.Errorf("no part %q; there are %s", name, strings.Join(partNames(), ", "))
		}
	}
	if err := os.MkdirAll("build/bench", 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("build/bench", "saga.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.dir, err = filepath.Abs(dir); err != nil {
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

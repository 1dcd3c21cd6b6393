// Command sqlite measures databases of SQLite that are kept in a bucket, beside Litestream:
//
//   - sweep: the published experiment, a counter behind HTTP and k6 with 2 to 20 users, on one core for app and agent together;
//   - spread: 20 users and --ack archive over a store whose uploads do not all take the same time;
//   - pair: 20 users, Litestream and --ack local in turns, for what each takes of the core, of the rate and of memory;
//   - framework: some users of an app that burns 4.7 ms of the core for each request, as the published one did;
//   - kills: app and agent killed under load, their files removed, the database restored from the bucket alone: what was answered and is lost;
//   - takeover: how long a restore takes, and how long until another machine answers the first request.
//
// The store is in this process (internal/bucket), with uploads that take as long as they are told to. This process and k6 run on one core
// (scripts/bench.sh), app and agent on another. Tables, bars and a plot are printed and written as in the other benchmarks.
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

	_ "embed"

	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/internal/bucket"
)

//go:embed counter.py
var counterPy []byte

//go:embed counter.js
var counterJS []byte

// bench is one call of this program.
type bench struct {
	bin, extension, litestream, k6bin, python string // programs
	appCore                                   string // of taskset
	dir                                       string // of all data
	script, loadScript                        string // files in it
	rounds, pairs, kills, mb                  int
	window                                    time.Duration
	upload                                    time.Duration // of an upload
	sigma                                     float64       // of the part spread
	burn                                      time.Duration // of the app, for each request
	sides                                     []string

	store  *bucket.Bucket
	report *Report
}

// part is one of the things this program does.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

// parts of the whole, in the order in which they run.
var parts = []part{{"sweep", (*bench).sweep}, {"spread", (*bench).spread}, {"pair", (*bench).pair}, {"framework", (*bench).framework},
	{"kills", (*bench).killing}, {"takeover", (*bench).takeover}}

func main() {
	b := &bench{}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	which := flag.String("parts", strings.Join(names, ","), "what to measure")
	full := flag.Bool("full", os.Getenv("FULL") == "1", "as long as the published experiment: 120 s a cell, 3 rounds; also FULL=1")
	sides := flag.String("sides", "litestream,local,archive", "who is measured: alone, litestream, local, archive")
	flag.IntVar(&b.rounds, "rounds", 1, "rounds of the parts with k6; the tables have medians")
	flag.IntVar(&b.pairs, "pairs", 7, "rounds of the part pair")
	flag.IntVar(&b.kills, "kills", 5, "how often each side is killed")
	flag.IntVar(&b.mb, "mb", 100, "megabytes of the database that is taken over")
	flag.DurationVar(&b.window, "window", 10*time.Second, "how long a round is measured")
	flag.DurationVar(&b.upload, "upload", 50*time.Millisecond, "how long an upload takes")
	flag.Float64Var(&b.sigma, "sigma", 0.15, "how far the time of uploads is spread in the part spread, lognormally")
	flag.StringVar(&b.bin, "holdfast", "bin/holdfast", "the agent")
	flag.StringVar(&b.extension, "extension", "bin/holdfast_sqlite.so", "the extension")
	flag.StringVar(&b.litestream, "litestream", "build/peers/litestream", "the peer")
	flag.StringVar(&b.k6bin, "k6", "build/peers/k6", "the load")
	flag.StringVar(&b.python, "python", "/usr/bin/python3", "what the app runs in; it must be able to load extensions of SQLite")
	flag.StringVar(&b.appCore, "app-core", "0", "where app and agent run, as taskset takes it")
	jsonFile := flag.String("json", "build/bench/sqlite.json", "where every round goes")
	plotFile := flag.String("plot", "build/bench/sqlite.svg", "where the plot goes")
	flag.Parse()
	if *full {
		b.window, b.rounds = 120*time.Second, 3
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.choose(*sides)
	if err == nil {
		err = b.run(ctx, strings.Split(*which, ","), *jsonFile, *plotFile)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench sqlite:", err)
		os.Exit(1)
	}
}

// choose reads the list of sides, and makes paths absolute: agents and apps have directories of their own in their arguments.
func (b *bench) choose(list string) error {
	known := map[string]string{"alone": alone, "litestream": litestream, "local": local, "archive": stored}
	for name := range strings.SplitSeq(list, ",") {
		side, ok := known[name]
		if !ok {
			return fmt.Errorf("no side %q", name)
		}
		b.sides = append(b.sides, side)
	}
	for _, path := range []*string{&b.bin, &b.extension, &b.litestream, &b.k6bin} {
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a side is measured.
func (b *bench) measures(side string) bool { return slices.Contains(b.sides, side) }

// run measures the parts asked for. A part that fails does not keep the next one from being measured, and the results so far are shown and
// written all the same. The end of ctx ends them all.
func (b *bench) run(ctx context.Context, which []string, jsonFile, plotFile string) error {
	for _, name := range which {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("no part %q", name)
		}
	}
	end, err := b.prepare()
	if err != nil {
		return err
	}
	defer end()
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

// prepare makes the directory with the scripts, and the store. end removes both.
func (b *bench) prepare() (end func(), err error) {
	if err := os.MkdirAll("build/bench", 0o755); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("build/bench", "sqlite."); err != nil {
		return nil, err
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return nil, err
	}
	if b.store, err = bucket.Start(); err != nil {
		return nil, err
	}
	end = func() {
		_ = b.store.Close()     // it is no longer used
		_ = os.RemoveAll(b.dir) // what stays is below build
	}
	b.script, b.loadScript = filepath.Join(b.dir, "counter.py"), filepath.Join(b.dir, "counter.js")
	b.report = &Report{Began: time.Now()}
	// With it set Litestream's client of S3 ends when it starts; nothing here speaks TLS.
	err = errors.Join(os.WriteFile(b.script, counterPy, 0o644), os.WriteFile(b.loadScript, counterJS, 0o644), b.store.Setenv(), os.Unsetenv("AWS_CA_BUNDLE"))
	if err == nil {
		b.report.Machine, err = host.Describe(b.dir)
	}
	if err != nil {
		end()
		return nil, err
	}
	// This process has one core of them.
	if stat, err := os.ReadFile("/proc/stat"); err == nil {
		b.report.Machine.Cores = strings.Count(string(stat), "\ncpu")
	}
	fmt.Println(b.report.Machine)
	return end, nil
}

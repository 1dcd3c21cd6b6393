// Command crash has real processes keep a SQLite database in a bucket while they are killed, stopped, taken over and failed by their store.
// Other programs use the database freely meanwhile. Then everything local is removed, and every acknowledged commit must come back from the
// bucket alone. The application is Python's sqlite3 as Debian has it, with the extension, and the agent is `holdfast sqlite`. The bucket is
// internal/bucket, where an upload takes 50 ms. The extension's promises without an agent are in conformance/sqlite/extension.
//
//	crash [-quick] [-only REGEXP] [-rounds N] [-keep DIR]
//
// A run that is neither quick nor part of one writes RESULTS-sqlite.md; a part writes the table that -results names, if it does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

const head = `# SQLite in a bucket, under attack

Written by ` + "`make conformance DOOR=sqlite`" + ` (conformance/sqlite/crash): real applications, agents and files, a bucket where an upload takes 50 ms.
"Acknowledged" are the commits whose call returned without an error; "missing" those that a restore from the bucket alone does not have.

`

func main() {
	r := &run{}
	quick := flag.Bool("quick", false, "three rounds of each, small databases, no table")
	only := flag.String("only", "", "steps whose names match")
	flag.IntVar(&r.rounds, "rounds", 100, "how often a step is repeated that is random")
	bin := flag.String("holdfast", "bin/holdfast", "the agent")
	extension := flag.String("extension", "bin/holdfast_sqlite.so", "what the application loads")
	table := flag.String("results", "", "where the table goes (default: conformance/RESULTS-sqlite.md, of a whole run)")
	flag.StringVar(&r.keep, "keep", "", "where the files of what fails are kept (default: a directory for temporary files)")
	flag.Parse()
	r.quick = *quick
	if r.quick {
		r.rounds = min(r.rounds, 3)
	}
	if err := r.begin(*bin, *extension); err != nil {
		fatal(err)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, s := range r.all() {
		if wanted.MatchString(s.name) && (!r.quick || !s.long) && ctx.Err() == nil {
			r.steps.Do(s.name, func() (string, error) { return r.step(ctx, s) })
		}
	}
	if err := os.RemoveAll(r.dir); err != nil {
		fatal(err)
	}
	if *table == "" && !r.quick && *only == "" {
		*table = filepath.Join(r.root, "conformance/RESULTS-sqlite.md")
	}
	if *table != "" && ctx.Err() == nil {
		if err := r.steps.Write(*table, head); err != nil {
			fatal(err)
		}
	}
	if _, failed := r.steps.Count(); failed > 0 || ctx.Err() != nil {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "crash:", err)
	os.Exit(1)
}

// step is one line of the table.
type step struct {
	name string
	long bool // not in a quick run
	do   func(ctx context.Context, p *place) (note string, err error)
}

// run is one call of this program.
type run struct {
	root, dir, bin, extension, keep string
	litestream                      string // "" if it is not there
	quick                           bool
	rounds                          int
	steps                           results.Steps
	number                          int // of the place
}

func (r *run) begin(bin, extension string) (err error) {
	if r.root, err = proctest.Root(); err != nil {
		return err
	}
	r.bin, r.extension = filepath.Join(r.root, bin), filepath.Join(r.root, extension)
	if filepath.IsAbs(bin) {
		r.bin = bin
	}
	if filepath.IsAbs(extension) {
		r.extension = extension
	}
	for _, f := range []string{r.bin, r.extension} {
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("%w; `make build extension` makes it", err)
		}
	}
	if name := filepath.Join(r.root, "build/peers/litestream"); exists(name) {
		r.litestream = name
	}
	r.dir, err = os.MkdirTemp("", "hfc") // short: the path of a socket is
	return err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func (r *run) all() []step {
	var l []step
	for _, part := range [][]step{r.kills(), r.takeovers(), r.foreign(), r.faults(), r.scales(), r.flips()} {
		l = append(l, part...)
	}
	return l
}

// step runs one step at a place of its own, and keeps the place's files if it fails.
func (r *run) step(ctx context.Context, s step) (note string, err error) {
	p, err := r.place()
	if err != nil {
		return "", err
	}
	note, err = s.do(ctx, p)
	p.killAll()
	if err != nil {
		err = errors.Join(err, p.keepAll(r.keep))
	}
	return note, errors.Join(err, p.close())
}

// span is a duration for people.
func span(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

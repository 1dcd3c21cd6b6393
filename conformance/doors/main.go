// Command doors checks the doors by unmodified foreign clients and suites. Each is a program of its own below conformance, run one after
// another or, in a quick run, four beside each other. `make conformance` is this program.
//
//	doors [-door kv] [-quick] [-jobs 2]
//
// Without -door a full run takes every door, and a quick one those with changes since the last full run (RUNS.md). It lists the doors left
// out. All programs run to their end, and one failure makes the run's status 1. A full run in which nothing failed writes the commit it ran
// on into RUNS.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/pace"
)

const (
	runsFile   = "conformance/RUNS.md"
	allowances = "docs/TESTS.md"
	// allowed is the heading there of what groups of a quick run may take.
	allowed = "Conformance, QUICK=1"
)

func main() {
	name := flag.String("door", "", "only this door")
	quick := flag.Bool("quick", false, "a telling part of each program, two minutes a door, and only the doors that something has changed for")
	jobs := flag.Int("jobs", 0, "so many programs beside each other; 0: four in a quick run, else one, whose output is not held back")
	flag.Parse()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		os.Exit(130) // what runs has got the signal too
	}()
	good, err := run(*name, *quick, *jobs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if !good || err != nil {
		os.Exit(1)
	}
}

func run(name string, quick bool, jobs int) (good bool, err error) {
	began := time.Now()
	chosen := doors
	switch {
	case name != "":
		i := slices.IndexFunc(doors, func(d door) bool { return d.name == name })
		if i < 0 {
			return false, fmt.Errorf("no door named %q is built", name)
		}
		chosen = doors[i : i+1]
	case quick:
		c, err := changesSince(runsFile)
		if err != nil {
			return false, err
		}
		chosen = nil
		for _, d := range doors {
			why, affected := c.affects(d.name)
			if affected {
				chosen = append(chosen, d)
				fmt.Printf("== %s: run, %s\n", d.name, why)
			} else {
				fmt.Printf("== %s: skipped, %s\n", d.name, why)
			}
		}
	}
	// The commit is that of the present tree; changes while the programs run do not count.
	commit, clean, err := head()
	if err != nil {
		return false, err
	}
	if len(chosen) > 0 {
		if err := prepare(chosen, quick); err != nil {
			return false, err
		}
	}
	limits, err := pace.Read(allowances, allowed)
	if err != nil {
		return false, err
	}
	if !quick {
		limits = nil
	}
	var all []group
	for _, d := range chosen {
		all = append(all, d.groups(quick)...)
	}
	switch {
	case jobs > 0:
	case quick:
		jobs = 4 // they wait for elections and leases more than they compute
	default:
		jobs = 1
	}
	failed := runGroups(all, jobs, limits, os.Stdout)
	if !quick {
		for _, d := range chosen {
			if slices.ContainsFunc(failed, func(g group) bool { return g.door == d.name }) {
				continue
			}
			if !clean {
				fmt.Printf("%s: not recorded in %s, since the tree has changes that no commit has\n", d.name, runsFile)
				continue
			}
			if err := record(runsFile, row{d.name, commit, time.Now().UTC().Format(time.DateOnly)}); err != nil {
				return false, err
			}
		}
	}
	var names []string
	for _, g := range failed {
		names = append(names, g.name)
	}
	fmt.Printf("conformance: %d of %d passed in %d s", len(all)-len(failed), len(all), int(time.Since(began).Seconds()))
	if len(failed) > 0 {
		fmt.Printf("; failed: %s", strings.Join(names, ", "))
	}
	fmt.Println()
	return len(failed) == 0, nil
}

// prepare installs the checking tools and builds the server and our programs, all in one go, since they share most of their packages.
func prepare(chosen []door, quick bool) error {
	build := []string{"go", "build", "-o", "build/", "./" + server}
	var steps [][]string
	for _, d := range chosen {
		steps = append(steps, d.prepare(quick)...)
		build = append(build, d.programs(quick)...)
	}
	// The server is where `make build` leaves it.
	for _, s := range append([][]string{build, {"mkdir", "-p", "bin"}, {"mv", "build/" + path.Base(server), "bin/"}}, steps...) {
		c := exec.Command(s[0], s[1:]...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(s, " "), err)
		}
	}
	return nil
}

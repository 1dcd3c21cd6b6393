// Command saga runs DTM's own quick start and programs around its Go, Python and Java clients, all of them unchanged. They run against a
// Holdfast, or against DTM itself. It judges no single answer: the programs know what their services must have seen. scripts/dtm.sh and
// scripts/dtmclients.sh bring what it runs.
//
//	saga [-against ours|original] [-quick]
//
// DTM's sample knows one port, 36789, so everything runs in a network of its own where the machine lets this user make one. A failure that
// is not in known_failures.txt ends the run with status 1, and so does a listed one that passes. A run that is not quick replaces its cells
// of RESULTS-saga.md.
//
// dtmsuite, beside it, runs DTM's test suite.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/holdfastdb/holdfast/conformance/saga/coordinator"
	"github.com/holdfastdb/holdfast/conformance/suite"
)

func main() {
	suite.Inside()
	against := flag.String("against", "ours", "ours or original")
	quick := flag.Bool("quick", false, "only the sample and the Go client, no table")
	bin := flag.String("holdfast", "bin/holdfast", "the server")
	tools := flag.String("tools", "build/peers/dtm", "where scripts/dtm.sh put the programs")
	table := flag.String("results", "conformance/RESULTS-saga.md", "where the table is")
	flag.Parse()
	if *against != "ours" && *against != "original" || flag.NArg() > 0 {
		fatal(fmt.Errorf("-against %s: it is ours or original", *against))
	}
	if err := suite.Alone(); err != nil {
		fmt.Println("in the network of this machine, whose ports 8082, 36789 and 36790 have to be free:", err)
	}
	all, err := run(*against, *bin, *tools, *quick)
	if err != nil {
		fatal(err)
	}
	good := judge(all, *against)
	if !*quick {
		if err := write(*table, *against, all); err != nil {
			fatal(err)
		}
	}
	if !good {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "saga:", err)
	os.Exit(1)
}

// run starts the coordinator and all programs one after another, because each counts what its services see.
func run(against, bin, tools string, quick bool) (all []outcome, err error) {
	dir, err := os.MkdirTemp("", "saga-conformance")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if against == "ours" {
		c, err := coordinator.Ours(dir, bin, "--memory", "256MiB")
		if err != nil {
			return nil, err
		}
		defer c.Close()
	} else {
		p, err := coordinator.Original(dir, tools+"/dtm")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.Kill()) }()
	}
	all = append(all, quickStart(dir, tools))
	for _, p := range programs(tools, quick) {
		did, err := p.run()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, did...)
	}
	return all, nil
}

// Command dtmsuite runs DTM's own test suite, `test/` of its module, against Holdfast, or against DTM itself. The sources of its tests are
// unchanged. For Holdfast two packages of the server inside it are replaced by conformance/saga/shim, which speaks to a Holdfast with a
// control door (build tag sagatest). scripts/dtmsuite.sh links both and installs MariaDB, Redis and a substitute for MongoDB.
//
//	dtmsuite [-against ours|original] [-only REGEXP]
//
// The suite knows fixed ports, so everything runs in a network of its own where the machine lets this user make one. All tests run in one
// process, as DTM runs them, except those that are known to fail. A failed test runs again alone, with a fresh database and a fresh server,
// and only then counts. A failure that is not in known_failures.txt ends the run with status 1. So does a listed test that passes, or a
// test that skips itself. A run of all tests replaces its cells of RESULTS-saga-suite.md.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/holdfastdb/holdfast/conformance/suite"
	"github.com/holdfastdb/holdfast/internal/results"
)

//go:embed known_failures.txt
var knownFailures string

const head = `# DTM's own suite

Written by ` + "`make conformance DOOR=saga`" + ` (conformance/saga/dtmsuite). The tests of DTM v1.19.0, over HTTP, gRPC and JSON-RPC. Their services keep
their data in MariaDB, in Redis, and in NX-27017 0.8.1, which speaks MongoDB's protocol in front of SQLite and aborts a transaction over two
databases as MongoDB does. Left DTM with its store in the same MariaDB; right Holdfast, with two packages of the server inside the tests
replaced. What fails is listed with the reason in conformance/saga/dtmsuite/known_failures.txt.

`

func main() {
	suite.Inside()
	against := flag.String("against", "ours", "ours or original")
	only := flag.String("only", "", "only tests whose name matches, and no table")
	suites := flag.String("suites", "build/suites", "where scripts/dtmsuite.sh put them")
	table := flag.String("results", "conformance/RESULTS-saga-suite.md", "where the table is")
	flag.Parse()
	if *against != "ours" && *against != "original" || flag.NArg() > 0 {
		fatal(fmt.Errorf("-against %s: it is ours or original", *against))
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	if err := suite.Alone(); err != nil {
		fmt.Println("in the network of this machine, whose ports 3306, 6379, 8081, 27017, 36789 and 36790 have to be free:", err)
	}
	began := time.Now()
	c := &campaign{against: *against, suites: *suites}
	if *against == "ours" {
		c.known.Failing = results.ParseList(knownFailures) // what is known is known of ours
	}
	names, all, err := c.run(wanted)
	if err != nil {
		fatal(err)
	}
	good := true
	for _, r := range all {
		if news := c.known.News(r); news != "" {
			good = false
			fmt.Printf("%s: %s; see %s\n", r.Name, news, c.log(r.Name))
		}
	}
	for _, name := range c.known.Strangers(names) {
		good = false
		fmt.Printf("%s: the suite has no such test: take it off the lists\n", name)
	}
	if *only == "" {
		if err := suite.Write(*table, head, "DTM 1.19.0", names, *against, all, c.known); err != nil {
			fatal(err)
		}
	}
	fmt.Println(suite.Summary(all, time.Since(began)))
	if !good {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "dtmsuite:", err)
	os.Exit(1)
}

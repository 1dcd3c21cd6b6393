// Command e2e runs etcd's own end-to-end suite, go.etcd.io/etcd/tests/v3/e2e, unchanged, against Holdfast under the name etcd, or against
// the original. It starts no server itself: the suite does, with etcd's flags. scripts/e2esuite.sh builds what it needs.
//
//	e2e [-against ours|original] [-quick] [-only REGEXP] [-jobs 2]
//
// Every test is a process of its own, because the suite's check for leaks skips all tests after a failure. Two run at once where each can
// be given a network of its own, one otherwise: the suite's ports are fixed. The tests of left_out.txt are about what this server does not
// have and are not run. A test that fails beside another is run again alone, and only then counts. A failure that is not in
// known_failures.txt ends the run with status 1, and so does a listed one that passes. A run that is not quick writes its cells of
// RESULTS-e2e.md.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/conformance/suite"
	"github.com/holdfastdb/holdfast/internal/results"
)

//go:embed known_failures.txt
var knownFailures string

//go:embed left_out.txt
var leftOut string

//go:embed skipped.txt
var skippedTests string

// quick is a telling part of the suite: what no other suite of ours sees, a minute in all.
var quick = []string{"TestConnectionMultiplexing", "TestCurlV3KVTxn", "TestCurlV3MaintenanceStatus",
	"TestEtcdExampleConfig", "TestEtcdUnixPeers", "TestMemberReplaceWithLearner", "TestNoMetricsMissing",
	"TestServerJsonLogging"}

// patience is how long one test may take; the longest takes a minute on two cores.
const patience = 2 * time.Minute

const head = `# etcd's own end-to-end suite

Written by ` + "`make conformance DOOR=kv`" + ` (conformance/e2e). etcd's tests/e2e at v3.7.3, unchanged, with the original etcdctl and etcdutl.
Left the original server, right this one under the name etcd. What fails for good, and what etcd does there, is in
conformance/e2e/known_failures.txt; the tests of left_out.txt are about what this server does not have. A run of some tests replaces
their cells only.

`

func main() {
	suite.Inside()
	var c suite.Campaign
	against := flag.String("against", "ours", "ours or original")
	isQuick := flag.Bool("quick", false, "only a telling part")
	only := flag.String("only", "", "only tests whose name matches")
	flag.IntVar(&c.Jobs, "jobs", 2, "tests at once, where each can have a network of its own")
	program := flag.String("suite", "build/suites/etcd-common/e2e/e2e.test", "where scripts/e2esuite.sh put the suite")
	table := flag.String("results", "conformance/RESULTS-e2e.md", "where a run that is not quick writes its cells")
	flag.Parse()
	bin := map[string]string{"ours": "build/suites/ours", "original": "build/peers/etcd-3.7.3"}[*against]
	if bin == "" || flag.NArg() > 0 {
		fatal(fmt.Errorf("-against %s: it is ours or original", *against))
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c.Ours = *against == "ours"
	c.Runner = &suite.Runner{Program: *program, Bin: bin, Logs: filepath.Join("build", "suites", "e2e-"+*against), Patience: patience}
	c.Part(ctx)
	names, err := c.Runner.List(ctx)
	if err != nil {
		fatal(err)
	}
	c.Known = suite.Known{Failing: results.ParseList(knownFailures), Skipped: results.ParseList(skippedTests)}
	out := results.ParseList(leftOut)
	if none := append(c.Known.Strangers(names), suite.Known{Failing: out}.Strangers(names)...); len(none) > 0 {
		fatal(fmt.Errorf("the suite has no test %v: take it off the lists in conformance/e2e", none))
	}
	names = slices.DeleteFunc(names, func(name string) bool { return out[name] != "" })
	todo := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !wanted.MatchString(name) || *isQuick && !slices.Contains(quick, name)
	})
	if len(todo) == 0 {
		fatal(fmt.Errorf("no test is named like %q", *only))
	}
	began := time.Now()
	all, good, err := c.Run(ctx, todo)
	if err != nil {
		fatal(err)
	}
	if !*isQuick {
		if err := suite.Write(*table, head, "etcd 3.7.3", names, *against, all, c.Known); err != nil {
			fatal(err)
		}
	}
	fmt.Println(suite.Summary(all, time.Since(began)))
	if !good {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	os.Exit(1)
}

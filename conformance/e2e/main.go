// Command e2e runs etcd's own end-to-end suite, go.etcd.io/etcd/tests/v3/e2e, unchanged, against Holdfast under the name etcd, or
// against the original. It starts no server itself: the suite does, with etcd's flags. scripts/e2esuite.sh builds what it needs.
//
//	e2e [-against ours|original] [-quick] [-only REGEXP] [-jobs 2]
//
// Every test is a process of its own, because the suite's check for leaks skips whatever follows a failure. Two run at once where
// each can be given a network of its own, one otherwise: the suite's ports are fixed. The tests of left_out.txt are about what
// this server does not have and are not run. What fails beside another test is run again alone, and only then counts. A failure
// that is not in known_failures.txt ends the run with status 1, and so does a listed one that passes. A run that is not quick
// writes its cells of RESULTS-e2e.md.
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
	"sync"
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
	var c campaign
	flag.StringVar(&c.against, "against", "ours", "ours or original")
	isQuick := flag.Bool("quick", false, "only a telling part")
	only := flag.String("only", "", "only tests whose name matches")
	flag.IntVar(&c.jobs, "jobs", 2, "tests at once, where each can have a network of its own")
	program := flag.String("suite", "build/suites/etcd-common/e2e/e2e.test", "where scripts/e2esuite.sh put the suite")
	table := flag.String("results", "conformance/RESULTS-e2e.md", "where a run that is not quick writes its cells")
	flag.Parse()
	bin := map[string]string{"ours": "build/suites/ours", "original": "build/peers/etcd-3.7.3"}[c.against]
	if bin == "" || flag.NArg() > 0 {
		fatal(fmt.Errorf("-against %s: it is ours or original", c.against))
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c.runner = &suite.Runner{Program: *program, Bin: bin, Logs: filepath.Join("build", "suites", "e2e-"+c.against), Patience: patience}
	if why := suite.CanApart(ctx); why == nil {
		c.runner.Apart = true
	} else {
		fmt.Println("one test at a time: no networks of their own here:", why)
		c.jobs = 1
	}
	names, err := c.runner.List(ctx)
	if err != nil {
		fatal(err)
	}
	c.known = suite.Known{Failing: results.ParseList(knownFailures), Skipped: results.ParseList(skippedTests)}
	out := results.ParseList(leftOut)
	if none := append(c.known.Strangers(names), suite.Known{Failing: out}.Strangers(names)...); len(none) > 0 {
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
	all, good := c.run(ctx, todo)
	if !*isQuick {
		if err := suite.Write(*table, head, names, c.against, all, c.known); err != nil {
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

// campaign is one run over the suite.
type campaign struct {
	against string
	jobs    int
	runner  *suite.Runner
	known   suite.Known
}

// run runs the tests and reports whether all went as the lists say.
func (c *campaign) run(ctx context.Context, names []string) (all []suite.Result, good bool) {
	todo := make(chan string)
	var mu sync.Mutex // guards all and again
	var again []string
	var wg sync.WaitGroup
	for range c.jobs {
		wg.Go(func() {
			for name := range todo {
				res := c.one(ctx, name)
				mu.Lock()
				if res.Verdict == suite.Failed && c.jobs > 1 && c.known.Failing[name] == "" {
					again = append(again, name)
				} else {
					all = append(all, res)
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		todo <- name
	}
	close(todo)
	wg.Wait()
	for _, name := range again {
		res := c.one(ctx, name)
		res.Again = true
		all = append(all, res)
	}
	good = true
	for _, res := range all {
		if news := c.known.News(res); c.against == "ours" && news != "" {
			good = false
			fmt.Printf("%s: %s; see %s\n", res.Name, news, c.runner.Log(res.Name))
		}
	}
	return all, good
}

// one runs one test and says how it went.
func (c *campaign) one(ctx context.Context, name string) suite.Result {
	if !c.runner.Apart {
		if err := suite.AwaitPorts(ctx); err != nil {
			fatal(err)
		}
	}
	res, err := c.runner.Run(ctx, name)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		fatal(err)
	}
	fmt.Printf("%-8s %-60s %6.1f s\n", res.Verdict, name, res.Took.Seconds())
	if why := c.known.Failing[name]; c.against == "ours" && res.Verdict == suite.Failed && why != "" {
		fmt.Printf("         known: %s\n", why)
	}
	return res
}

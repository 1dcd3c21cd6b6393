// Command etcdsuite runs etcd's own tests/common suite, unchanged, against Holdfast under the name etcd, or against the original. It starts
// no server itself: the suite does, with etcd's flags. scripts/etcdsuite.sh builds what it needs.
//
//	etcdsuite [-against ours|original] [-quick] [-only REGEXP] [-budget 4m] [-jobs 2]
//
// Every test is a run of its own. Two run at once where each can be given a network of its own, one otherwise: the suite's ports are fixed.
// A test that fails beside another is run again alone, and only then counts. A failure that is not in known_failures.txt ends the run with
// status 1. So does a listed test that passes, or a test that skips itself although it should not. A run that is not quick writes its lines
// of RESULTS-suites.md, where the original's results stand beside ours.
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

//go:embed skipped.txt
var skippedTests string

// quick is a telling part of the suite: one test for each thing it looks at, two minutes in all.
var quick = []string{"TestAlarm", "TestAuthEnable", "TestAuthTxn", "TestAuthRoleGet", "TestEndpointHealth", "TestKVPut", "TestLeaseGrantRevoke",
	"TestMemberList", "TestRoleAdd_Simple", "TestStatus", "TestTxnSucc", "TestUserAdd_Simple", "TestWatch"}

// patience is how long one test may take; the longest takes a minute and a half on two cores.
const patience = 6 * time.Minute

const head = `# etcd's own suite

Written by ` + "`make conformance DOOR=kv`" + ` (conformance/etcdsuite). etcd's tests/common at v3.7.3, unchanged, with the original etcdctl: one
member plain, three with TLS, three with certificates they made themselves, as each test asks for. Left the original server,
right this one under the name etcd. A run of some tests replaces their cells only.

`

func main() {
	suite.Inside()
	var c suite.Campaign
	against := flag.String("against", "ours", "ours or original")
	isQuick := flag.Bool("quick", false, "only a telling part")
	only := flag.String("only", "", "only tests whose name matches")
	flag.DurationVar(&c.Budget, "budget", 0, "begin no test after this time; 0: no bound")
	flag.IntVar(&c.Jobs, "jobs", 2, "tests at once, where each can have a network of its own")
	program := flag.String("suite", "build/suites/etcd-common/common/common.test", "where scripts/etcdsuite.sh put the suite")
	table := flag.String("results", "conformance/RESULTS-suites.md", "where a run that is not quick writes its lines")
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
	c.Runner = &suite.Runner{Program: *program, Bin: bin, Logs: filepath.Join("build", "suites", "logs-"+*against), Patience: patience}
	c.Part(ctx)
	names, err := c.Runner.List(ctx)
	if err != nil {
		fatal(err)
	}
	c.Known = suite.Known{Failing: results.ParseList(knownFailures), Skipped: results.ParseList(skippedTests)}
	todo := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !wanted.MatchString(name) || *isQuick && (!slices.Contains(quick, name) || c.Known.Skipped[name] != "")
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
	fmt.Fprintln(os.Stderr, "etcdsuite:", err)
	os.Exit(1)
}

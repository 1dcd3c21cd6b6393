// Command etcdsuite runs etcd's own tests/common suite, unchanged, against Holdfast under the name etcd, or against the
// original. It starts no server itself: the suite does, with etcd's flags. scripts/etcdsuite.sh builds what it needs.
//
//	etcdsuite [-against ours|original] [-quick] [-only REGEXP] [-budget 4m]
//
// Every test is a run of its own, one after the other, because they use fixed ports. A failure that is not in
// known_failures.txt ends the run with status 1, and so does a test that skips itself although it should not. A run that is
// not quick writes its lines of RESULTS-suites.md, where the original's results stand beside ours.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
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

type result struct {
	name    string
	verdict string // passed, skipped, FAILED
	took    time.Duration
}

func main() {
	against := flag.String("against", "ours", "ours or original")
	isQuick := flag.Bool("quick", false, "only a telling part")
	only := flag.String("only", "", "only tests whose name matches")
	budget := flag.Duration("budget", 0, "begin no test after this time; 0: no bound")
	suite := flag.String("suite", "build/suites/etcd-common", "where scripts/etcdsuite.sh put the suite")
	results := flag.String("results", "conformance/RESULTS-suites.md", "where a run that is not quick writes its lines")
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
	r := &runner{suite: *suite, bin: bin, logs: filepath.Join("build", "suites", "logs-"+*against)}
	names, err := r.list(ctx)
	if err != nil {
		fatal(err)
	}
	known, skips := parseList(knownFailures), parseList(skippedTests)
	began := time.Now()
	var all []result
	good := true
	for _, name := range names {
		if !wanted.MatchString(name) || *isQuick && !slices.Contains(quick, name) || skips[name] != "" && *isQuick {
			continue
		}
		if *budget > 0 && time.Since(began) > *budget {
			fmt.Printf("the budget of %s is used up before %s\n", *budget, name)
			break
		}
		if err := awaitPorts(ctx); err != nil {
			fatal(err)
		}
		res := r.run(ctx, name)
		if ctx.Err() != nil {
			fatal(ctx.Err())
		}
		all = append(all, res)
		fmt.Printf("%-8s %-45s %6.1f s\n", res.verdict, name, res.took.Seconds())
		if *against == "ours" && !expected(res, known, skips) {
			good = false
			fmt.Printf("         see %s\n", r.log(name))
		}
	}
	if len(all) == 0 {
		fatal(fmt.Errorf("no test is named like %q", *only))
	}
	if !*isQuick {
		if err := writeResults(*results, names, *against, all, known); err != nil {
			fatal(err)
		}
	}
	fmt.Println(summary(all, time.Since(began)))
	if !good {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "etcdsuite:", err)
	os.Exit(1)
}

// expected reports whether a result is no news. A test that should run and skips itself is: it looks green and is not.
func expected(r result, known, skips map[string]string) bool {
	switch r.verdict {
	case "passed":
		if known[r.name] != "" {
			fmt.Printf("         passes now; take it off known_failures.txt\n")
		}
		return true
	case "skipped":
		return skips[r.name] != ""
	}
	if why := known[r.name]; why != "" {
		fmt.Printf("         known: %s\n", why)
		return true
	}
	return false
}

// parseList reads "NAME: why", one a line; # begins a comment.
func parseList(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			name, why, _ := strings.Cut(line, ": ")
			out[name] = why
		}
	}
	return out
}

// runner runs single tests of the built suite.
type runner struct {
	suite, bin, logs string
}

func (r *runner) log(name string) string { return filepath.Join(r.logs, name+".log") }

// command is the suite with the arguments. It must run in its own directory, beside its fixtures. The servers it starts are its
// children and grandchildren; all of them are ended with it, so that a test which hangs holds no port.
func (r *runner) command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	bin, err := filepath.Abs(r.bin)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.suite, "common")
	program, err := filepath.Abs(filepath.Join(dir, "common.test"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--bin-dir", bin}, args...)...)
	cmd.Dir = dir
	ownGroup(cmd)
	return cmd, nil
}

// list returns the suite's tests.
func (r *runner) list(ctx context.Context) ([]string, error) {
	cmd, err := r.command(ctx, "-test.list", ".")
	if err != nil {
		return nil, err
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w; run scripts/etcdsuite.sh first", err)
	}
	return strings.Fields(string(out)), nil
}

// run runs one test and keeps what it printed.
func (r *runner) run(ctx context.Context, name string) result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res := result{name: name, verdict: "FAILED"}
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		fatal(err)
	}
	log, err := os.Create(r.log(name))
	if err != nil {
		fatal(err)
	}
	defer log.Close()
	cmd, err := r.command(ctx, "-test.v", "-test.count=1", "-test.run", "^"+name+"$")
	if err != nil {
		fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	err = cmd.Run()
	res.took = time.Since(began)
	text, readErr := os.ReadFile(r.log(name))
	if err == nil && readErr == nil {
		res.verdict = verdict(string(text), name)
	}
	return res
}

// verdict reads what a run that ended well says of its test. The line must be there: a run without it ran nothing.
func verdict(log, name string) string {
	for line := range strings.Lines(log) {
		switch {
		case strings.HasPrefix(line, "--- PASS: "+name+" "):
			return "passed"
		case strings.HasPrefix(line, "--- SKIP: "+name+" "):
			return "skipped"
		}
	}
	return "FAILED"
}

// Command litestreamsuite runs integration tests of Litestream's own against Holdfast under the name litestream, or against Litestream
// itself. The tests are its module's, unchanged. They start the program `litestream` with a database and a file replica, and write with a
// SQLite of their own. Then they stop the program, restore with it, and compare. scripts/litestreamsuite.sh brings and compiles them.
//
//	litestreamsuite [-against ours|original] [-only REGEXP] [-bin PROGRAM]
//
// Each test is a process with directories of its own, and all of them run at a time: they wait more than they work. A failure ends the run
// with status 1, and so does a test that skips itself. A run of all tests replaces its cells of RESULTS-litestream.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/conformance/suite"
)

const (
	version = "Litestream 0.5.18"
	// patience is for one test; the longest takes 132 s with Litestream when it is alone.
	patience = 5 * time.Minute
)

// tests are those that this program promises to pass. The others of the package want Docker, buckets of real clouds, other commands or hours.
var tests = []string{"TestFreshStart", "TestDatabaseIntegrity", "TestRapidCheckpoints"}

const head = `# Litestream's own integration tests

Written by ` + "`make conformance DOOR=sqlite`" + ` (conformance/sqlite/litestreamsuite). Tests of ` + version + `'s package tests/integration, unchanged: its load,
its SQLite (mattn, no extension), a replica in a directory. Left Litestream, right Holdfast under the name litestream.

`

func main() {
	against := flag.String("against", "ours", "ours or original")
	only := flag.String("only", "", "only tests whose name matches, and no table")
	suites := flag.String("suites", "build/suites", "where scripts/litestreamsuite.sh put them")
	bin := flag.String("bin", "", "the program under test (default bin/holdfast, or build/peers/litestream for the original)")
	table := flag.String("results", "conformance/RESULTS-litestream.md", "where the table is")
	flag.Parse()
	program, ok := map[string]string{"ours": "bin/holdfast", "original": "build/peers/litestream"}[*against]
	if !ok || flag.NArg() > 0 {
		fatal(fmt.Errorf("-against %s: it is ours or original", *against))
	}
	if *bin != "" {
		program = *bin
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	began := time.Now()
	r := &runner{suites: *suites, program: program, logs: filepath.Join(*suites, "logs-litestream-"+*against)}
	all, err := r.run(wanted)
	if err != nil {
		fatal(err)
	}
	good := true
	known := suite.Known{}
	for _, res := range all {
		fmt.Printf("%-8s %s (%.0f s)\n", res.Verdict, res.Name, res.Took.Seconds())
		if news := known.News(res); news != "" {
			good = false
			fmt.Printf("%s: %s; see %s\n", res.Name, news, r.log(res.Name))
		}
	}
	if *only == "" {
		if err := suite.Write(*table, head, version, tests, *against, all, known); err != nil {
			fatal(err)
		}
	}
	fmt.Println(suite.Summary(all, time.Since(began)))
	if !good {
		os.Exit(1)
	}
}

// runner runs tests against one program. Its fields are set before the first call.
type runner struct{ suites, program, logs string }

func (r *runner) log(test string) string { return filepath.Join(r.logs, test+".log") }

// run runs the wanted tests, all at a time. An error is about the machine, not the tests.
func (r *runner) run(wanted *regexp.Regexp) (all []suite.Result, err error) {
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards all and err
	for _, name := range tests {
		if !wanted.MatchString(name) {
			continue
		}
		wg.Go(func() {
			res, oneErr := r.one(name)
			mu.Lock()
			defer mu.Unlock()
			if all = append(all, res); oneErr != nil {
				err = oneErr
			}
		})
	}
	wg.Wait()
	return all, err
}

// verdicts is how a Go test says how a test went.
var verdicts = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+) `)

// one runs a test in a tree of its own: the tests look for programs in ../../bin, and leave their databases in TMPDIR.
func (r *runner) one(name string) (res suite.Result, err error) {
	res = suite.Result{Name: name, Verdict: suite.Failed}
	top, err := os.MkdirTemp("", "litestreamsuite")
	if err != nil {
		return res, err
	}
	defer os.RemoveAll(top) // what is left of it lies in the system's directory for such things
	dir, temp := filepath.Join(top, "tests", "integration"), filepath.Join(top, "tmp")
	for _, d := range []string{dir, temp, filepath.Join(top, "bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return res, err
		}
	}
	for link, to := range map[string]string{"litestream": r.program, "litestream-test": filepath.Join(r.suites, "litestream", "litestream-test")} {
		to, err := filepath.Abs(to)
		if err != nil {
			return res, err
		}
		if _, err := os.Stat(to); err != nil {
			return res, fmt.Errorf("%w; scripts/litestreamsuite.sh and `make build` make it", err)
		}
		if err := os.Symlink(to, filepath.Join(top, "bin", link)); err != nil {
			return res, err
		}
	}
	log, err := os.Create(r.log(name))
	if err != nil {
		return res, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	suiteProgram, err := filepath.Abs(filepath.Join(r.suites, "litestream", "integration.test"))
	if err != nil {
		return res, err
	}
	cmd := exec.CommandContext(ctx, suiteProgram, "-test.v", "-test.count=1", "-test.run", "^"+name+"$")
	cmd.Dir = dir
	for _, e := range os.Environ() { // Litestream's S3 client stumbles over a bundle of certificates
		if !strings.HasPrefix(e, "AWS_CA_BUNDLE=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	failed := cmd.Run()
	res.Took = time.Since(began)
	text, err := os.ReadFile(r.log(name))
	if err != nil {
		return res, err
	}
	for _, m := range verdicts.FindAllStringSubmatch(string(text), -1) {
		if m[2] == name && failed == nil {
			res.Verdict = map[string]string{"PASS": suite.Passed, "FAIL": suite.Failed, "SKIP": suite.Skipped}[m[1]]
		}
	}
	return res, nil
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "litestreamsuite:", err)
	os.Exit(1)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/conformance/suite"
)

const (
	// all tests take 3 s with DTM; one alone half a second.
	patience      = 2 * time.Minute
	patienceAlone = 15 * time.Second
)

// campaign is one run over the suite. It belongs to one goroutine.
type campaign struct {
	against, suites string
	known           suite.Known
	servers         *servers
}

// log is the file with the output of a run of one test alone, or of all.
func (c *campaign) log(name string) string {
	return filepath.Join(c.suites, "logs-dtm-"+c.against, name+".log")
}

const together = "together"

// run runs the wanted tests and returns the names of all there are.
func (c *campaign) run(wanted *regexp.Regexp) (names []string, all []suite.Result, err error) {
	if err := os.MkdirAll(filepath.Dir(c.log("")), 0o755); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "dtmsuite")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	if c.servers, err = newServers(dir, filepath.Join(c.suites, "dtm-mongo", "bin", "nx-27017")); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, c.servers.close()) }()
	if names, err = c.list(); err != nil {
		return nil, nil, err
	}
	var todo, alone []string
	for _, name := range names {
		switch {
		case !wanted.MatchString(name):
		case c.known.Failing[name] != "": // it would leave transactions behind that the others trip over
			alone = append(alone, name)
		default:
			todo = append(todo, name)
		}
	}
	did, err := c.test(together, todo, patience)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range did {
		if r.Verdict == suite.Failed {
			alone = append(alone, r.Name)
		} else {
			all = append(all, r)
		}
	}
	for _, name := range alone {
		did, err := c.test(name, []string{name}, patienceAlone)
		if err != nil {
			return nil, nil, err
		}
		did[0].Again = c.known.Failing[name] == ""
		fmt.Printf("%-8s %s\n", did[0].Verdict, name)
		if why := c.known.Failing[name]; why != "" {
			fmt.Printf("         known: %s\n", why)
		}
		all = append(all, did[0])
	}
	return names, all, nil
}

// declared is how a test begins in its source.
var declared = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// list is the suite's tests in its own order, read from its source: the program itself wants all servers before it says what it has.
func (c *campaign) list() (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(c.suites, "dtm-"+c.against, "test", "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no tests; scripts/dtmsuite.sh copies them")
	}
	return names, nil
}

func (c *campaign) command(ctx context.Context, args ...string) *exec.Cmd {
	dir := filepath.Join(c.suites, "dtm-"+c.against, "test")
	program, err := filepath.Abs(filepath.Join(dir, "dtm.test"))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Err = dir, errors.Join(cmd.Err, err)
	return cmd
}

// test runs tests in one process after another until each has a verdict. A test that ends the process has failed, and the rest continues
// without it.
func (c *campaign) test(log string, names []string, patience time.Duration) (all []suite.Result, err error) {
	for len(names) > 0 {
		text, err := c.process(log, names, patience)
		if err != nil {
			return nil, err
		}
		did, last := verdicts(text)
		if len(did) == 0 && last == "" {
			return nil, fmt.Errorf("no test of %s ran; see %s", log, c.log(log))
		}
		if last != "" {
			did = append(did, suite.Result{Name: last, Verdict: suite.Failed})
		}
		all = append(all, did...)
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.ContainsFunc(did, func(r suite.Result) bool { return r.Name == name })
		})
		if len(names) > 0 {
			fmt.Printf("%s has ended the process; %d tests are left\n", last, len(names))
		}
	}
	return all, nil
}

// process runs tests in one process with a fresh server and always returns its output.
func (c *campaign) process(log string, names []string, patience time.Duration) (text string, err error) {
	if err := c.servers.fresh(); err != nil {
		return "", err
	}
	if c.against == "ours" {
		stop, err := c.servers.holdfast(filepath.Join(c.suites, "dtm-holdfast"), c.log(log+"-server"))
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := c.command(ctx, "-test.v", "-test.run", "^("+strings.Join(names, "|")+")$", "-test.timeout", (patience - time.Second).String())
	cmd.Env = append(os.Environ(), "TEST_STORE=mysql", controlVariable+"="+controlAt)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	return string(out), os.WriteFile(c.log(log), out, 0o644)
}

// line is what a test says as it begins and ends. Tests of tests are indented.
var line = regexp.MustCompile(`(?m)^(?:=== RUN +(Test\w+)|--- (PASS|FAIL|SKIP): (Test\w+) \(([0-9.]+s)\))$`)

// verdicts reads the outcome of each test; unfinished is the one that was running when the process ended, if one was.
func verdicts(text string) (all []suite.Result, unfinished string) {
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			unfinished = m[1]
			continue
		}
		took, err := time.ParseDuration(m[4])
		if err != nil {
			took = 0 // no verdict hangs on it
		}
		verdict := map[string]string{"PASS": suite.Passed, "FAIL": suite.Failed, "SKIP": suite.Skipped}[m[2]]
		all = append(all, suite.Result{Name: m[3], Verdict: verdict, Took: took})
		unfinished = ""
	}
	return all, unfinished
}

// Package suite runs the tests of a third party's compiled Go test binary, each in a process of its own. It judges the outcome by committed
// lists of known failures. It starts no server: the tests do, with the programs in a directory they are pointed at. It does not build
// anything: scripts do.
package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Result is what came of one test.
type Result struct {
	Name    string
	Verdict string // Passed, Skipped, Failed
	Took    time.Duration
	Again   bool // it failed beside others and had a second run alone
}

// The verdicts, as the tables show them.
const (
	Passed  = "passed"
	Skipped = "skipped"
	Failed  = "FAILED"
)

// Runner runs single tests. Its fields are set before the first call; its methods are safe to call from several goroutines.
type Runner struct {
	Program  string // the test binary, in its package's directory
	Bin      string // the programs under test
	Logs     string // where each test's output goes
	Patience time.Duration
	Apart    bool // each test gets a network and process ids of its own, see CanApart
}

// Log names the file with the test's output.
func (r *Runner) Log(name string) string { return filepath.Join(r.Logs, name+".log") }

// command is the suite with the arguments. The servers it starts are its children and grandchildren; all of them are ended with
// it, so that a test which hangs holds no port.
func (r *Runner) command(ctx context.Context, dir string, args ...string) (*exec.Cmd, error) {
	bin, err := filepath.Abs(r.Bin)
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs(r.Program)
	if err != nil {
		return nil, err
	}
	args = append([]string{program, "--bin-dir", bin}, args...)
	if dir == "" {
		dir = filepath.Dir(program)
	}
	if r.Apart {
		return apart(ctx, dir, args)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	ownGroup(cmd)
	return cmd, nil
}

// List returns the suite's tests in its own order.
func (r *Runner) List(ctx context.Context) ([]string, error) {
	cmd, err := r.command(ctx, "", "-test.list", ".")
	if err != nil {
		return nil, err
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w; its script in scripts/ builds it", r.Program, err)
	}
	return strings.Fields(string(out)), nil
}

// Run runs one test and keeps what it printed. An error is about the machine, not the test.
func (r *Runner) Run(ctx context.Context, name string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	res := Result{Name: name, Verdict: Failed}
	if err := os.MkdirAll(r.Logs, 0o755); err != nil {
		return res, err
	}
	log, err := os.Create(r.Log(name))
	if err != nil {
		return res, err
	}
	defer log.Close()
	dir, err := r.place(name)
	if err != nil {
		return res, err
	}
	defer os.RemoveAll(filepath.Dir(filepath.Dir(dir))) // what stays is removed by the next run
	cmd, err := r.command(ctx, dir, "-test.v", "-test.count=1", "-test.run", "^"+name+"$")
	if err != nil {
		return res, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	err = cmd.Run()
	res.Took = time.Since(began)
	text, readErr := os.ReadFile(r.Log(name))
	if readErr == nil && (err == nil || ctx.Err() == nil && strings.Contains(string(text), leftRunning)) {
		res.Verdict = verdict(string(text), name)
	}
	return res, nil
}

// place makes the directory that one test runs in, LOGS/NAME/TREE/PACKAGE, with links to all else in and beside the tree.
func (r *Runner) place(name string) (string, error) {
	program, err := filepath.Abs(r.Program)
	if err != nil {
		return "", err
	}
	from := filepath.Dir(filepath.Dir(program))
	top, err := filepath.Abs(filepath.Join(r.Logs, name))
	if err != nil {
		return "", err
	}
	tree := filepath.Join(top, filepath.Base(from))
	dir := filepath.Join(tree, filepath.Base(filepath.Dir(program)))
	if err := os.RemoveAll(top); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for source, target := range map[string]string{from: tree, filepath.Dir(from): top} {
		names, err := os.ReadDir(source)
		if err != nil {
			return "", err
		}
		for _, e := range names {
			if _, err := os.Lstat(filepath.Join(target, e.Name())); err == nil {
				continue
			}
			if err := os.Symlink(filepath.Join(source, e.Name()), filepath.Join(target, e.Name())); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

// leftRunning is what the suite's own main says after good tests that left goroutines of the test program running, and then
// ends with an error. In a run of all tests it looks once, at the end; here it would blame the server for the test.
const leftRunning = "\nPASS\nUnexpected goroutines running after all test(s)."

// verdict reads what a run says of its test. The line must be there: a run without it ran nothing.
func verdict(log, name string) string {
	for line := range strings.Lines(log) {
		switch {
		case strings.HasPrefix(line, "--- PASS: "+name+" "):
			return Passed
		case strings.HasPrefix(line, "--- SKIP: "+name+" "):
			return Skipped
		}
	}
	return Failed
}

// Known is what the committed lists say of a suite's tests, by name.
type Known struct {
	Failing map[string]string // why it fails
	Skipped map[string]string // why it skips itself with any server
}

// News describes how a result differs from the lists, "" if it does not. A test that should run and skips itself differs, because it looks
// green and is not. So does a listed failure that passes, because the list would hide its return.
func (k Known) News(r Result) string {
	switch {
	case r.Verdict == Failed && k.Failing[r.Name] == "":
		return "it is not among the known failures"
	case r.Verdict == Skipped && k.Skipped[r.Name] == "":
		return "it skipped itself and is not listed for that"
	case r.Verdict == Passed && k.Failing[r.Name] != "":
		return "it passes: take it off the list of known failures"
	case r.Verdict == Passed && k.Skipped[r.Name] != "":
		return "it ran and passed: take it off the list of skipped tests"
	}
	return ""
}

// Strangers returns the names in the lists that the suite does not have.
func (k Known) Strangers(names []string) []string {
	var out []string
	for _, list := range []map[string]string{k.Failing, k.Skipped} {
		for name := range list {
			if !slices.Contains(names, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

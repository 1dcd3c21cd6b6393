package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner compiles mutants and runs their tests. Its build output lies in a temporary directory; the tree is only read.
type runner struct {
	root string
	jobs int
	told func(verdict) // called with each verdict, never two at a time; nil: no calls

	dir string
	mu  sync.Mutex // held while told runs
}

// verdict is what became of a mutant.
type verdict struct {
	m    *mutant
	kind string
	text string // the message, the first line of a failure or the end of an output
	took time.Duration
}

// Kinds of verdicts. All but the first are red.
const (
	caught       = "caught"
	survived     = "SURVIVED"       // the test passes with the defect in
	hung         = "HUNG"           // it ran into the limit, and the list does not say that this is how it notices
	notCompiled  = "DOES NOT BUILD" // an error of the compiler does not count: such a defect could not be committed
	notApplied   = "DOES NOT APPLY" // the code has moved: the list must follow
	baselineFail = "TEST FAILS"     // it fails, is skipped or is not there on the tree as it is
)

func (v verdict) String() string {
	line := fmt.Sprintf("%-14s %6.1f s  %-38s %s", v.kind, v.took.Seconds(), v.m.name, v.m.test)
	if v.kind != caught && v.text != "" {
		line += "\n    " + strings.ReplaceAll(strings.TrimSpace(v.text), "\n", "\n    ")
	}
	return line
}

// run runs every test on the tree as it is, and then each mutant's with the mutant. The verdicts come in the list's order.
func (r *runner) run(ctx context.Context, all []*mutant) (verdicts []verdict, err error) {
	if r.dir, err = os.MkdirTemp("", "mutants-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	verdicts = make([]verdict, len(all))
	sound := r.baseline(ctx, all)
	r.each(len(all), func(i int) {
		m := all[i]
		began := time.Now()
		v := verdict{m: m}
		if why := sound[m.test]; why != "" {
			v.kind, v.text = baselineFail, why
		} else {
			v.kind, v.text = r.try(ctx, m)
		}
		v.took = time.Since(began)
		verdicts[i] = v
		if r.told != nil && ctx.Err() == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told(v)
		}
	})
	return verdicts, ctx.Err()
}

// each calls do with 0 to n-1, on as many goroutines as there are jobs.
func (r *runner) each(n int, do func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range r.jobs {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// baseline runs the named tests on the unchanged tree and returns each one's failure, "" if it passes: a test that fails anyway catches
// nothing.
func (r *runner) baseline(ctx context.Context, all []*mutant) map[testRef]string {
	byPkg := map[string][]testRef{}
	var pkgs []string
	for _, m := range all {
		if !slices.Contains(byPkg[m.test.pkg], m.test) {
			byPkg[m.test.pkg] = append(byPkg[m.test.pkg], m.test)
		}
		if !slices.Contains(pkgs, m.test.pkg) {
			pkgs = append(pkgs, m.test.pkg)
		}
	}
	why := map[testRef]string{}
	var mu sync.Mutex
	r.each(len(pkgs), func(i int) {
		dir := filepath.Join(r.dir, fmt.Sprintf("tree-%d", i))
		b, err := r.build(ctx, dir, pkgs[i], nil)
		for _, t := range byPkg[pkgs[i]] {
			text := ""
			if err != nil {
				text = err.Error()
			} else if got := r.test(ctx, b, t); got.end != passed {
				text = fmt.Sprintf("%s on the tree as it is:\n%s", got.end, got.text)
			}
			mu.Lock()
			why[t] = text
			mu.Unlock()
		}
		_ = os.RemoveAll(dir) // run removes all of it
	})
	return why
}

// try builds and tests one mutant.
func (r *runner) try(ctx context.Context, m *mutant) (kind, text string) {
	files, err := m.apply(r.root)
	if err != nil {
		return notApplied, err.Error()
	}
	dir := filepath.Join(r.dir, strings.ReplaceAll(m.name, "/", "-"))
	defer os.RemoveAll(dir) // as in baseline
	b, err := r.build(ctx, dir, m.test.pkg, files)
	if err != nil {
		return notCompiled, err.Error()
	}
	switch got := r.test(ctx, b, m.test); {
	case got.end == failed, got.end == late && m.test.hangs:
		return caught, got.text
	case got.end == late:
		return hung, got.text
	case got.end == absent:
		return baselineFail, got.text
	default:
		return survived, m.why
	}
}

// built is a compiled test program.
type built struct {
	dir, pkg string
	program  string
	server   string // cmd/holdfast, for tests that start real processes
}

// build compiles the tests of a package, with some files of the tree replaced.
func (r *runner) build(ctx context.Context, dir, pkg string, files map[string]string) (*built, error) {
	b := &built{dir: dir, pkg: pkg, program: filepath.Join(dir, "test")}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return nil, err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range files {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
		overlay.Replace[filepath.Join(r.root, name)] = file
	}
	j, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	over := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(over, j, 0o644); err != nil {
		return nil, err
	}
	if err := r.compile(ctx, "test", "-c", "-overlay", over, "-o", b.program, "./"+pkg); err != nil {
		return nil, err
	}
	if strings.HasPrefix(pkg, "conformance/") {
		b.server = filepath.Join(dir, "holdfast")
		if err := r.compile(ctx, "build", "-overlay", over, "-o", b.server, "./cmd/holdfast"); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (r *runner) compile(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, last(string(out), 10))
	}
	return nil
}

// Ways in which a test run ends.
const (
	passed = "passed"
	failed = "fails"
	late   = "runs into its time limit"
	absent = "is skipped or not there"
)

type outcome struct{ end, text string }

// test runs one test.
func (r *runner) test(ctx context.Context, b *built, t testRef) outcome {
	var run []string
	for _, part := range strings.Split(t.name, "/") {
		run = append(run, "^"+regexp.QuoteMeta(part)+"$")
	}
	args := []string{"-test.v", "-test.failfast", "-test.parallel=8", "-test.run=" + strings.Join(run, "/"), "-test.timeout=" + t.limit().String()}
	if !t.long {
		args = append(args, "-test.short")
	}
	ctx, cancel := context.WithTimeout(ctx, t.limit()+20*time.Second) // a program so broken that its own limit does not end it
	defer cancel()
	cmd := exec.CommandContext(ctx, b.program, append(args, strings.Fields(t.args)...)...)
	cmd.Dir = filepath.Join(r.root, b.pkg)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(b.dir, "tmp"))
	if b.server != "" {
		cmd.Env = append(cmd.Env, "HOLDFAST_BIN="+b.server)
	}
	// Processes started by the test end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return judge(string(out), err, ctx.Err() != nil, t.name)
}

// judge reads a test's output. Only a run that says that the test itself passed counts as one.
func judge(out string, err error, cut bool, name string) outcome {
	var exit *exec.ExitError
	switch {
	case cut, strings.Contains(out, "panic: test timed out after "):
		return outcome{late, last(out, 3)}
	case err != nil && !errors.As(err, &exit):
		return outcome{absent, err.Error()}
	case err != nil:
		return outcome{failed, firstFailure(out)}
	case !strings.Contains(out, "--- PASS: "+name+" ("):
		return outcome{absent, last(out, 5)}
	}
	return outcome{passed, last(out, 3)}
}

var (
	failure = regexp.MustCompile(`(?m)^\s+[a-z0-9_]+_test\.go:\d+: (.*)$`)
	crash   = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*)$`)
)

// firstFailure is the line that describes the failure, as far as one can tell.
func firstFailure(out string) string {
	for _, form := range []*regexp.Regexp{crash, failure} {
		if all := form.FindAllStringSubmatch(out, -1); len(all) > 0 {
			return all[0][1]
		}
	}
	return last(out, 3)
}

// last returns the last n lines.
func last(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

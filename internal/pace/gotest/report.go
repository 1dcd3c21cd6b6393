package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/pace"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// report is the result of a run. One goroutine has it.
type report struct {
	module   string
	w        io.Writer
	packages []timed
	tests    []timed
	open     map[string]*strings.Builder // output of tests that have not passed, by package and name
	order    []string                    // keys of open as they began
}

type timed struct {
	name string
	took time.Duration
}

func newReport(module string, w io.Writer) *report {
	return &report{module: module, w: w, open: map[string]*strings.Builder{}}
}

// read takes the run's output until it ends and prints the parts that people must see.
func (r *report) read(out io.Reader) error {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(r.w, line) // of something below go test
			} else {
				r.take(&e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read go test's output: %w", err)
		}
	}
}

func (r *report) take(e *event) {
	key := e.Package + " " + e.Test
	took := timed{strings.TrimPrefix(strings.TrimPrefix(e.Package, r.module), "/"), time.Duration(e.Elapsed * float64(time.Second))}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.w, e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" && !strings.HasSuffix(e.Output, "[no test files]\n") {
			fmt.Fprint(r.w, e.Output)
		}
	case e.Action == "output":
		b := r.open[key]
		if b == nil {
			b = new(strings.Builder)
			r.open[key] = b
			r.order = append(r.order, key)
		}
		b.WriteString(e.Output)
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail"):
		r.packages = append(r.packages, took)
		r.forget(e.Package, e.Action == "fail")
	case e.Action == "pass" || e.Action == "skip" || e.Action == "fail":
		if e.Action != "fail" {
			delete(r.open, key)
		}
		if !strings.Contains(e.Test, "/") {
			r.tests = append(r.tests, timed{took.name + "." + e.Test, took.took})
		}
	}
}

// forget drops the output of a package's tests. If the package failed it first prints that of the failed tests, and of those without an
// end.
func (r *report) forget(of string, failed bool) {
	r.order = slices.DeleteFunc(r.order, func(key string) bool {
		if !strings.HasPrefix(key, of+" ") {
			return false
		}
		if b := r.open[key]; b != nil && failed {
			fmt.Fprint(r.w, b.String())
		}
		delete(r.open, key)
		return true
	})
}

// slowest prints the n tests that took the longest.
func (r *report) slowest(n int) {
	slices.SortStableFunc(r.tests, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	if len(r.tests) == 0 {
		return
	}
	fmt.Fprintln(r.w, "the slowest tests:")
	for _, t := range r.tests[:min(n, len(r.tests))] {
		fmt.Fprintf(r.w, "  %6.1f s  %s\n", t.took.Seconds(), t.name)
	}
}

// judge prints which packages took too long and reports whether one did.
func (r *report) judge(allowed *pace.Allowed) (late bool) {
	for _, p := range r.packages {
		if err := allowed.Judge(p.name, p.took); err != nil {
			fmt.Fprintln(r.w, "slow:", err)
			late = true
		}
	}
	return late
}

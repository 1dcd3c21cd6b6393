package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

const resultsHead = `# Kubernetes' API server on three members

Written by ` + "`make conformance DOOR=kv`" + ` (conformance/kube): kube-apiserver 1.37.2, unmodified, over three members whose leader is killed with
SIGKILL while objects are created, and started again. Half of the objects are config maps, whose watch the API server answers from
its cache; half are secrets, whose watch is one of the kv door's.

`

// outcome is one step of a run.
type outcome struct {
	name, note string
	passed     bool
	took       time.Duration
}

// report is the steps so far.
type report struct{ done []outcome }

// step runs one and prints what it came to.
func (r *report) step(name string, do func() (string, error)) {
	began := time.Now()
	note, err := do()
	o := outcome{name: name, note: note, passed: err == nil, took: time.Since(began)}
	verdict := "passed"
	if err != nil {
		o.note, verdict = err.Error(), "FAILED"
	}
	r.done = append(r.done, o)
	fmt.Printf("%-44s %s in %.0f s: %s\n", name, verdict, o.took.Seconds(), o.note)
}

// count counts the steps that passed, or that did not.
func (r *report) count(passed bool) int {
	n := 0
	for _, o := range r.done {
		if o.passed == passed {
			n++
		}
	}
	return n
}

// write writes the table of a whole run.
func (r *report) write(name string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%d passed, %d failed.\n\n| step | result | what it came to | time |\n|---|---|---|--:|\n", resultsHead, r.count(true), r.count(false))
	for _, o := range r.done {
		verdict := "passed"
		if !o.passed {
			verdict = "FAILED"
		}
		note := strings.ReplaceAll(strings.Join(strings.Fields(o.note), " "), "|", "/")
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f s |\n", o.name, verdict, note, o.took.Seconds())
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

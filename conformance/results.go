package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

// printSummary reports whether only known failures are left.
func printSummary(w io.Writer, all []result, known map[string]string, took time.Duration) bool {
	passed, failed, unknown := 0, 0, 0
	for _, r := range all {
		why, listed := known[r.name]
		switch {
		case r.err == nil && listed:
			passed++
			fmt.Fprintf(w, "%s passes now; take it off known_failures.txt\n", r.name)
		case r.err == nil:
			passed++
		case listed:
			failed++
			fmt.Fprintf(w, "%s is known to fail: %s\n", r.name, why)
		default:
			failed++
			unknown++
		}
	}
	fmt.Fprintf(w, "%d cases in %s\n%d passed, %d failed\n", len(all), took.Round(time.Second), passed, failed)
	return unknown == 0
}

const resultsHead = `# Conformance of the kv door

Written by ` + "`make conformance`" + `. Every case runs unmodified etcdctl against Holdfast and, unless it judges itself, against etcd
3.7.3, and compares what is printed (ids, addresses and durations masked; revisions relative). A run of some cases replaces
their lines only.

`

// writeResults writes the table, keeping the rows of cases that this run left out and dropping those of cases that are gone.
func writeResults(file string, all []result, known map[string]string, tools []string) error {
	headings := []results.Heading{{Text: "nodes", Right: true}, {Text: "case"}}
	for _, t := range tools {
		headings = append(headings, results.Heading{Text: t})
	}
	t := results.NewTable(2, headings...)
	if _, err := t.Load(file); err != nil {
		return err
	}
	place := func(name string) int { return slices.IndexFunc(cases, func(c testCase) bool { return c.name == name }) }
	t.Keep(func(row []string) bool { return place(row[1]) >= 0 })
	for _, r := range all {
		p := strings.SplitN(r.name, "/", 4) // kv/nodes/tool/case
		t.Set(2+slices.Index(tools, p[2]), results.Verdict(r.err == nil, known[r.name]), p[1], p[3])
	}
	t.Sort(func(a, b []string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), cmp.Compare(place(a[1]), place(b[1])))
	})
	passed, failed := 0, 0
	for i := range tools {
		passed += t.Count(2+i, func(cell string) bool { return cell == "passed" })
		failed += t.Count(2+i, func(cell string) bool { return cell != "passed" && cell != "" })
	}
	return os.WriteFile(file, fmt.Appendf(nil, "%s%d passed, %d failed.\n\n%s", resultsHead, passed, failed, t), 0o644)
}

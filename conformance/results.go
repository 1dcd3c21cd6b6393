package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// parseKnown reads known_failures.txt: "NAME: why", one a line; # begins a comment.
func parseKnown(text string) map[string]string {
	known := make(map[string]string)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			name, why, _ := strings.Cut(line, ": ")
			known[name] = why
		}
	}
	return known
}

// printSummary tells whether nothing failed that is not known to.
func printSummary(w io.Writer, results []result, known map[string]string, took time.Duration) bool {
	passed, failed, unknown := 0, 0, 0
	for _, r := range results {
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
	fmt.Fprintf(w, "%d cases in %s\n%d passed, %d failed\n", len(results), took.Round(time.Second), passed, failed)
	return unknown == 0
}

// writeResults writes the table of a full run.
func writeResults(name string, results []result, known map[string]string) error {
	var b strings.Builder
	b.WriteString("# Conformance of the kv door\n\n" +
		"Written by `make conformance`. Every case runs unmodified etcdctl against Holdfast and, unless it judges itself,\n" +
		"against etcd 3.7.3, and compares what is printed (ids, addresses, durations masked; revisions relative).\n\n")
	type key struct{ nodes, name string }
	var order []key
	cells := make(map[key]map[string]string)
	var tools []string
	passed := 0
	for _, r := range results {
		p := strings.SplitN(r.name, "/", 4)
		k, tool := key{p[1], p[3]}, p[2]
		if cells[k] == nil {
			cells[k] = make(map[string]string)
			order = append(order, k)
		}
		mark := "passed"
		if r.err != nil {
			mark = "FAILED"
			if why, ok := known[r.name]; ok {
				mark = "fails: " + why
			}
		} else {
			passed++
		}
		cells[k][tool] = mark
		if !strings.Contains(strings.Join(tools, " ")+" ", tool+" ") {
			tools = append(tools, tool)
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed.\n\n| nodes | case | %s |\n|--:|---|%s\n", passed, len(results)-passed, strings.Join(tools, " | "),
		strings.Repeat("---|", len(tools)))
	for _, k := range order {
		fmt.Fprintf(&b, "| %s | %s |", k.nodes, k.name)
		for _, t := range tools {
			mark := cells[k][t]
			if mark == "" {
				mark = "–"
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		b.WriteString("\n")
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

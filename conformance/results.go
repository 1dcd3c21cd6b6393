package main

import (
	"fmt"
	"io"
	"os"
	"slices"
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

// printSummary reports whether only known failures are left.
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

// line is one row of RESULTS.md: what each tool came to in one case on one cluster size.
type line struct {
	nodes, name string
	marks       map[string]string // tool → passed, FAILED, or why it is known to fail
}

const resultsHead = `# Conformance of the kv door

Written by ` + "`make conformance`" + `. Every case runs unmodified etcdctl against Holdfast and, unless it judges itself, against etcd
3.7.3, and compares what is printed (ids, addresses and durations masked; revisions relative). A run of some cases replaces
their lines only.

`

// writeResults writes the table, keeping the lines of cases that this run left out.
func writeResults(name string, results []result, known map[string]string, tools []string) error {
	old, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := readLines(string(old), tools)
	for _, r := range results {
		p := strings.SplitN(r.name, "/", 4) // kv/nodes/tool/case
		mark := "passed"
		if why, ok := known[r.name]; r.err != nil && ok {
			mark = "fails: " + why
		} else if r.err != nil {
			mark = "FAILED"
		}
		i := slices.IndexFunc(lines, func(l line) bool { return l.nodes == p[1] && l.name == p[3] })
		if i < 0 {
			lines = append(lines, line{p[1], p[3], make(map[string]string)})
			i = len(lines) - 1
		}
		lines[i].marks[p[2]] = mark
	}
	place := func(name string) int { return slices.IndexFunc(cases, func(c testCase) bool { return c.name == name }) }
	slices.SortStableFunc(lines, func(a, b line) int {
		if a.nodes != b.nodes {
			return strings.Compare(a.nodes, b.nodes)
		}
		return place(a.name) - place(b.name)
	})

	var table strings.Builder
	passed, failed := 0, 0
	fmt.Fprintf(&table, "| nodes | case | %s |\n|--:|---|%s\n", strings.Join(tools, " | "), strings.Repeat("---|", len(tools)))
	for _, l := range lines {
		fmt.Fprintf(&table, "| %s | %s |", l.nodes, l.name)
		for _, t := range tools {
			switch mark := l.marks[t]; mark {
			case "":
				table.WriteString(" – |")
			default:
				if mark == "passed" {
					passed++
				} else {
					failed++
				}
				fmt.Fprintf(&table, " %s |", mark)
			}
		}
		table.WriteString("\n")
	}
	return os.WriteFile(name, fmt.Appendf(nil, "%s%d passed, %d failed.\n\n%s", resultsHead, passed, failed, table.String()), 0o644)
}

// readLines reads the table of an earlier run; lines of cases that are gone are dropped.
func readLines(old string, tools []string) []line {
	var lines []line
	for text := range strings.Lines(old) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(text), "|"), "|")
		if len(cells) != 2+len(tools) {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !slices.ContainsFunc(cases, func(c testCase) bool { return c.name == cells[1] }) {
			continue
		}
		l := line{cells[0], cells[1], make(map[string]string)}
		for i, t := range tools {
			if cells[2+i] != "–" {
				l.marks[t] = cells[2+i]
			}
		}
		lines = append(lines, l)
	}
	return lines
}

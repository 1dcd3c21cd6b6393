package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// parseKnown reads "SUITE/TEST: why", one a line; # begins a comment.
func parseKnown(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			name, why, _ := strings.Cut(line, ": ")
			out[name] = why
		}
	}
	return out
}

// judge counts passes and returns the failures that are not in the list.
func (s *suite) judge(outcomes []outcome, known map[string]string) (passed int, news []string) {
	for _, o := range outcomes {
		why := known[s.name+"/"+o.test]
		switch {
		case o.passed:
			passed++
			if why != "" {
				fmt.Printf("  %s passes now; take it off known_failures.txt\n", o.test)
			}
		case why == "":
			news = append(news, "FAILED "+o.test)
		}
	}
	if passed < s.want && len(news) == 0 {
		news = append(news, fmt.Sprintf("only %d of the %d that should pass did run", passed, s.want))
	}
	return passed, news
}

const resultsHead = `# Client libraries' own suites

Written by ` + "`make conformance DOOR=kv`" + ` (conformance/clientsuite): python-etcd 0.4.5 (the v2 API; the original is etcd 3.4) and the Rust
crate etcd-client 0.21.1 (the original is etcd 3.7.3), unchanged. A run of one suite replaces its cells only.

`

// row is one test; cells by what it ran against.
type row struct {
	name  string
	cells map[string]string
}

// writeResults writes the table, keeping the cells this run says nothing about.
func writeResults(file, suite, against string, outcomes []outcome, known map[string]string) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	rows := readResults(string(old))
	for _, o := range outcomes {
		name := suite + "/" + o.test
		cell := "passed"
		if why := known[name]; !o.passed && why != "" && against == "ours" {
			cell = "fails: " + why
		} else if !o.passed {
			cell = "FAILED"
		}
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			rows = append(rows, row{name, map[string]string{}})
			i = len(rows) - 1
		}
		rows[i].cells[against] = cell
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	count := map[string]int{}
	var table strings.Builder
	table.WriteString("| test | original | Holdfast |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&table, "| %s |", r.name)
		for _, c := range []string{"original", "ours"} {
			cell := r.cells[c]
			if cell == "" {
				cell = "–"
			}
			if cell == "passed" {
				count[c]++
			}
			fmt.Fprintf(&table, " %s |", cell)
		}
		table.WriteString("\n")
	}
	return os.WriteFile(file, fmt.Appendf(nil, "%sPassed of %d: %d by the original, %d by Holdfast.\n\n%s", resultsHead, len(rows),
		count["original"], count["ours"], table.String()), 0o644)
}

// readResults reads the table of an earlier run.
func readResults(old string) (rows []row) {
	for line := range strings.Lines(old) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 3 || !strings.Contains(cells[0], "/") {
			continue
		}
		r := row{strings.TrimSpace(cells[0]), map[string]string{}}
		for i, c := range []string{"original", "ours"} {
			if v := strings.TrimSpace(cells[1+i]); v != "–" {
				r.cells[c] = v
			}
		}
		rows = append(rows, r)
	}
	return rows
}

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const resultsHead = `# etcd's own suite

Written by ` + "`make conformance DOOR=kv`" + ` (conformance/etcdsuite). etcd's tests/common at v3.7.3, unchanged, with the original etcdctl: one
member plain, three with TLS, three with certificates they made themselves, as each test asks for. Left the original server,
right this one under the name etcd. A run of some tests replaces their cells only.

`

// summary counts.
func summary(all []result, took time.Duration) string {
	n := map[string]int{}
	for _, r := range all {
		n[r.verdict]++
	}
	return fmt.Sprintf("%d tests in %s\n%d passed, %d skipped, %d failed", len(all), took.Round(time.Second), n["passed"], n["skipped"], n["FAILED"])
}

// columns of the table after the test's name.
var columns = []string{"original", "ours"}

// writeResults writes the table of all tests of the suite, keeping the cells this run says nothing about.
func writeResults(file string, names []string, against string, all []result, known map[string]string) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	cells := readResults(string(old))
	for _, r := range all {
		cell := r.verdict
		switch {
		case cell == "FAILED" && against == "ours" && known[r.name] != "":
			cell = "fails: " + known[r.name]
		case cell != "FAILED":
			cell += fmt.Sprintf(" (%.0f s)", r.took.Seconds())
		}
		if cells[r.name] == nil {
			cells[r.name] = map[string]string{}
		}
		cells[r.name][against] = cell
	}
	count := map[string]int{}
	var table strings.Builder
	table.WriteString("| test | etcd 3.7.3 | Holdfast |\n|---|---|---|\n")
	for _, name := range slices.Sorted(slices.Values(names)) {
		fmt.Fprintf(&table, "| %s |", name)
		for _, c := range columns {
			cell := cells[name][c]
			if cell == "" {
				cell = "–"
			}
			if strings.HasPrefix(cell, "passed") {
				count[c]++
			}
			fmt.Fprintf(&table, " %s |", cell)
		}
		table.WriteString("\n")
	}
	text := fmt.Sprintf("%sPassed of %d: %d by etcd 3.7.3, %d by Holdfast.\n\n%s", resultsHead, len(names), count["original"], count["ours"], table.String())
	return os.WriteFile(file, []byte(text), 0o644)
}

// readResults reads the table of an earlier run.
func readResults(old string) map[string]map[string]string {
	out := map[string]map[string]string{}
	for line := range strings.Lines(old) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 1+len(columns) || !strings.HasPrefix(strings.TrimSpace(cells[0]), "Test") {
			continue
		}
		row := map[string]string{}
		for i, c := range columns {
			if v := strings.TrimSpace(cells[1+i]); v != "–" {
				row[c] = v
			}
		}
		out[strings.TrimSpace(cells[0])] = row
	}
	return out
}

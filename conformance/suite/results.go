package suite

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Summary counts.
func Summary(all []Result, took time.Duration) string {
	n := map[string]int{}
	for _, r := range all {
		n[r.Verdict]++
	}
	return fmt.Sprintf("%d tests in %s\n%d passed, %d skipped, %d failed", len(all), took.Round(time.Second), n[Passed], n[Skipped], n[Failed])
}

// columns of the table after the test's name.
var columns = []string{"original", "ours"}

// Write writes the table of the named tests under the head, keeping the cells that this run of one side, "original" or "ours",
// says nothing about.
func Write(file, head string, names []string, against string, all []Result, known Known) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	cells := readResults(string(old))
	for _, r := range all {
		cell := r.Verdict
		switch {
		case cell == Failed && against == "ours" && known.Failing[r.Name] != "":
			cell = "fails: " + known.Failing[r.Name]
		case cell != Failed:
			cell += fmt.Sprintf(" (%.0f s", r.Took.Seconds())
			if r.Again {
				cell += ", alone, after a failure beside others"
			}
			cell += ")"
		}
		if cells[r.Name] == nil {
			cells[r.Name] = map[string]string{}
		}
		cells[r.Name][against] = cell
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
	text := fmt.Sprintf("%sPassed of %d: %d by etcd 3.7.3, %d by Holdfast.\n\n%s", head, len(names), count["original"], count["ours"], table.String())
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

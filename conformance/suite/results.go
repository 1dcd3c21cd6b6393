package suite

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

// Summary counts.
func Summary(all []Result, took time.Duration) string {
	n := map[string]int{}
	for _, r := range all {
		n[r.Verdict]++
	}
	return fmt.Sprintf("%d tests in %s\n%d passed, %d skipped, %d failed", len(all), took.Round(time.Second), n[Passed], n[Skipped], n[Failed])
}

// sides are the columns of the table, by the tested server.
var sides = []string{"original", "ours"}

// Write writes the table of the named tests under the head. against is the side of this run, "original" or "ours". Cells without a result
// in this run are kept. It calls the original by its name.
func Write(file, head, original string, names []string, against string, all []Result, known Known) error {
	t := results.NewTable(1, results.Heading{Text: "test"}, results.Heading{Text: original}, results.Heading{Text: "Holdfast"})
	if _, err := t.Load(file); err != nil {
		return err
	}
	column := 1 + slices.Index(sides, against)
	for _, r := range all {
		t.Set(column, r.cell(against, known), r.Name)
	}
	for _, name := range names { // a test that no run has tried has a row too
		t.Set(0, name, name)
	}
	t.Keep(func(row []string) bool { return slices.Contains(names, row[0]) })
	t.Sort(func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	passed := func(cell string) bool { return strings.HasPrefix(cell, Passed) }
	text := fmt.Sprintf("%sPassed of %d: %d by %s, %d by Holdfast.\n\n%s", head, len(names), t.Count(1, passed), original, t.Count(2, passed), t)
	return os.WriteFile(file, []byte(text), 0o644)
}

// cell is what the table says of a result.
func (r Result) cell(against string, known Known) string {
	if r.Verdict == Failed {
		why := ""
		if against == "ours" { // what is known is known of ours
			why = known.Failing[r.Name]
		}
		return results.Verdict(false, why)
	}
	again := ""
	if r.Again {
		again = ", alone, after a failure beside others"
	}
	return fmt.Sprintf("%s (%.0f s%s)", r.Verdict, r.Took.Seconds(), again)
}

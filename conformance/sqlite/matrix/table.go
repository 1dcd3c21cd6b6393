package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

const head = `# SQLite databases in every set-up that there is

Written by ` + "`make conformance DOOR=sqlite`" + ` (conformance/sqlite/matrix): an application inserts %d rows, the store changes, it inserts %d more; then everything is
restored from the store, well again. A cell holds if every row whose insert returned under archive with the extension is there (where the store was swapped:
or is named by the agent), and if otherwise each is there, or the agent's last line says NOT STORED and its status is not 0.

`

// write writes the table: a row for each way to start an agent and each journal mode, a column for each store.
func write(file string, verdicts []verdict, absent []cell, took time.Duration) error {
	headings := []results.Heading{{Text: "set-up"}}
	for _, k := range kinds() {
		headings = append(headings, results.Heading{Text: k, Right: true})
	}
	t := results.NewTable(1, headings...)
	good, all := map[string]int{}, map[string]int{}
	var failed []string
	key := func(c cell) (row, column string) {
		return fmt.Sprintf("%s, ack %s, %s, %s", c.Agent, c.Ack, c.Load, c.Mode), string(c.Store)
	}
	for _, v := range verdicts {
		row, column := key(v.cell)
		all[row+column]++
		if v.err == nil {
			good[row+column]++
		} else {
			failed = append(failed, fmt.Sprintf("- %s: %s\n", v.cell, strings.Join(strings.Fields(v.err.Error()), " ")))
		}
		for i, k := range kinds() {
			if k == column {
				t.Set(i+1, fmt.Sprintf("%d of %d", good[row+column], all[row+column]), row)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, head, rows, rows)
	fmt.Fprintf(&b, "%d cells, %d do not hold; %s.\n\n%s", len(verdicts), len(failed), took.Round(time.Second), t)
	if len(failed) > 0 {
		fmt.Fprintf(&b, "\nWhat does not hold:\n\n%s", strings.Join(failed, ""))
	}
	b.WriteString("\nCombinations that do not exist:\n\n")
	reasons := map[string]int{}
	var order []string
	for _, c := range absent {
		why := fmt.Sprintf("%s, ack %s", c.Agent, c.Ack)
		if c.Agent == "litestream -exec" {
			why += ", " + c.Load
		}
		if why += ": " + c.absent(); c.Fresh && c.Ack == "local" {
			why = c.Agent + ", no file yet: " + c.absent()
		}
		if reasons[why] == 0 {
			order = append(order, why)
		}
		reasons[why]++
	}
	for _, why := range order {
		fmt.Fprintf(&b, "- %s (%d)\n", why, reasons[why])
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func kinds() (l []string) {
	seen := map[string]bool{}
	there, _ := all()
	for _, c := range there {
		if k := string(c.Store); !seen[k] {
			seen[k] = true
			l = append(l, k)
		}
	}
	return l
}

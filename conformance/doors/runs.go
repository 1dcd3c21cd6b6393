package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// row is the last full run of a door in which nothing failed.
type row struct{ door, commit, day string }

const runsHead = `# The last full run of each door

Written by ` + "`make conformance`" + ` when nothing fails: the commit that was checked. What has changed since decides which doors
` + "`make conformance QUICK=1`" + ` runs, so the line counts once it is committed.

| door | commit | day |
|---|---|---|
`

// parseRuns reads the table; what is no row of a door is passed over.
func parseRuns(text string) []row {
	var rows []row
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			continue
		}
		r := row{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])}
		if slices.ContainsFunc(doors, func(d door) bool { return d.name == r.door }) {
			rows = append(rows, r)
		}
	}
	return rows
}

// record replaces the row of one door.
func record(file string, r row) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	rows := parseRuns(string(old))
	if i := slices.IndexFunc(rows, func(o row) bool { return o.door == r.door }); i >= 0 {
		rows[i] = r
	} else {
		rows = append(rows, r)
	}
	b := []byte(runsHead)
	for _, r := range rows {
		b = fmt.Appendf(b, "| %s | %s | %s |\n", r.door, r.commit, r.day)
	}
	return os.WriteFile(file, b, 0o644)
}

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const resultsHead = `# Random v3 requests against etcd 3.7.3

Written by ` + "`make conformance`" + ` (conformance/v3diff): the same random scripts of gRPC requests to the original, one member, and to
Holdfast. Every field of every answer is compared, errors by code and text, watches by what each was told. A run of one size of
cluster replaces its lines only.

`

// row is the last long run on one size of cluster.
type row struct{ members, line, requests, known string }

// write puts this run into the table, keeping what it says nothing about.
func (t *tally) write(file string) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	rows := readRows(string(old))
	members := fmt.Sprint(t.members)
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.members == members })
	rows = append(rows, row{
		members: members,
		line: fmt.Sprintf("| %s | %d | %d | %d | %s | %d | %s |", members, t.scripts, t.same, t.total(), t.took.Round(time.Second), t.seed,
			time.Now().Format(time.DateOnly)),
		requests: counts(t.requests),
		known:    counts(t.known),
	})
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.members, b.members) })
	var b strings.Builder
	b.WriteString(resultsHead + "| members | scripts | same | requests | took | seed | day |\n|--:|--:|--:|--:|--:|--:|---|\n")
	for _, r := range rows {
		b.WriteString(r.line + "\n")
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "\nOn %s: %s.\nDocumented differences met on %s: %s.\n", r.members, r.requests, r.members, r.known)
	}
	b.WriteString("\n## What may differ\n\n")
	for _, d := range differences {
		fmt.Fprintf(&b, "- **%s**: %s.\n", d.name, d.why)
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// readRows reads the runs out of an earlier file.
func readRows(old string) (rows []row) {
	for line := range strings.Lines(old) {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, "|")
		if len(cells) == 9 && strings.Trim(cells[1], " -:") != "" && strings.TrimSpace(cells[1]) != "members" {
			rows = append(rows, row{members: strings.TrimSpace(cells[1]), line: line})
		}
		for i := range rows {
			if text, ok := strings.CutPrefix(line, "On "+rows[i].members+": "); ok {
				rows[i].requests = strings.TrimSuffix(text, ".")
			}
			if text, ok := strings.CutPrefix(line, "Documented differences met on "+rows[i].members+": "); ok {
				rows[i].known = strings.TrimSuffix(text, ".")
			}
		}
	}
	return rows
}

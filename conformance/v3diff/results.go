package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/holdfastdb/holdfast/internal/results"
)

const resultsHead = `# Random v3 requests against etcd 3.7.3

Written by ` + "`make conformance`" + ` (conformance/v3diff): the same random scripts of gRPC requests to the original, one member, and to
Holdfast. Every field of every answer is compared, errors by code and text, watches by what each was told. A run of one size of
cluster replaces its lines only.

`

// write puts this run into the table, keeping what it says nothing about.
func (t *tally) write(file string) error {
	run := results.Scripts{Seed: t.seed, Members: t.members, Scripts: t.scripts, Same: t.same, Requests: t.total(), Took: t.took}
	table, old, err := run.Table(file)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(resultsHead + table.String())
	for _, row := range table.Rows() {
		members := row[0]
		requests, known := earlier(old, requestsOn(members)), earlier(old, knownOn(members))
		if members == fmt.Sprint(t.members) {
			requests, known = counts(t.requests), counts(t.known)
		}
		fmt.Fprintf(&b, "\n%s%s.\n%s%s.\n", requestsOn(members), requests, knownOn(members), known)
	}
	b.WriteString("\n## What may differ\n\n")
	for _, d := range differences {
		fmt.Fprintf(&b, "- **%s**: %s.\n", d.name, d.why)
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func requestsOn(members string) string { return "On " + members + ": " }
func knownOn(members string) string    { return "Documented differences met on " + members + ": " }

// earlier is what an earlier run wrote on the line that begins so, without the full stop.
func earlier(text, begins string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), begins); ok {
			return strings.TrimSuffix(rest, ".")
		}
	}
	return ""
}

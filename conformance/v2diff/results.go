package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const resultsHead = `# Random v2 requests against etcd 3.4

Written by ` + "`make conformance`" + ` (conformance/v2diff): the same random scripts of HTTP requests to Debian's etcd with its v2 API and to
Holdfast, clusters of the same size. Status, headers and body are compared; ids and times are left out, indexes count from the
script's first, and listings that nobody asked to be sorted are sets. A run of one size of cluster replaces its line only.

| members | scripts | same | requests | took | seed | day |
|--:|--:|--:|--:|--:|--:|---|
`

// outcome is what a run saw.
type outcome struct {
	seed                             uint64
	members, scripts, same, requests int
	took                             time.Duration
}

// write puts the run into the table, keeping the lines of other sizes of cluster.
func (o *outcome) write(file string) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := []string{fmt.Sprintf("| %d | %d | %d | %d | %s | %d | %s |", o.members, o.scripts, o.same, o.requests, o.took.Round(time.Second), o.seed,
		time.Now().Format(time.DateOnly))}
	for line := range strings.Lines(string(old)) {
		var members int
		if n, _ := fmt.Sscanf(line, "| %d |", &members); n == 1 && members != o.members {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return os.WriteFile(file, []byte(resultsHead+strings.Join(lines, "\n")+"\n"), 0o644)
}

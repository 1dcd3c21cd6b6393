package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/internal/results"
)

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

// sides are the columns of the table, by what -against says.
var sides = []string{"original", "ours"}

// writeResults writes the table, keeping the cells this run says nothing about.
func writeResults(file, suite, against string, outcomes []outcome, known map[string]string) error {
	t := results.NewTable(1, results.Heading{Text: "test"}, results.Heading{Text: "original"}, results.Heading{Text: "Holdfast"})
	if _, err := t.Load(file); err != nil {
		return err
	}
	for _, o := range outcomes {
		name, why := suite+"/"+o.test, ""
		if against == "ours" { // what is known is known of ours
			why = known[name]
		}
		t.Set(1+slices.Index(sides, against), results.Verdict(o.passed, why), name)
	}
	t.Sort(func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	passed := func(cell string) bool { return cell == "passed" }
	return os.WriteFile(file, fmt.Appendf(nil, "%sPassed of %d: %d by the original, %d by Holdfast.\n\n%s", resultsHead, len(t.Rows()),
		t.Count(1, passed), t.Count(2, passed), t), 0o644)
}

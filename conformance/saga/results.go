package main

import (
	_ "embed"
	"fmt"
	"os"
	"slices"

	"github.com/holdfastdb/holdfast/internal/results"
)

//go:embed known_failures.txt
var knownFailures string

// judge prints what is news, and reports whether all is as the list says. The list is about Holdfast: DTM is only looked at.
func judge(all []outcome, against string) bool {
	known := results.ParseList(knownFailures)
	passed, good := 0, true
	for _, o := range all {
		why := known[o.program+"/"+o.name]
		if o.passed {
			passed++
		}
		switch {
		case !o.passed && (why == "" || against != "ours"):
			good = false
			fmt.Printf("FAILED %s/%s: %s\n", o.program, o.name, o.note)
		case o.passed && why != "" && against == "ours":
			good = false
			fmt.Printf("%s/%s passes: take it off the list of known failures\n", o.program, o.name)
		}
	}
	fmt.Printf("%d of %d passed against %s\n", passed, len(all), against)
	return good || against != "ours"
}

const resultsHead = `# Conformance of the saga door: DTM's clients

Written by ` + "`make conformance DOOR=saga`" + ` (conformance/saga): DTM's quick start (qs, v1.19.0), programs in its shapes around its Go client
v1.17.3, its Python client 1.7.7.0 and its Java client 2.1.4, all unchanged, against one server. DTM 1.19.0 ran with its default store and
UPDATE_BRANCH_SYNC=1, without which it forgets the steps of a workflow. The last column is what the services saw with Holdfast: branch,
operation, service, how it was called and with what. What its own test suite says is in [RESULTS-saga-suite.md](RESULTS-saga-suite.md).

`

// sides are the columns of the table, by what -against says.
var sides = []string{"original", "ours"}

// write writes the table, keeping the cells this run says nothing about.
func write(file, against string, all []outcome) error {
	t := results.NewTable(2, results.Heading{Text: "program"}, results.Heading{Text: "case"}, results.Heading{Text: "DTM 1.19.0"},
		results.Heading{Text: "Holdfast"}, results.Heading{Text: "the services saw"})
	if _, err := t.Load(file); err != nil {
		return err
	}
	known := results.ParseList(knownFailures)
	for _, o := range all {
		why := ""
		if against == "ours" { // what is known is known of ours
			why = known[o.program+"/"+o.name]
			t.Set(4, o.note, o.program, o.name)
		}
		t.Set(2+slices.Index(sides, against), results.Verdict(o.passed, why), o.program, o.name)
	}
	t.Keep(func(row []string) bool { // a case that is gone has no row
		return slices.ContainsFunc(all, func(o outcome) bool { return o.program == row[0] && o.name == row[1] })
	})
	passed := func(cell string) bool { return cell == "passed" }
	return os.WriteFile(file, fmt.Appendf(nil, "%sPassed of %d: %d by DTM, %d by Holdfast.\n\n%s", resultsHead, len(t.Rows()), t.Count(2, passed),
		t.Count(3, passed), t), 0o644)
}

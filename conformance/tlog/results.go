package main

import (
	"fmt"
	"os"
	"strings"
)

const resultsHead = `# Conformance of the tlog door

Written by ` + "`make conformance DOOR=tlog`" + ` (conformance/tlog). Tessera's own tools at v1.0.4, unchanged, against one server and the four
places its log can be read at: the door, static files, a bucket of S3, and a MariaDB read through Tessera's conformance-mysql
v1.0.2 by a user who may only SELECT. A hammer passed if it reached its goal without a line of warnings or errors (those about requests
it cancels itself once it is there do not count), fsck if it names the size of the checkpoint that was fetched before.

`

// count counts the steps that passed, or that did not.
func count(done []outcome, passed bool) int {
	n := 0
	for _, o := range done {
		if o.passed == passed {
			n++
		}
	}
	return n
}

// writeResults writes the table of a whole run.
func writeResults(name string, done []outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%d passed, %d failed.\n\n| step | result | what it came to | time |\n|---|---|---|--:|\n", resultsHead, count(done, true), count(done, false))
	for _, o := range done {
		verdict := "passed"
		if !o.passed {
			verdict = "FAILED"
		}
		note := strings.ReplaceAll(strings.Join(strings.Fields(o.note), " "), "|", "/")
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f s |\n", o.name, verdict, note, o.took.Seconds())
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

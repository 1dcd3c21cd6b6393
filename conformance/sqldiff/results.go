package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

const resultsHead = `# Random scripts of several sessions beside MariaDB

Written by ` + "`make conformance DOOR=sql`" + ` (conformance/sqldiff): the same random scripts of two and three sessions on Debian's MariaDB 10.11 and on
Holdfast, step by step: what each session was told, whether it waits for a lock, and the tables in the end. Of errors the numbers are compared. A statement
that differs for one of the reasons below is left out, and the rest of its script is played again: every script is compared to its end. A script may differ
for several reasons. A difference without a reason fails the run, if it comes a second time; otherwise it is counted (*not twice*).

`

// write puts the run into its table.
func (t *tally) write(file string) error {
	right := func(name string) results.Heading { return results.Heading{Text: name, Right: true} }
	table := results.NewTable(1, right("seed"), right("scripts"), right("the same"), right("with reasons"), right("without"), right("statements"), right("waits"),
		right("not twice"), right("plays"), right("took"), results.Heading{Text: "day"})
	table.Put(strconv.FormatUint(t.seed, 10), strconv.Itoa(t.scripts), strconv.Itoa(t.same), strconv.Itoa(t.scripts-t.same-t.open), strconv.Itoa(t.open),
		strconv.Itoa(t.steps), strconv.Itoa(t.waits), strconv.Itoa(t.chance), strconv.Itoa(t.plays), t.took.Round(time.Second).String(), time.Now().Format(time.DateOnly))
	var b strings.Builder
	b.WriteString(resultsHead + table.String() + "\n## What may differ\n\n| reason | scripts | why |\n|---|--:|---|\n")
	for i := range reasons {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", reasons[i].name, t.reasons[reasons[i].name], reasons[i].why)
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

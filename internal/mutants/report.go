package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// summary is the end of a run for people, with the failed mutants once more, and their number.
func summary(all []verdict, took time.Duration) (text string, bad int) {
	var b strings.Builder
	count := map[string]int{}
	for _, v := range all {
		count[v.kind]++
	}
	fmt.Fprintf(&b, "\n%d mutants in %s: %s\n", len(all), took.Round(time.Second), counted(count))
	for _, v := range all {
		if v.kind != caught {
			bad++
			fmt.Fprintf(&b, "  %-14s %s: %s\n", v.kind, v.m.name, v.m.test)
		}
	}
	return b.String(), bad
}

func counted(count map[string]int) string {
	text := fmt.Sprintf("%d caught", count[caught])
	for _, kind := range []string{survived, hung, notCompiled, notApplied, baselineFail, notRun} {
		if count[kind] > 0 {
			text += fmt.Sprintf(", %d %s", count[kind], kind)
		}
	}
	return text
}

// notRun is the verdict of the table about a mutant that no run has tried as it is now.
const notRun = "not run"

const resultsHead = "# Mutants\n\nWritten by `make mutants` (internal/mutants): small defects of the core, each with the test that must fail while it is " +
	"in; internal/mutants/list\nhas them. A run of some replaces their rows only. Seconds are compiling and running, one mutant for each core at a time, the " +
	"machine's other\nwork beside.\n\n"

// writeResults writes the table of the whole list to a file, keeping the rows that this run says nothing about.
func writeResults(file string, list []*mutant, verdicts []verdict) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, []byte(table(list, verdicts, string(old))), 0o644)
}

// table is the results as a page; old is the page of earlier runs.
func table(list []*mutant, verdicts []verdict, old string) string {
	rows := map[string]string{} // by the cells that say what was tried
	for line := range strings.Lines(old) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) == 5 {
			rows[strings.Join(cells[:3], " | ")] = strings.Join(cells[3:], " | ")
		}
	}
	for _, v := range verdicts {
		rows[tried(v.m)] = fmt.Sprintf("%s | %.1f |", v.kind, v.took.Seconds())
	}
	var b strings.Builder
	count, seconds := map[string]int{}, 0.0
	for _, m := range list {
		row := rows[tried(m)]
		if row == "" {
			row = notRun + " | – |"
		}
		kind, took, _ := strings.Cut(row, " | ")
		count[kind]++
		if s, err := strconv.ParseFloat(strings.TrimSuffix(took, " |"), 64); err == nil {
			seconds += s
		}
		fmt.Fprintf(&b, "%s | %s\n", tried(m), row)
	}
	return fmt.Sprintf("%s%d mutants: %s; %.0f seconds together.\n\n| mutant | file | caught by | verdict | seconds |\n|---|---|---|---|--:|\n%s",
		resultsHead, len(list), counted(count), seconds, b.String())
}

func tried(m *mutant) string { return fmt.Sprintf("| %s | %s | `%s`", m.name, m.edits[0].file, m.test) }

// Command clientsuite runs the test suites of client libraries, unchanged, against Holdfast under the name etcd, or against the original.
// scripts/clientsuites.sh builds what it needs. It judges no single answer: the suites do.
//
//	clientsuite [-against ours|original] [-only SUITE]
//
// A suite whose server is missing may skip itself and look green, so passes are counted. Fewer than the original's end the run with status
// 1, and so does a failure that is not in known_failures.txt. Each run replaces its cells of RESULTS-clients.md.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

//go:embed known_failures.txt
var knownFailures string

func main() {
	against := flag.String("against", "ours", "ours or original")
	only := flag.String("only", "", "only suites whose name contains this")
	table := flag.String("results", "conformance/RESULTS-clients.md", "where the table is")
	flag.Parse()
	if *against != "ours" && *against != "original" || flag.NArg() > 0 {
		fatal(fmt.Errorf("-against %s: it is ours or original", *against))
	}
	root, err := os.Getwd()
	if err != nil {
		fatal(err)
	}
	known := results.ParseList(knownFailures)
	good := true
	for _, s := range suites {
		if !strings.Contains(s.name, *only) {
			continue
		}
		began := time.Now()
		log := filepath.Join(root, "build", "suites", s.name+"-"+*against+".log")
		outcomes, err := s.run(root, *against, log)
		if err != nil {
			fatal(fmt.Errorf("%s: %w; see %s", s.name, err, log))
		}
		judged := known
		if *against == "original" {
			judged = nil // the list of known failures is about Holdfast
		}
		passed, news := s.judge(outcomes, judged)
		fmt.Printf("%-12s %d of %d passed against %s in %s\n", s.name, passed, len(outcomes), *against, time.Since(began).Round(time.Second))
		for _, line := range news {
			fmt.Println("  " + line)
		}
		if len(news) > 0 && *against == "ours" {
			good = false
			fmt.Printf("  see %s\n", log)
		}
		if err := writeResults(*table, s.name, *against, outcomes, known); err != nil {
			fatal(err)
		}
	}
	if !good {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "clientsuite:", err)
	os.Exit(1)
}

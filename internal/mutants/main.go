// Command mutants breaks the core on purpose, one small patch at a time, and looks whether the test that is named beside the
// patch notices. A guard that nothing tests looks exactly like one that holds; here it shows, as a mutant that survives.
//
//	go run ./internal/mutants [-only REGEXP] [-j N] [-results FILE] [-list]
//
// The list is list/*.txt; list.go says how it is written. Nothing in the tree is changed: a mutant is compiled with go's
// -overlay. It is not a tool that makes mutants up: each line stands for a promise of docs/INVARIANTS.md, and says which.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "only mutants whose name, file or test matches")
	jobs := flag.Int("j", runtime.GOMAXPROCS(0), "how many are compiled and run at once")
	results := flag.String("results", "", "write the results into the table in this file")
	list := flag.Bool("list", false, "print the list and the test of each, run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *jobs, *results, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, jobs int, results string, list bool) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	all, err := readList(filepath.Join(root, "internal", "mutants", "list"))
	if err != nil {
		return err
	}
	whole := slices.Clone(all)
	all = slices.DeleteFunc(all, func(m *mutant) bool {
		return !slices.ContainsFunc([]string{m.name, m.edits[0].file, m.test.String()}, wanted.MatchString)
	})
	if len(all) == 0 {
		return fmt.Errorf("none of %d mutants matches %q", len(whole), only)
	}
	if list {
		for _, m := range all {
			fmt.Printf("%-40s %-28s %s\n", m.name, m.edits[0].file, m.test)
		}
		return nil
	}
	began := time.Now()
	verdicts, err := (&runner{root: root, jobs: max(jobs, 1), told: func(v verdict) { fmt.Println(v) }}).run(ctx, all)
	if err != nil {
		return err
	}
	text, bad := summary(verdicts, time.Since(began))
	fmt.Print(text)
	if results != "" {
		if err := writeResults(results, whole, verdicts); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants are not caught by the test they name", bad, len(verdicts))
	}
	return nil
}

// findRoot returns the directory of the module this is run in.
func findRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("not in a Go module: run it inside the repository")
	}
	return filepath.Dir(mod), nil
}

// Command matrix plays an application and an agent in every combination of journal mode, extension, level, path, command and store. One
// rule judges each: a commit that returned under archive is stored, and any other unstored commit is named.
//
//	matrix [-quick] [-only REGEXP] [-part I/N] [-jobs N] [-keep]
//
// Applications are Python's sqlite3 with and without the extension, agents are `holdfast sqlite` and Holdfast under the name litestream,
// stores are directories and internal/bucket. A whole run writes RESULTS-sqlite-matrix.md.
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
)

func main() {
	quick := flag.Bool("quick", false, "the cells of `make test` and no table")
	only := flag.String("only", "", "cells whose names match, and no table")
	part := flag.String("part", "1/1", "the I-th of N parts of the cells, and no table if N is not 1")
	jobs := flag.Int("jobs", 16, "cells at a time: they wait more than they work")
	keep := flag.Bool("keep", false, "keep the files of the cells that fail")
	bin := flag.String("holdfast", "bin/holdfast", "the program under test")
	list := flag.Bool("list", false, "print the cells")
	table := flag.String("results", "conformance/RESULTS-sqlite-matrix.md", "where the table of a whole run is")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	var i, n int
	if _, err := fmt.Sscanf(*part, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		fatal(fmt.Errorf("-part %s: write 2/8 for the second of eight", *part))
	}
	there, absent := all()
	if *quick {
		there = telling()
	}
	var cells []cell
	for k, c := range there {
		if wanted.MatchString(c.String()) && k%n == i-1 {
			cells = append(cells, c)
		}
	}
	if *list {
		for _, c := range cells {
			fmt.Println(c)
		}
		return
	}
	tools, err := rig.With(*bin)
	if err != nil {
		fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	m := &matrix{tools: tools, keep: *keep}
	verdicts, err := m.run(ctx, cells, *jobs)
	if err = errors.Join(err, tools.Close()); err != nil {
		fatal(err)
	}
	failed := 0
	for _, v := range verdicts {
		if v.err != nil {
			failed++
		}
	}
	fmt.Printf("%d cells, %d do not hold, in %s\n", len(verdicts), failed, time.Since(began).Round(time.Second))
	if !*quick && *only == "" && n == 1 && ctx.Err() == nil {
		if err := write(*table, verdicts, absent, time.Since(began)); err != nil {
			fatal(err)
		}
	}
	if failed > 0 || ctx.Err() != nil {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "matrix:", err)
	os.Exit(1)
}

// verdict is a cell and its fault.
type verdict struct {
	cell cell
	err  error
	took time.Duration
}

// matrix is one run.
type matrix struct {
	tools *rig.Tools
	keep  bool
}

// run plays cells, some at a time, in their order.
func (m *matrix) run(ctx context.Context, cells []cell, jobs int) ([]verdict, error) {
	dir, err := os.MkdirTemp("", "hfm") // short: the path of a socket is
	if err != nil {
		return nil, err
	}
	foreign, err := m.foreign(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	verdicts := make([]verdict, len(cells))
	todo := make(chan int)
	var wg sync.WaitGroup
	var printing sync.Mutex
	for range jobs {
		wg.Go(func() {
			for k := range todo {
				c, began := cells[k], time.Now()
				err := m.one(ctx, c, filepath.Join(dir, fmt.Sprint(k)), foreign)
				verdicts[k] = verdict{c, err, time.Since(began)}
				if err != nil {
					printing.Lock()
					fmt.Printf("FAILED %s: %s\n", c, strings.ReplaceAll(err.Error(), "\n", "\n       "))
					printing.Unlock()
				}
			}
		})
	}
	for k := range cells {
		if ctx.Err() == nil {
			todo <- k
		}
	}
	close(todo)
	wg.Wait()
	if m.keep && slices.ContainsFunc(verdicts, func(v verdict) bool { return v.err != nil }) {
		fmt.Println("files of the cells that failed are below", dir)
		return verdicts, nil
	}
	return verdicts, os.RemoveAll(dir)
}

// one plays a cell and judges it. Its files go unless they are wanted.
func (m *matrix) one(ctx context.Context, c cell, dir, foreign string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	o, err := play(ctx, m.tools, c, dir, foreign)
	if err == nil {
		err = c.judge(o)
	}
	if err != nil && m.keep {
		return fmt.Errorf("%w (%s)", err, dir)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// foreign makes the replica of another database below dir.
func (m *matrix) foreign(dir string) (string, error) {
	db, to := filepath.Join(dir, "foreign.db"), filepath.Join(dir, "foreign")
	if err := rig.Make(db, "WAL"); err != nil {
		return "", err
	}
	if out, err := exec.Command(m.tools.Litestream, "replicate", "-once", db, "file://"+to).CombinedOutput(); err != nil {
		return "", fmt.Errorf("store another database: %w: %s", err, out)
	}
	return to, nil
}

// Command sqldiff plays the same random scripts of two and three sessions on Debian's MariaDB and on Holdfast, and compares every step. It
// compares each session's answers, whether it waits for a lock, and the final tables. The scripts mix reads, locks, writes, savepoints and
// isolation levels, on few rows. No time decides about waits. Both servers report how many statements wait for a lock, and a step is over
// once every statement without an answer does.
//
//	sqldiff [-n 2000] [-seed S] [-only SCRIPT -v]
//
// It prints its seed; with the same seed it plays the same scripts. reasons.go has the allowed differences, their reasons, and how they are
// recognised. A statement that differs for a reason is left out, and the rest is played again. A difference without a reason is printed
// with as few statements as it needs, and fails the run. A run of 2,000 scripts writes RESULTS-sqldiff.md.
//
// It knows nothing of the planner's choices: statements name the index that they go by. DDL, LOCK TABLES and AUTO_INCREMENT are no part of
// it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// verbose has every play printed.
var verbose bool

type options struct {
	n, show, only int
	seed          uint64
	holdfast      string
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 2000, "how many scripts")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "what the scripts are drawn from")
	flag.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary under test")
	flag.IntVar(&o.show, "show", 5, "how many differences without a reason to print")
	flag.IntVar(&o.only, "only", -1, "play this script only")
	results := flag.String("results", "conformance/RESULTS-sqldiff.md", "where a run of 2,000 scripts or more writes its table")
	flag.BoolVar(&verbose, "v", false, "print every play")
	flag.Parse()
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // only a nil logger is refused
	t, err := run(&o)
	if err == nil && o.n >= 2000 && o.only < 0 {
		err = t.write(*results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sqldiff:", err)
	}
	if err != nil || t.open > 0 {
		os.Exit(1)
	}
}

// tally is what a run has seen.
type tally struct {
	seed                uint64
	scripts, same, open int
	chance              int            // differences that did not come twice
	steps, plays, waits int            // statements of all scripts, plays, statements that waited on both servers
	reasons             map[string]int // scripts, by the reason for which they differ
	took                time.Duration
}

func run(o *options) (t *tally, err error) {
	t = &tally{seed: o.seed, reasons: map[string]int{}}
	dir, err := os.MkdirTemp("", "sqldiff")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir)
	m, err := proctest.NewMariaDB("--loose-innodb-snapshot-isolation=OFF", "--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-status-output-locks=ON", "--innodb-lock-wait-timeout=600")
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if _, err := m.SQL("CREATE USER 'sqldiff'@'127.0.0.1'; GRANT ALL ON *.* TO 'sqldiff'@'127.0.0.1'"); err != nil {
		return t, err
	}
	cluster, err := proctest.New(filepath.Join(dir, "holdfast"), proctest.Holdfast(o.holdfast, "--sql", "{sql}"), 1)
	if err != nil {
		return t, err
	}
	defer cluster.Close()
	if err := cluster.Run(); err != nil {
		return t, err
	}
	theirs, err := newSide("MariaDB", "sqldiff@tcp("+m.Addr+")/", true)
	if err != nil {
		return t, err
	}
	defer theirs.close()
	ours, err := newSide("Holdfast", "root@tcp("+cluster.Nodes[0].Addr("sql")+")/", false)
	if err != nil {
		return t, err
	}
	defer ours.close()
	fmt.Printf("seed %d, %d scripts\n", o.seed, o.n)
	began := time.Now()
	for i := range o.n {
		if o.only >= 0 && i != o.only {
			continue
		}
		s := newScript(rand.New(rand.NewPCG(o.seed, uint64(i))), i)
		j, err := judge(s, theirs, ours)
		if err != nil {
			return t, fmt.Errorf("script %d: %w", i, err)
		}
		t.scripts++
		t.steps += s.statements()
		t.plays += j.plays
		t.waits += j.waits
		t.chance += j.chance
		slices.Sort(j.reasons)
		for _, name := range slices.Compact(j.reasons) {
			t.reasons[name]++
		}
		switch {
		case j.open != nil:
			if t.open++; t.open <= o.show {
				if j, err = shrink(j, theirs, ours); err != nil {
					return t, err
				}
				fmt.Printf("script %d differs:\n%s", i, j.report())
			}
		case len(j.reasons) == 0:
			t.same++
		}
		if t.scripts%100 == 0 {
			fmt.Printf("%d scripts, %d plays, %d the same, %d without a reason, %s\n", t.scripts, t.plays, t.same, t.open, time.Since(began).Round(time.Second))
		}
	}
	t.took = time.Since(began)
	fmt.Println("scripts by reason:", counts(t.reasons), "and differences that did not come twice:", t.chance)
	fmt.Printf("seed %d: %d scripts, %d the same, %d without a reason (%s)\n", o.seed, t.scripts, t.same, t.open, t.took.Round(time.Second))
	return t, nil
}

// counts is "a 3, b 4", in order.
func counts(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

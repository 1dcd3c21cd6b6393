// Command hanging submits 10,000 transactions to services that take a call and do not answer. Before and beside them it measures a hundred
// transactions a second to healthy services. Each way in which services hang has a server of its own with --memory 256MiB. A way has passed
// if the healthy transactions' p99 is at most three times the p99 before. None of them may fail, and the server must stay below 300 MB.
//
// The hanging services and the client that submits to them are a process of the lowest priority: elsewhere they have machines of their own.
// Half of the healthy transactions beside them go to services that were never called before.
//
//	hanging [-only PATTERN] [-transactions N]
//
// A run of everything writes RESULTS-saga-hanging.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

const resultsHead = `# Healthy transactions beside 10,000 to services that hang

Written by ` + "`make conformance DOOR=saga`" + ` (conformance/saga/hanging): 100 transactions a second of two steps each, first alone, then beside 10,000
whose services hang, on one server with --memory 256MiB. A way to hang passed if the healthy transactions' p99 was at most 3 times what it
was alone (or below 20 ms: the machine is shared), none of them failed, and the server stayed below 300 MB. Half of them
go to services that had not been called before, but where each of the 10,000 has a service of its own. What is said of the time of the submits
is not judged.

`

const (
	memory       = "256MiB"
	mostResident = 300_000_000 // bytes
	// slower is how many times its p99 alone the p99 beside hanging services may be, floor the p99 that passes in any case.
	slower = 3
	floor  = 20 * time.Millisecond
)

// campaign is a run. It belongs to one goroutine.
type campaign struct {
	bin           string
	transactions  int
	alone, beside time.Duration
}

func main() {
	c := &campaign{}
	flag.StringVar(&c.bin, "holdfast", "bin/holdfast", "the server")
	flag.IntVar(&c.transactions, "transactions", 10_000, "how many hang")
	flag.DurationVar(&c.alone, "alone", 10*time.Second, "how long the healthy ones are measured before")
	flag.DurationVar(&c.beside, "beside", 20*time.Second, "how long they are measured beside those that hang")
	only := flag.String("only", "", "a pattern for the ways to hang, as in the table; no table is written")
	table := flag.String("results", "conformance/RESULTS-saga-hanging.md", "where a run of everything writes its table")
	order := flag.String("hang", "", "of this program alone: have services hang as this order says")
	flag.Parse()
	var err error
	if *order != "" {
		err = obey(*order)
	} else {
		err = c.run(*only, *table)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hanging:", err)
		os.Exit(1)
	}
}

func (c *campaign) run(only, table string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	steps := &results.Steps{}
	for _, w := range ways {
		if pattern.MatchString(w.Name) {
			steps.Do(w.Name, func() (string, error) { return c.measure(w) })
		}
	}
	if only == "" {
		if err := steps.Write(table, resultsHead); err != nil {
			return err
		}
	}
	if passed, failed := steps.Count(); failed > 0 {
		return fmt.Errorf("%d of %d failed", failed, passed+failed)
	}
	return nil
}

// measure is one way to hang.
func (c *campaign) measure(w *way) (note string, err error) {
	dir, err := os.MkdirTemp("", "saga-hanging")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	cluster, err := proctest.New(filepath.Join(dir, "servers"), proctest.Holdfast(c.bin, "--memory", memory, "--saga", "{saga}"), 1)
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	if err := cluster.Run(); err != nil {
		return "", err
	}
	node := cluster.Nodes[0]
	h, err := newHealthy(node.Addr("saga"))
	if err != nil {
		return "", err
	}
	defer h.close()
	if warm := h.load(time.Second, h.known); warm.wrong > 0 { // connections are made
		return "", fmt.Errorf("before anything hangs: %w", warm.first)
	}
	before := h.load(c.alone, h.known)

	hanging, err := begin(&order{Way: *w, Saga: node.Addr("saga"), Transactions: c.transactions})
	if err != nil {
		return "", err
	}
	defer hanging.end()
	during := h.until(hanging.submitted, h.known)
	if err := hanging.failed(); err != nil {
		return "", err
	}
	to := [][2]string{h.known, h.news}
	if w.Addresses >= c.transactions { // a new service cannot be told from ten thousand other new ones
		to = to[:1]
	}
	after := h.load(c.beside, to...)

	note = fmt.Sprintf("%s; alone p50 %s p99 %s, beside them p50 %s p99 %s (while they are submitted p99 %s, worst %s)", hanging.did,
		short(before.at(50)), short(before.at(99)), short(after.at(50)), short(after.at(99)), short(during.at(99)), short(during.at(100)))
	if !node.Running() {
		return "", fmt.Errorf("the server has ended: %s; %s", note, node.LogTail(5))
	}
	peak, err := node.PeakRSS()
	if err != nil {
		return "", err
	}
	note += fmt.Sprintf("; %d MB", peak/1e6)
	var errs []error
	if peak > mostResident {
		errs = append(errs, errors.New("too much memory"))
	}
	if is, was := after.at(99), before.at(99); is > slower*was && is > floor {
		errs = append(errs, fmt.Errorf("p99 %.1f times what it was", float64(is)/float64(was)))
	}
	for name, l := range map[string]*load{"alone": before, "while they are submitted": during, "beside them": after} { // any order: each is judged
		if l.wrong > 0 {
			errs = append(errs, fmt.Errorf("%d of %d failed %s, the first: %w", l.wrong, len(l.took)+l.wrong, name, l.first))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("%w: %s", err, note)
	}
	return note, nil
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

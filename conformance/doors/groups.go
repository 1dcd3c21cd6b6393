package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/internal/pace"
)

// portsVariable is proctest's: the ports a program may give to its servers. That package is not imported: it would have to be compiled,
// with most of the doors' code, before the choice of doors.
const portsVariable = "HOLDFAST_TEST_PORTS"

// hangs is after how long a group of a quick run is ended.
const hangs = 10 * time.Minute

// runGroups runs all groups, so many at a time, prints what each said when it has ended, and returns those that failed. Those that took longer than
// limits allow are named, and ended if they hang (nil: they may take as long as they like). With one job at a time their output is not held back.
func runGroups(all []group, jobs int, limits *pace.Allowed, w io.Writer) (failed []group) {
	var (
		late   []error
		mu     sync.Mutex
		free   = sync.NewCond(&mu)
		left   = slices.Clone(all)
		suites bool // one with fixed ports runs
		wg     sync.WaitGroup
	)
	// next is the first group that may run now; ok is false when none is left.
	next := func() (g group, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		for len(left) > 0 {
			if i := slices.IndexFunc(left, func(g group) bool { return !g.fixedPorts || !suites }); i >= 0 {
				g = left[i]
				left = slices.Delete(left, i, i+1)
				suites = suites || g.fixedPorts
				return g, true
			}
			free.Wait()
		}
		return group{}, false
	}
	for job := range jobs {
		wg.Go(func() {
			for g, ok := next(); ok; g, ok = next() {
				began := time.Now()
				var held bytes.Buffer
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if limits != nil {
					ctx, cancel = context.WithTimeout(ctx, hangs)
				}
				c := exec.CommandContext(ctx, g.args[0], g.args[1:]...)
				c.WaitDelay = 10 * time.Second // what it has started may hold its output open
				c.Stdout, c.Stderr = io.Writer(&held), io.Writer(&held)
				if jobs == 1 {
					fmt.Fprintf(w, "== %s\n", g.name)
					c.Stdout, c.Stderr = w, os.Stderr
				}
				if jobs > 1 { // groups beside each other must not take a port that another has found free and not bound yet
					each := 20000 / jobs
					c.Env = append(os.Environ(), fmt.Sprintf("%s=%d-%d", portsVariable, 12000+job*each, 12000+(job+1)*each-1))
				}
				err := c.Run()
				cancel()
				took := time.Since(began)
				mu.Lock()
				if jobs > 1 {
					fmt.Fprintf(w, "== %s\n%s", g.name, held.Bytes())
				}
				if err != nil {
					fmt.Fprintf(w, "FAILED %s in %.0f s: %v\n", g.name, took.Seconds(), err)
					failed = append(failed, g)
				} else {
					fmt.Fprintf(w, "passed %s in %.0f s\n", g.name, took.Seconds())
					if limits != nil {
						if err := limits.Judge(g.name, took); err != nil {
							late = append(late, err)
						}
					}
				}
				suites = suites && !g.fixedPorts
				free.Broadcast()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, err := range late {
		fmt.Fprintln(w, "slow:", err)
	}
	return failed
}

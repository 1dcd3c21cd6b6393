// Command v2diff sends the same random scripts of v2 requests to etcd 3.4 and to Holdfast. It compares every answer: status, headers (those
// for pages of other origins too) and body. Indexes are counted from the script's first and times left out. Listings that were not
// requested sorted are compared as sets. It is not a load test: requests go one after another.
//
//	v2diff [-n 1000] [-seed S] [-members 1] [-self] [-results FILE]
//
// It prints its seed; with the same seed it sends the same scripts. The last line says how many scripts and requests gave the same answers.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

func main() {
	n := flag.Int("n", 1000, "how many scripts")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "what the scripts are drawn from")
	members := flag.Int("members", 1, "members of each cluster")
	peers := flag.String("peers", "build/peers", "where `make peers` has put etcd 3.4")
	holdfast := flag.String("holdfast", "bin/holdfast", "the binary under test")
	self := flag.Bool("self", false, "run the original against itself: this checks the comparison, not Holdfast")
	show := flag.Int("show", 5, "how many differences to print")
	table := flag.String("results", "conformance/RESULTS-v2diff.md", "where a run of 1,000 scripts or more writes its line")
	flag.Parse()
	o, err := run(*n, *seed, *members, filepath.Join(*peers, "etcd-3.4", "etcd"), *holdfast, *self, *show)
	if err == nil && *n >= 1000 && !*self {
		err = write(*table, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "v2diff:", err)
	}
	if err != nil || o.Same < o.Scripts {
		os.Exit(1)
	}
}

func run(n int, seed uint64, members int, etcd, holdfast string, self bool, show int) (*results.Scripts, error) {
	dir, err := os.MkdirTemp("", "v2diff")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ours := proctest.Holdfast(holdfast, "--cors", "*") // etcd's default
	if self {
		ours = proctest.Etcd(etcd, "--enable-v2")
	}
	var sides []*side
	for i, kind := range []proctest.Server{proctest.Etcd(etcd, "--enable-v2"), ours} {
		c, err := proctest.New(filepath.Join(dir, fmt.Sprint(i)), kind, members)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		if err := c.Run(); err != nil {
			return nil, fmt.Errorf("start %s: %w", kind.Kind, err)
		}
		sides = append(sides, newSide(c))
	}
	fmt.Printf("seed %d, %d scripts, %d member(s)\n", seed, n, members)
	began := time.Now()
	bad, requests := 0, 0
	for i := range n {
		s := newScript(rand.New(rand.NewPCG(seed, uint64(i))), i)
		done, diff, err := s.play(sides[0], sides[1])
		requests += done
		if err != nil {
			return nil, fmt.Errorf("script %d: %w", i, err)
		}
		if diff != "" {
			if bad++; bad <= show {
				fmt.Printf("script %d differs:\n%s\n", i, diff)
			}
		}
		if (i+1)%100 == 0 {
			fmt.Printf("%d scripts, %d requests, %d differ, %s\n", i+1, requests, bad, time.Since(began).Round(time.Second))
		}
	}
	o := &results.Scripts{Seed: seed, Members: members, Scripts: n, Same: n - bad, Requests: requests, Took: time.Since(began)}
	fmt.Printf("seed %d: %d of %d scripts gave the same answers (%d requests, %s)\n", seed, o.Same, n, requests, o.Took.Round(time.Second))
	return o, nil
}

// Command v3diff sends the same random scripts of etcd's gRPC requests to etcd 3.7.3 and to Holdfast. It compares every answer: all fields,
// errors with code and text, and every watch's events, in order. Revisions are counted from the script's first. Ids, terms and remaining
// lease times are left out, and so is how a stream's content is cut into messages. It speaks through the generated stubs: a client library
// would retry and smooth over what is looked for here. Some calls have their messages in gzip, and some requests go through the JSON
// gateway, as from a page of some origin. It is not a load test: requests go one after another.
//
//	v3diff [-n 1000] [-seed S] [-members 1] [-self]
//
// It prints its seed; with the same seed it sends the same scripts. differences.go has the allowed differences and their reasons. The last
// line says how many scripts and requests gave the same answers; a run of -n 1000 or more writes its line into RESULTS-v3diff.md.
package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

type options struct {
	n, members, show, only int
	seed                   uint64
	etcd, holdfast         string
	self                   bool
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 1000, "how many scripts")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "what the scripts are drawn from")
	flag.IntVar(&o.members, "members", 1, "members of Holdfast's cluster; the original has one")
	peers := flag.String("peers", "build/peers", "where `make peers` has put etcd 3.7.3")
	flag.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary under test")
	flag.BoolVar(&o.self, "self", false, "run the original against itself: this checks the comparison, not Holdfast")
	flag.IntVar(&o.show, "show", 5, "how many differences to print")
	flag.IntVar(&o.only, "only", -1, "play this script only")
	results := flag.String("results", "conformance/RESULTS-v3diff.md", "where a run of 1,000 scripts or more writes its line")
	flag.Parse()
	o.etcd = filepath.Join(*peers, "etcd-3.7.3", "etcd")
	t, err := run(&o)
	if err == nil && !o.self && o.n >= 1000 && o.only < 0 {
		err = t.write(*results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "v3diff:", err)
	}
	if err != nil || t.same != t.scripts {
		os.Exit(1)
	}
}

// tally is what a run has seen.
type tally struct {
	seed          uint64
	members       int
	scripts, same int
	requests      map[string]int // by kind
	refused       map[string]int // the original's refusals, by code and text
	known         map[string]int // documented differences by name
	took          time.Duration
}

func (t *tally) total() (n int) {
	for _, k := range t.requests { // any order: a sum
		n += k
	}
	return n
}

func run(o *options) (*tally, error) {
	t := &tally{seed: o.seed, members: o.members, requests: map[string]int{}, refused: map[string]int{}, known: map[string]int{}}
	dir, err := os.MkdirTemp("", "v3diff")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir)
	ours := proctest.Holdfast(o.holdfast, "--cors", "*") // etcd's default
	if o.self {
		ours = proctest.Etcd(o.etcd)
	}
	var sides []*side
	for i, c := range []struct {
		kind    proctest.Server
		members int
	}{{proctest.Etcd(o.etcd), 1}, {ours, o.members}} {
		cluster, err := proctest.New(filepath.Join(dir, fmt.Sprint(i)), c.kind, c.members)
		if err != nil {
			return t, err
		}
		defer cluster.Close()
		if err := cluster.Run(); err != nil {
			return t, fmt.Errorf("start %s: %w", c.kind.Kind, err)
		}
		x, err := newSide(cluster, i == 0 || o.self)
		if err != nil {
			return t, err
		}
		sides = append(sides, x)
	}
	fmt.Printf("seed %d, %d scripts, %d member(s)\n", o.seed, o.n, o.members)
	began := time.Now()
	for i := range o.n {
		if o.only >= 0 && i != o.only {
			continue
		}
		s := newScript(rand.New(rand.NewPCG(o.seed, uint64(i))), i)
		err := s.play(sides[0], sides[1])
		t.scripts++
		add(t.requests, s.count)
		add(t.refused, s.codes)
		add(t.known, s.known)
		if err != nil {
			return t, fmt.Errorf("script %d: %w", i, err)
		}
		if s.diff == "" {
			t.same++
		} else if t.scripts-t.same <= o.show {
			fmt.Printf("script %d differs:\n%s\n", i, s.diff)
		}
		if t.scripts%100 == 0 {
			fmt.Printf("%d scripts, %d requests, %d differ, %s\n", t.scripts, t.total(), t.scripts-t.same, time.Since(began).Round(time.Second))
		}
	}
	t.took = time.Since(began)
	fmt.Println("requests:", counts(t.requests))
	fmt.Println("refused:", counts(t.refused))
	fmt.Println("documented differences:", counts(t.known))
	fmt.Printf("seed %d: %d of %d scripts gave the same answers (%d requests, %s)\n", o.seed, t.same, t.scripts, t.total(), t.took.Round(time.Second))
	return t, nil
}

func add(to, from map[string]int) {
	for k, n := range from { // any order: sums
		to[k] += n
	}
}

// counts is "a 3, b 4", in order.
func counts(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

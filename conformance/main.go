// Command conformance runs unmodified foreign clients against real Holdfast nodes and, with the same commands, against the
// original, and compares what they print. It is not a unit test of a door: it knows nothing of Holdfast but its command
// line.
//
//	conformance [-door kv] [-quick] [-only SUBSTRING] [-nodes 1,3]
//
// The last line is "N passed, N failed". A failure named in known_failures.txt does not fail the run; a run that
// is not quick writes RESULTS.md.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

//go:embed known_failures.txt
var knownFailures string

type options struct {
	quick    bool
	self     bool
	only     string
	nodes    []int
	peers    string // directory `make peers` fills
	suites   string // directory with foreign test suites
	holdfast string
	results  string
}

func main() {
	var o options
	door := flag.String("door", "kv", "the door to check")
	flag.BoolVar(&o.quick, "quick", false, "leave out what takes a minute each")
	flag.StringVar(&o.only, "only", "", "run only cases whose name contains this")
	nodes := flag.String("nodes", "1,3", "cluster sizes")
	flag.StringVar(&o.peers, "peers", "build/peers", "where the foreign programs are")
	flag.StringVar(&o.suites, "suites", "build/suites", "where the foreign test suites are")
	flag.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary under test")
	flag.BoolVar(&o.self, "self", false, "run the original against itself: this checks the cases, not Holdfast")
	flag.StringVar(&o.results, "results", "conformance/RESULTS.md", "where a run that is not quick writes its table")
	flag.Parse()
	for _, s := range strings.Split(*nodes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 5 {
			fatal(fmt.Errorf("-nodes %s: want numbers from 1 to 5", *nodes))
		}
		o.nodes = append(o.nodes, n)
	}
	if *door != "kv" {
		fatal(fmt.Errorf("no door named %q is built", *door))
	}
	// Clients are ended by SIGINT, as Ctrl-C does. A shell starts background jobs with it ignored, which children inherit
	// unless it is caught here.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		os.Exit(130) // the servers die with this process
	}()
	began := time.Now()
	all, err := run(&o)
	if err != nil {
		fatal(err)
	}
	known := results.ParseList(knownFailures)
	if !o.quick && !o.self {
		if err := writeResults(o.results, all, known, []string{"etcdctl-3.4", "etcdctl-3.7.3"}); err != nil {
			fatal(err)
		}
	}
	if !printSummary(os.Stdout, all, known, time.Since(began)) {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "conformance:", err)
	os.Exit(1)
}

// result is one case with one tool on one cluster size.
type result struct {
	name string // "kv/1/etcdctl-3.7.3/put-get"
	err  error
	took time.Duration
}

func run(o *options) ([]result, error) {
	dir, err := os.MkdirTemp("", "holdfast-conformance")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tools := []tool{
		{"etcdctl-3.4", filepath.Join(o.peers, "etcd-3.4", "etcdctl")},
		{"etcdctl-3.7.3", filepath.Join(o.peers, "etcd-3.7.3", "etcdctl")},
	}
	var all []result
	for _, n := range o.nodes {
		got, err := runSize(o, filepath.Join(dir, strconv.Itoa(n)), n, tools)
		all = append(all, got...)
		if err != nil {
			return all, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no case is named like %q", o.only)
	}
	return all, nil
}

// runSize runs every case on one cluster of n Holdfast nodes and one of n etcd nodes. The cases of a size share the two
// clusters: what one leaves behind must not matter to the next, as with a server in use.
func runSize(o *options, dir string, n int, tools []tool) ([]result, error) {
	original := proctest.Etcd(filepath.Join(o.peers, "etcd-3.7.3", "etcd"))
	kind := proctest.Holdfast(o.holdfast)
	if o.self {
		kind = original
	}
	ours, err := start(filepath.Join(dir, "holdfast"), kind, n)
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	theirs, err := start(filepath.Join(dir, "etcd"), original, n)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()

	var all []result
	for _, c := range cases {
		for _, t := range tools {
			name := fmt.Sprintf("kv/%d/%s/%s", n, t.name, c.name)
			if n < c.minNodes || !strings.Contains(name, o.only) || c.only != "" && c.only != t.name {
				continue
			}
			if c.slow && o.quick {
				if !c.brief || n != 1 {
					continue
				}
				c.alone = true
			}
			began := time.Now()
			err := runCase(c, t, ours, theirs, map[bool]string{false: o.holdfast}[o.self], o.suites, filepath.Join(dir, "work"))
			r := result{name: name, err: err, took: time.Since(began)}
			all = append(all, r)
			fmt.Println(r.String())
			for _, node := range ours.Nodes {
				if !node.Running() && !node.ended {
					return all, fmt.Errorf("%s ended by itself during %s: %v; last lines:\n%s", node.Name, name, node.ExitError(), node.LogTail(40))
				}
			}
		}
	}
	return all, nil
}

func (r *result) String() string {
	if r.err != nil {
		return fmt.Sprintf("FAIL %-50s %5.1f s\n     %s", r.name, r.took.Seconds(), strings.ReplaceAll(r.err.Error(), "\n", "\n     "))
	}
	return fmt.Sprintf("ok   %-50s %5.1f s", r.name, r.took.Seconds())
}

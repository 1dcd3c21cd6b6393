// Command kv measures the etcd v3 door beside its peers: etcd's own load tool against etcd, Holdfast and the floor server,
// on one node and on three, in alternating rounds on one machine. It prints a table and writes every round as JSON. It is
// not a load generator and not a test of correctness, though a round with an error or a missing write does not count.
//
//	kv [-nodes 1,3] [-clients 1,64,256] [-ops put,range] [-servers etcd,holdfast,floor] [-rounds 3] [-seconds 10]
//
// Paths of the programs are those `make peers` and `make build` leave.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type config struct {
	nodes, clients []int
	ops, servers   []string
	rounds         int
	seconds        int
	dir            string // holds the data directories; one file system for all
	out            string
	load           string // etcd's tools/benchmark
	bins           map[string]string
}

func main() {
	cfg := config{bins: make(map[string]string)}
	nodes := flag.String("nodes", "1,3", "cluster sizes")
	clients := flag.String("clients", "1,64,256", "numbers of concurrent clients for put; range runs with 64")
	ops := flag.String("ops", "put,range", "operations")
	servers := flag.String("servers", "etcd,holdfast,floor", "servers to compare; the floor has one node only")
	flag.IntVar(&cfg.rounds, "rounds", 3, "rounds; medians are shown")
	flag.IntVar(&cfg.seconds, "seconds", 10, "least duration of one measurement")
	flag.StringVar(&cfg.dir, "dir", "build/bench/data", "where data directories are made and removed")
	flag.StringVar(&cfg.out, "json", "build/bench/kv.json", "where every round is written")
	flag.StringVar(&cfg.load, "load", "build/peers/benchmark", "etcd's load tool")
	bin := func(name, def string) {
		flag.Func(name, "binary of "+name+" (default "+def+")", func(s string) error { cfg.bins[name] = s; return nil })
		cfg.bins[name] = def
	}
	bin("etcd", "build/peers/etcd-3.7.3/etcd")
	bin("holdfast", "bin/holdfast")
	bin("floor", "build/bench/floor")
	flag.Parse()
	var err error
	if cfg.nodes, err = ints(*nodes); err == nil {
		cfg.clients, err = ints(*clients)
	}
	cfg.ops, cfg.servers = strings.Split(*ops, ","), strings.Split(*servers, ",")
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, &cfg)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench kv:", err)
		os.Exit(1)
	}
}

func ints(list string) ([]int, error) {
	var out []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of positive numbers", list)
		}
		out = append(out, n)
	}
	return out, nil
}

// cell is one line of the table: what is measured, for every server.
type cell struct {
	Op      string `json:"op"`
	Nodes   int    `json:"nodes"`
	Clients int    `json:"clients"`
}

func (c cell) String() string {
	nodes := "node"
	if c.Nodes > 1 {
		nodes = "nodes"
	}
	return fmt.Sprintf("%s, %d %s, %d clients", c.Op, c.Nodes, nodes, c.Clients)
}

func (cfg *config) cells() ([]cell, error) {
	var out []cell
	for _, op := range cfg.ops {
		for _, n := range cfg.nodes {
			switch op {
			case "put":
				for _, c := range cfg.clients {
					out = append(out, cell{op, n, c})
				}
			case "range":
				out = append(out, cell{op, n, 64})
			default:
				return nil, fmt.Errorf("no operation %q", op)
			}
		}
	}
	return out, nil
}

// report is the JSON file.
type report struct {
	Began    time.Time `json:"began"`
	Machine  machine   `json:"machine"`
	Summary  []summary `json:"summary"`
	Rounds   []round   `json:"rounds"`
	Failures []string  `json:"failures"`
}

func run(ctx context.Context, cfg *config) error {
	cells, err := cfg.cells()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(cfg.dir)
	if err != nil {
		return err
	}
	cfg.dir = dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rep := &report{Began: time.Now()}
	if rep.Machine, err = describe(dir); err != nil {
		return err
	}
	fmt.Println(rep.Machine)

	rates := make(map[string]float64) // server and cell → operations per second seen last
	for _, c := range cells {
		for r := range cfg.rounds {
			// Rounds alternate between servers and begin with another one each time, so that a slow spell of the machine or
			// a warm cache falls on all alike.
			for i := range cfg.servers {
				server := cfg.servers[(i+r)%len(cfg.servers)]
				if server == "floor" && c.Nodes > 1 {
					continue
				}
				got, err := cfg.measure(ctx, server, c, r, rates)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					rep.Failures = append(rep.Failures, fmt.Sprintf("%s, %s, round %d: %v", server, c, r+1, err))
					fmt.Printf("  %-9s %s, round %d DOES NOT COUNT: %v\n", server, c, r+1, err)
					continue
				}
				fmt.Println("  " + got.String())
				rep.Rounds = append(rep.Rounds, *got)
			}
		}
	}
	if rep.Machine.SyncAfter, err = syncTime(dir); err != nil {
		return err
	}
	fmt.Printf("\nfdatasync before %.3f ms, after %.3f ms\n\n", rep.Machine.SyncBefore, rep.Machine.SyncAfter)
	rep.Summary = summarize(cells, cfg.servers, rep.Rounds)
	printTable(os.Stdout, rep.Summary)

	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(cfg.out), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(cfg.out, append(b, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("\nevery round: %s\n", cfg.out)
	if len(rep.Failures) > 0 {
		return fmt.Errorf("%d of %d measurements do not count", len(rep.Failures), len(rep.Failures)+len(rep.Rounds))
	}
	return nil
}

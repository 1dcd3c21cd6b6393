// Command kv measures the kv door beside its peers, in alternating rounds on one machine. For the v3 API that is etcd's own
// load tool against etcd 3.7.3, Holdfast and the floor server, on one node and on three. For the v2 API (bench/kv/v2) it is
// hey and wrk against etcd 3.4 and Holdfast, three members each, in the matrix of etcd's published v2 report. With -api growth
// it is the costs that grow with history, watchers and size (bench/kv/growth). It prints tables
// and writes every round as JSON. It is not a load generator and not a test of correctness, though a round with an error or a
// missing write does not count.
//
//	kv [-api v3,v2,growth] [-clients 1,64,256] [-rounds N] [-seconds N]
//	   [-nodes 1,3] [-ops put,range] [-servers etcd,holdfast,floor]                        v3 only
//	   [-only REGEXP]                                                                      growth only; FULL=1: 5 million keys too
//	   [-sizes 64,256] [-v2-ops read,write] [-tools hey,wrk] [-targets leader,all]         v2 only
//
// Paths of the programs are those `make peers` and `make build` leave.
package main

import (
	"cmp"
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

	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/bench/kv/growth"
	"github.com/holdfastdb/holdfast/bench/kv/v2"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

type config struct {
	nodes, clients []int
	ops, servers   []string
	rounds         int
	seconds        int
	dir            string // holds the data directories; one file system for all
	out            string
	load           string // etcd's tools/benchmark
	memory         string // --memory of holdfast
	bins           map[string]string
}

func main() {
	cfg := config{bins: make(map[string]string)}
	var two v2.Config
	var grow growth.Config
	apis := flag.String("api", "v3,v2", "APIs to measure")
	clients := flag.String("clients", "1,64,256", "numbers of concurrent clients; range of v3 runs with 64")
	flag.IntVar(&cfg.rounds, "rounds", 0, "rounds; medians are shown (default 3 for v3, 7 for v2)")
	flag.IntVar(&cfg.seconds, "seconds", 0, "duration of one measurement, for v3 the least (default 10 for v3, 5 for v2)")
	flag.StringVar(&cfg.dir, "dir", "build/bench/data", "where data directories are made and removed")
	nodes := flag.String("nodes", "1,3", "v3: cluster sizes")
	ops := flag.String("ops", "put,range", "v3: operations")
	servers := flag.String("servers", "etcd,holdfast,floor", "v3: servers to compare; the floor has one node only")
	flag.StringVar(&cfg.out, "json", "build/bench/kv.json", "v3: where every round is written")
	flag.StringVar(&cfg.load, "load", "build/peers/benchmark", "v3: etcd's load tool")
	sizes := flag.String("sizes", "64,256", "v2: bytes of the value")
	ops2 := flag.String("v2-ops", "read,write", "v2: operations")
	tools := flag.String("tools", "hey,wrk", "v2: load tools; wrk reads only")
	targets := flag.String("targets", "leader,all", "v2: members that get the load")
	flag.StringVar(&two.JSON, "v2-json", "build/bench/kv-v2.json", "v2: where every round is written")
	flag.StringVar(&two.Plot, "plot", "build/bench/kv-v2.svg", "v2: where the plot is written")
	flag.StringVar(&two.Hey, "hey", "hey", "v2: load tool")
	flag.StringVar(&two.Wrk, "wrk", "wrk", "v2: load tool for reads")
	flag.StringVar(&two.Etcd, "etcd-3.4", "build/peers/etcd-3.4/etcd", "v2: the last series of etcd that has the API in Debian")
	bin := func(name, def string) {
		flag.Func(name, "binary of "+name+" (default "+def+")", func(s string) error { cfg.bins[name] = s; return nil })
		cfg.bins[name] = def
	}
	bin("etcd", "build/peers/etcd-3.7.3/etcd")
	bin("holdfast", "bin/holdfast")
	bin("floor", "build/bench/floor")
	flag.StringVar(&grow.Only, "only", "", "growth: experiments whose names match")
	flag.StringVar(&grow.JSON, "growth-json", "build/bench/kv-growth.json", "growth: where every round is written")
	flag.StringVar(&grow.Plot, "growth-plot", "build/bench/kv-growth.svg", "growth: where the plot is written")
	flag.StringVar(&grow.Against, "against", "", "growth: another holdfast in the place of etcd")
	memory := flag.String("memory", "", "--memory of holdfast (default "+proctest.Memory+", growth 2GiB: etcd has no bound, and takes up to 2.9 GB there)")
	flag.Parse()
	var err error
	if cfg.nodes, err = ints(*nodes); err == nil {
		cfg.clients, err = ints(*clients)
	}
	if err == nil {
		two.Sizes, err = ints(*sizes)
	}
	cfg.ops, cfg.servers = strings.Split(*ops, ","), strings.Split(*servers, ",")
	two.Clients, two.Holdfast, two.Dir, two.Rounds, two.Seconds = cfg.clients, cfg.bins["holdfast"], cfg.dir, cfg.rounds, cfg.seconds
	two.Ops, two.Tools, two.Targets = strings.Split(*ops2, ","), strings.Split(*tools, ","), strings.Split(*targets, ",")
	grow.Etcd, grow.Holdfast, grow.Floor, grow.Dir, grow.Rounds, grow.Full = cfg.bins["etcd"], cfg.bins["holdfast"], cfg.bins["floor"], cfg.dir, cfg.rounds, os.Getenv("FULL") == "1"
	cfg.memory, two.Memory = cmp.Or(*memory, proctest.Memory), cmp.Or(*memory, proctest.Memory)
	grow.Flags = []string{"--memory", cmp.Or(*memory, "2GiB")}
	setDefault(&grow.Rounds, 3)
	growSeconds := cfg.seconds
	setDefault(&growSeconds, 5)
	grow.Load = time.Duration(growSeconds) * time.Second
	setDefault(&cfg.rounds, 3)
	setDefault(&cfg.seconds, 10)
	setDefault(&two.Rounds, 7)
	setDefault(&two.Seconds, 5)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	for _, api := range strings.Split(*apis, ",") {
		if err != nil {
			break
		}
		switch api {
		case "v3":
			err = run(ctx, &cfg)
		case "v2":
			err = v2.Run(ctx, &two, os.Stdout)
		case "growth":
			err = growth.Run(ctx, &grow, os.Stdout)
		default:
			err = fmt.Errorf("no API %q", api)
		}
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench kv:", err)
		os.Exit(1)
	}
}

func setDefault(n *int, def int) {
	if *n <= 0 {
		*n = def
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
	Began    time.Time    `json:"began"`
	Machine  host.Machine `json:"machine"`
	Summary  []summary    `json:"summary"`
	Rounds   []round      `json:"rounds"`
	Failures []string     `json:"failures"`
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
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// One of its own: what else is in the directory named by the flag is not ours to remove.
	if dir, err = os.MkdirTemp(dir, "kv."); err != nil {
		return err
	}
	cfg.dir = dir
	defer os.RemoveAll(dir)
	rep := &report{Began: time.Now()}
	if rep.Machine, err = host.Describe(dir); err != nil {
		return err
	}
	fmt.Println(rep.Machine)
	fmt.Println("holdfast with --memory", cfg.memory)

	rates := make(map[string]float64) // server and cell → operations per second seen last
	for _, c := range cells {
		for r := range cfg.rounds {
			// Rounds alternate between servers, and each begins with another server. So a slow spell of the machine or a warm cache falls
			// on all alike.
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
	if rep.Machine.SyncAfter, err = host.SyncTime(dir); err != nil {
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

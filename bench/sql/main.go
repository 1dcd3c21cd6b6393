// Command sql measures the published report's five workloads of sysbench, which is Debian's and unmodified, on Holdfast and on Debian's
// MariaDB. Both sync every commit, in alternating rounds on one machine. It prints transactions and queries a second, the 95th percentile,
// the server's CPU for each statement, and its memory. Errors are printed by number where the server counts them. Then it prints the goals
// and their results.
//
// Both have the same memory: MariaDB's buffer pool is Holdfast's --memory without 512 MiB, which MariaDB needs beside it. From 200 threads
// on MariaDB runs twice, with a thread for each connection and with a pool of threads, and the better one counts.
//
// A sweep that was ended continues with -resume. Cells that the report already has for the same build, data and memory are not measured
// again.
//
// With -tpcc it measures TPC-C instead, by go-tpc. It judges the conditions of the specification by queries of its own, kills both servers
// in the middle of a round and judges them again.
//
// sysbench shares the machine with the servers. At many threads on few cores the ratio of rates says less about them than their CPU for
// each statement does. There is no floor beside them yet.
package main

import (
	"context"
	"errors"
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
)

// workloads are the scripts of the published report.
var workloads = []string{"oltp_point_select", "oltp_read_only", "oltp_write_only", "oltp_read_write", "oltp_update_non_index"}

// bench is one call of this program.
type bench struct {
	bin     string // the server of ours
	tables  int
	rows    int // of each table
	seconds int // of each round
	rounds  int // that count; one before them does not
	threads []int
	names   []string // of workloads
	memory  []int    // MiB
	cost    bool     // the door's cost for servers that do not use it is measured too

	warehouses  int // of TPC-C; 0: the workloads of sysbench are measured
	tpccThreads int
	goTPCPath   string
}

func main() {
	b := &bench{}
	flag.StringVar(&b.bin, "holdfast", "bin/holdfast", "the server")
	flag.IntVar(&b.tables, "tables", 10, "tables")
	flag.IntVar(&b.rows, "rows", 100000, "rows of each table")
	flag.IntVar(&b.seconds, "seconds", 10, "seconds of each round")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds of each server, behind one that does not count; the table has medians")
	flag.BoolVar(&b.cost, "cost", true, "measure what the door costs those who do not use it")
	flag.IntVar(&b.warehouses, "tpcc", 0, "measure TPC-C with so many warehouses instead of the workloads of sysbench")
	flag.IntVar(&b.tpccThreads, "tpcc-threads", 16, "connections of TPC-C")
	flag.StringVar(&b.goTPCPath, "go-tpc", "build/peers/go-tpc", "the client of TPC-C, which scripts/gotpc.sh builds")
	threads := flag.String("threads", "16,100,200,500,1000,2000,3000", "numbers of connections")
	memory := flag.String("memory", "1536", "--memory of Holdfast in MiB, several with commas between; MariaDB's buffer pool has 512 less, and 128 at least")
	names := flag.String("workloads", strings.Join(workloads, ","), "scripts of sysbench")
	resume := flag.Bool("resume", false, "go on with what the report at -json has")
	out := flag.String("json", "build/bench/sql.json", "where every round goes")
	plot := flag.String("plot", "build/bench/sql.svg", "where the plot goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.parse(*threads, *names, *memory)
	if err == nil {
		err = b.run(ctx, *out, *plot, *resume)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench sql:", err)
		os.Exit(1)
	}
}

// numbers reads a list of numbers that are least or more.
func numbers(name, list string, least int) (all []int, err error) {
	for item := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < least {
			return nil, fmt.Errorf("-%s: %q is no number from %d on", name, item, least)
		}
		all = append(all, n)
	}
	return all, nil
}

// parse takes the lists of the command line.
func (b *bench) parse(threads, names, memory string) (err error) {
	if b.threads, err = numbers("threads", threads, 1); err != nil {
		return err
	}
	if b.memory, err = numbers("memory", memory, 256); err != nil {
		return err
	}
	for item := range strings.SplitSeq(names, ",") {
		b.names = append(b.names, strings.TrimSpace(item))
	}
	if b.warehouses < 0 || b.tpccThreads < 1 {
		return errors.New("-tpcc is 0 at least, -tpcc-threads 1")
	}
	if b.tables < 1 || b.rows < 1 || b.seconds < 1 || b.rounds < 1 {
		return errors.New("-tables, -rows, -seconds and -rounds are 1 at least")
	}
	return nil
}

// run measures and prints. Results from before an error are printed and written all the same.
func (b *bench) run(ctx context.Context, out, picture string, resume bool) (err error) {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), "sql.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &Report{Began: time.Now(), Tables: b.tables, Rows: b.rows, Seconds: b.seconds}
	if r.Build, err = build(b.bin); err != nil {
		return err
	}
	if r.Machine, err = host.Describe(dir); err != nil {
		return err
	}
	if resume {
		if err := r.goOn(out); err != nil {
			return err
		}
	}
	fmt.Println(r.Machine)
	s := &sweep{bench: b, report: r, dir: dir, keep: func() error { return r.write(out) }}
	if b.warehouses > 0 {
		err = s.tpcc(ctx, b.warehouses, b.tpccThreads)
	} else {
		err = s.run(ctx)
	}
	if sync, e := host.SyncTime(dir); e == nil {
		r.Machine.SyncAfter = sync
	}
	r.judge()
	r.print(os.Stdout)
	if e := os.WriteFile(picture, r.chart(), 0o644); e == nil {
		fmt.Printf("\nevery round: %s\nplot: %s\n", out, picture)
	} else if err == nil {
		err = e
	}
	return errors.Join(err, r.write(out))
}

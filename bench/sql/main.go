// Command sql measures the published report's five workloads of sysbench, which is Debian's and unmodified, on Holdfast and on Debian's MariaDB,
// both with every commit synced, in alternating rounds on one machine. It prints transactions a second, the 95th percentile, the server's CPU for
// each statement and the errors, by number where the server counts them. There is no bar yet.
//
// sysbench shares the machine with the server: at many threads on few cores the ratio of rates says less about the servers than their CPU for
// each statement does.
package main

import (
	"context"
	"encoding/json"
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
	rounds  int
	threads []int
	names   []string // of workloads
}

func main() {
	b := &bench{}
	flag.StringVar(&b.bin, "holdfast", "bin/holdfast", "the server")
	flag.IntVar(&b.tables, "tables", 10, "tables")
	flag.IntVar(&b.rows, "rows", 100000, "rows of each table")
	flag.IntVar(&b.seconds, "seconds", 10, "seconds of each round")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds of each server; the table has medians")
	threads := flag.String("threads", "16,100", "numbers of connections")
	names := flag.String("workloads", strings.Join(workloads, ","), "scripts of sysbench")
	out := flag.String("json", "build/bench/sql.json", "where every round goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.parse(*threads, *names)
	if err == nil {
		err = b.run(ctx, *out)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench sql:", err)
		os.Exit(1)
	}
}

// parse takes the lists of the command line.
func (b *bench) parse(threads, names string) error {
	for item := range strings.SplitSeq(threads, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < 1 {
			return fmt.Errorf("-threads: %q is no number of connections", item)
		}
		b.threads = append(b.threads, n)
	}
	for item := range strings.SplitSeq(names, ",") {
		b.names = append(b.names, strings.TrimSpace(item))
	}
	if b.tables < 1 || b.rows < 1 || b.seconds < 1 || b.rounds < 1 {
		return errors.New("-tables, -rows, -seconds and -rounds are 1 at least")
	}
	return nil
}

// run measures and prints. What was measured before an error is written all the same.
func (b *bench) run(ctx context.Context, out string) (err error) {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), "sql.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &Report{Began: time.Now(), Tables: b.tables, Rows: b.rows, Seconds: b.seconds}
	if r.Machine, err = host.Describe(dir); err != nil {
		return err
	}
	fmt.Println(r.Machine)
	err = b.measure(ctx, dir, r)
	if sync, e := host.SyncTime(dir); e == nil {
		r.Machine.SyncAfter = sync
	}
	r.print(os.Stdout)
	text, e := json.MarshalIndent(r, "", "  ")
	if e == nil {
		e = os.WriteFile(out, append(text, '\n'), 0o644)
	}
	return errors.Join(err, e)
}

// measure runs every workload on both servers, one after the other, who is first changing with the round.
func (b *bench) measure(ctx context.Context, dir string, r *Report) error {
	var err error
	if r.Cost, err = b.cost(ctx, dir); err != nil {
		return err
	}
	fmt.Println(r.Cost)
	servers, err := b.start(dir)
	defer func() {
		for _, s := range servers {
			s.close()
		}
	}()
	if err != nil {
		return err
	}
	for _, s := range servers {
		began := time.Now()
		if _, err := b.sysbench(ctx, s, 16, "oltp_common", "prepare"); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		rate := float64(b.tables*b.rows) / time.Since(began).Seconds()
		r.Prepared = append(r.Prepared, Prepared{Server: s.name, Rows: rate})
		fmt.Printf("%s: %.0f rows/s loaded\n", s.name, rate)
	}
	for _, threads := range b.threads {
		for _, workload := range b.names {
			for round := range b.rounds {
				for i := range servers {
					s := servers[(i+round)%len(servers)]
					one, err := b.round(ctx, s, threads, workload)
					if err != nil {
						return fmt.Errorf("%s, %s, %d threads: %w", s.name, workload, threads, err)
					}
					r.Rounds = append(r.Rounds, one)
					fmt.Printf("%s, %d threads, %s: %.0f tps, p95 %.1f ms, %.1f µs of CPU a statement\n", workload, threads, s.name, one.Rate, one.P95ms, one.CPUus)
				}
			}
		}
	}
	for _, s := range servers {
		if _, err := b.sysbench(ctx, s, 1, "oltp_common", "cleanup"); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// Command txn measures transactions on rows without SQL and without the wire. It runs sysbench's shapes over doors/sql/txn, on a whole
// member in this process, with every commit synced. Its figures are the upper bound for the doors in front of it, and show their cost. It
// is no comparison with another server: bench/sql is.
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

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/bench/host"
)

// bench is one call of this program.
type bench struct {
	tables, rows int // of each table
	time         time.Duration
	threads      []int
	names        []string
	bulk         time.Duration // of the bulk load; 0: none
	writers      int           // of the bulk load
	batch        int           // rows of one of its transactions
}

func main() {
	b := &bench{}
	flag.IntVar(&b.tables, "tables", 10, "tables")
	flag.IntVar(&b.rows, "rows", 100_000, "rows of each table")
	flag.DurationVar(&b.time, "time", 5*time.Second, "of each shape")
	threads := flag.String("threads", "16", "numbers of transactions at a time")
	names := flag.String("shapes", strings.Join(shapeNames, ","), "what transactions do")
	flag.DurationVar(&b.bulk, "bulk", 15*time.Second, "of the bulk load; 0: there is none")
	flag.IntVar(&b.writers, "writers", 8, "transactions at a time of the bulk load")
	flag.IntVar(&b.batch, "batch", 200, "rows of a transaction of the bulk load")
	dir := flag.String("dir", "build/bench", "below which the member has its data meanwhile")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.parse(*threads, *names)
	if err == nil {
		err = b.run(ctx, *dir)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench txn:", err)
		os.Exit(1)
	}
}

// parse takes the lists of the command line.
func (b *bench) parse(threads, names string) error {
	for item := range strings.SplitSeq(threads, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < 1 {
			return fmt.Errorf("-threads: %q is no number of transactions", item)
		}
		b.threads = append(b.threads, n)
	}
	for item := range strings.SplitSeq(names, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if shapes[item] == nil {
			return fmt.Errorf("-shapes: there is no %q; there are: %s", item, strings.Join(shapeNames, ", "))
		}
		b.names = append(b.names, item)
	}
	if b.tables < 1 || b.rows < 200 || b.time <= 0 || b.writers < 1 || b.batch < 1 {
		return errors.New("-tables, -writers and -batch are 1 at least, -rows 200, and -time is more than 0")
	}
	return nil
}

// run measures and prints.
func (b *bench) run(ctx context.Context, below string) error {
	if err := os.MkdirAll(below, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(below, "txn.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	machine, err := host.Describe(dir)
	if err != nil {
		return err
	}
	fmt.Println(machine)
	var judged bars.List
	if b.bulk > 0 {
		if err := b.loadBulk(ctx, filepath.Join(dir, "bulk"), &judged); err != nil {
			return err
		}
	}
	if len(b.names) > 0 {
		if err := b.measure(ctx, filepath.Join(dir, "shapes"), &judged); err != nil {
			return err
		}
	}
	fmt.Println()
	judged.Print(os.Stdout)
	return nil
}

// The project's goals.
const (
	leastRowsPerSecond = 60_000
	mostDiskRatio      = 1.6
	mostApplyMicros    = 25
)

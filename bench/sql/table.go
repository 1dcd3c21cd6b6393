package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// print writes a row for each cell: medians, and the ratio of Holdfast to MariaDB behind each pair. Then what is published, and the bars.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d tables of %d rows, %d s a round; fdatasync before %.3f ms, after %.3f ms\n", r.Tables, r.Rows, r.Seconds, r.Machine.SyncBefore, r.Machine.SyncAfter)
	if r.Cost != nil {
		fmt.Fprintln(w, r.Cost)
	}
	for _, p := range r.Prepared {
		fmt.Fprintf(w, "%s, --memory %dMiB, took %.0f rows/s\n", p.Server, p.Memory, p.Rows)
	}
	if r.TPCC != nil {
		r.TPCC.print(w)
	}
	r.printCells(w)
	r.printPublished(w)
	fmt.Fprintln(w)
	r.Bars.Print(w)
}

// printCells writes the cells of sysbench.
func (r *Report) printCells(w io.Writer) {
	if len(r.cells()) == 0 {
		return
	}
	figures := []func(Round) float64{rate, p95, cpu, rss}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\nMiB\tworkload\tthreads\trounds\tqps\ttps\t%s\tratio\tp95 ms\t%[1]s\tratio\tCPU µs a statement\t%[1]s\tratio\tRSS MB\t%[1]s\tratio\terrors\t%[1]s\t\n", mariadb)
	for _, c := range r.cells() {
		ours, theirs := r.of(holdfast, c), r.theirs(c)
		name := c.Workload
		if theirs[0].Server == pooledMariaDB {
			name += " (pool)"
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%.0f\t", c.Memory, name, c.Threads, min(len(ours), len(theirs)), median(ours, qps))
		for _, f := range figures {
			a, b := median(ours, f), median(theirs, f)
			fmt.Fprintf(t, "%.1f\t%.1f\t%.2f\t", a, b, a/b)
		}
		fmt.Fprintf(t, "%s\t%s\t\n", failures(ours), failures(theirs))
	}
	_ = t.Flush() // to a terminal or a buffer
}

// failures are the errors of some rounds: by number, or as sysbench has counted them where the server does not count.
func failures(rounds []Round) string {
	codes, ignored := map[string]int64{}, int64(0)
	for _, o := range rounds {
		ignored += o.Errors
		for code, n := range o.Codes { // any order: sums
			codes[code] += n
		}
	}
	if len(codes) == 0 {
		return fmt.Sprint(ignored)
	}
	var all []string
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		all = append(all, fmt.Sprintf("%d × %s", codes[code], code))
	}
	return strings.Join(all, ", ")
}

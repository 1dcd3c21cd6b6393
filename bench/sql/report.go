package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// Report is everything that was measured.
type Report struct {
	Began    time.Time    `json:"began"`
	Machine  host.Machine `json:"machine"`
	Tables   int          `json:"tables"`
	Rows     int          `json:"rows"`
	Seconds  int          `json:"seconds"`
	Cost     Cost         `json:"cost"`
	Prepared []Prepared   `json:"prepared"`
	Rounds   []Round      `json:"rounds"`
}

// Prepared is how fast a server took the rows.
type Prepared struct {
	Server string  `json:"server"`
	Rows   float64 `json:"rows_per_second"`
}

// Round is one workload on one server, once.
type Round struct {
	Server   string           `json:"server"`
	Workload string           `json:"workload"`
	Threads  int              `json:"threads"`
	Rate     float64          `json:"transactions_per_second"`
	P95ms    float64          `json:"p95_ms"`
	CPUus    float64          `json:"cpu_per_statement_us"`
	Errors   int64            `json:"ignored_errors"`
	Codes    map[string]int64 `json:"errors_by_number,omitempty"`
}

// of returns the rounds of one cell of the table.
func (r *Report) of(server, workload string, threads int) (all []Round) {
	for _, o := range r.Rounds {
		if o.Server == server && o.Workload == workload && o.Threads == threads {
			all = append(all, o)
		}
	}
	return all
}

// median is that of a figure of some rounds.
func median(rounds []Round, of func(Round) float64) float64 {
	all := make([]float64, len(rounds))
	for i, o := range rounds {
		all[i] = of(o)
	}
	return host.Median(all)
}

// print writes a row for each workload and number of connections: medians, and the ratio of Holdfast to MariaDB behind each pair.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d tables of %d rows, %d s a round; fdatasync before %.3f ms, after %.3f ms\n", r.Tables, r.Rows, r.Seconds, r.Machine.SyncBefore, r.Machine.SyncAfter)
	fmt.Fprintln(w, r.Cost)
	for _, p := range r.Prepared {
		fmt.Fprintf(w, "%s took %.0f rows/s\n", p.Server, p.Rows)
	}
	figures := []func(Round) float64{func(o Round) float64 { return o.Rate }, func(o Round) float64 { return o.P95ms }, func(o Round) float64 { return o.CPUus }}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\nworkload\tthreads\trounds\ttps\t%s\tratio\tp95 ms\t%[1]s\tratio\tCPU µs a statement\t%[1]s\tratio\terrors\t%[1]s\t\n", mariadb)
	var seen []string
	for _, o := range r.Rounds {
		cell := fmt.Sprint(o.Workload, o.Threads)
		ours, theirs := r.of(holdfast, o.Workload, o.Threads), r.of(mariadb, o.Workload, o.Threads)
		if slices.Contains(seen, cell) || len(ours) == 0 || len(theirs) == 0 {
			continue
		}
		seen = append(seen, cell)
		fmt.Fprintf(t, "%s\t%d\t%d\t", o.Workload, o.Threads, min(len(ours), len(theirs)))
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

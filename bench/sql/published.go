package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// publishedRow is a row of EloqSQL 0.3.0's report of sysbench, of its smallest cluster, S. That has 16 processors for SQL, 8 for the log,
// 16 for its store and 32 for sysbench. Ten tables of a million rows, 60 s. Errors were ignored and not counted. Two of the five workloads
// were not published. The figures stand beside ours and are no ratio to them.
type publishedRow struct {
	Threads         int
	TPS, QPS, P95ms float64
}

var published = map[string][]publishedRow{
	"oltp_point_select": {
		{100, 145709.23, 145709.23, 0.97},
		{200, 147126.59, 147126.59, 2.11},
		{500, 120378.40, 120378.40, 5.18},
		{1000, 113480.04, 113480.04, 10.27},
		{2000, 111825.66, 111825.66, 19.65},
		{3000, 111853.52, 111853.52, 29.19},
	},
	"oltp_write_only": {
		{100, 18969.98, 114024.78, 6.79},
		{200, 20285.62, 122059.31, 14.21},
		{500, 19608.02, 118383.20, 36.89},
		{1000, 18738.20, 113850.77, 77.19},
		{2000, 18228.53, 111994.08, 158.63},
		{3000, 19035.88, 118349.57, 227.40},
	},
	"oltp_read_write": {
		{100, 3839.92, 76893.95, 31.94},
		{200, 4020.89, 80552.95, 58.92},
		{500, 3999.69, 80425.53, 150.29},
		{1000, 3854.17, 77794.61, 308.84},
		{2000, 3572.60, 72579.76, 601.29},
		{3000, 3393.22, 69706.56, 926.33},
	},
}

// publishedProcessors is how many the published cluster had for SQL alone.
const publishedProcessors = 16

// publishedFor is the published row of a cell, nil if there is none.
func publishedFor(c Cell) *publishedRow {
	rows := published[c.Workload]
	if i := slices.IndexFunc(rows, func(p publishedRow) bool { return p.Threads == c.Threads }); i >= 0 {
		return &rows[i]
	}
	return nil
}

// printPublished writes the published rows of the cells that were measured, beside ours: per second, and per second and processor.
func (r *Report) printPublished(w io.Writer) {
	var t *tabwriter.Writer
	for _, c := range r.cells() {
		p := publishedFor(c)
		if p == nil {
			continue
		}
		if t == nil {
			fmt.Fprintf(w, "\nEloqSQL 0.3.0's published cluster S (%d processors for SQL, 24 for its log and store, sysbench elsewhere), and Holdfast here (%d, with sysbench):\n", publishedProcessors, r.Machine.Cores)
			t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprint(t, "MiB\tworkload\tthreads\tqps published\tper processor\tqps here\tper processor\tp95 ms published\there\t\n")
		}
		ours := r.of(holdfast, c)
		q := median(ours, qps)
		fmt.Fprintf(t, "%d\t%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t\n", c.Memory, c.Workload, c.Threads, p.QPS, p.QPS/publishedProcessors, q, q/float64(max(r.Machine.Cores, 1)), p.P95ms, median(ours, p95))
	}
	if t != nil {
		_ = t.Flush() // to a terminal or a buffer
	}
}

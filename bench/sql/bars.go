package main

import (
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/bench/bars"
)

// wanted is the goal for a workload beside MariaDB. It has the least transactions at 16 and at 100 threads, and the most CPU of the server
// for each statement.
type wanted struct{ at16, at100, cpu float64 }

var wants = map[string]wanted{
	"oltp_point_select":     {1.15, 1.5, 0.7},
	"oltp_read_only":        {1.4, 1.4, 0.6},
	"oltp_write_only":       {1.05, 1.35, 0.9},
	"oltp_read_write":       {1.25, 1.35, 0.75},
	"oltp_update_non_index": {1.0, 1.15, 0.9},
}

// The 95th percentile beside MariaDB's, at most.
const (
	p95At16  = 1.3
	p95At100 = 1.0
)

// crowdFrom is the number of connections from which on MariaDB may not be ahead at all.
const crowdFrom = 200

// judge compares the measurements with the goals. The memory that MariaDB shares is the first; others are shown and not judged.
func (r *Report) judge() {
	r.Bars = bars.List{}
	if t := r.TPCC; t != nil {
		name := fmt.Sprintf("TPC-C, %d warehouses, %d threads", t.Warehouses, t.Threads)
		r.Bars.AtLeast(name+": new orders beside MariaDB's", 1, t.ratio(tpmC), "x")
		r.Bars.AtMost(name+": conditions that are broken, behind a kill -9 too", 0, float64(len(t.Broken[holdfast])), "")
	}
	memory := math.MaxInt
	for _, c := range r.cells() {
		if memory == math.MaxInt {
			memory = c.Memory
		}
		want, known := wants[c.Workload]
		if c.Memory != memory || !known {
			continue
		}
		ours, theirs := r.of(holdfast, c), r.theirs(c)
		beside := func(f func(Round) float64) float64 { return median(ours, f) / median(theirs, f) }
		name := fmt.Sprintf("%s, %d threads", c.Workload, c.Threads)
		switch {
		case c.Threads >= crowdFrom:
			r.Bars.AtLeast(name+": transactions beside MariaDB's better scheduler", 1, beside(rate), "x")
			continue
		case c.Threads >= 100:
			r.Bars.AtLeast(name+": transactions beside MariaDB's", want.at100, beside(rate), "x")
			r.Bars.AtMost(name+": p95 beside MariaDB's", p95At100, beside(p95), "x")
		case c.Threads >= 16:
			r.Bars.AtLeast(name+": transactions beside MariaDB's", want.at16, beside(rate), "x")
			r.Bars.AtMost(name+": p95 beside MariaDB's", p95At16, beside(p95), "x")
		default:
			continue
		}
		r.Bars.AtMost(name+": the server's CPU for each statement beside MariaDB's", want.cpu, beside(cpu), "x")
	}
}

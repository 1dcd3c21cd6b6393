package main

import (
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/bench/bars"
)

// judge holds a report against what the project set itself.
func judge(r *Report) (out bars.List) {
	by := func(work, server, other string, of func(*Sample) float64) float64 {
		return r.find(withAB, work, abClients, server).times(r.find(withAB, work, abClients, other), of)
	}
	// The room that ApacheBench and the service leave on the machine may be less than the bar: then nine tenths of the floor's rate.
	want, what := 2.2, "0 SQL, rate beside DTM"
	if bound := 0.9 * by("0 SQL", floor, dtm, rate); bound < want {
		want, what = bound, what+" (0.9 of the floor's, which is less than 2.2×)"
	}
	out.AtLeast(what, want, by("0 SQL", holdfast, dtm, rate), "×")
	out.AtMost("0 SQL, coordinator's CPU per saga beside DTM and its MariaDB", 0.25, by("0 SQL", holdfast, dtm, cpu), "×")
	for _, n := range []int{20, 64} {
		out.AtLeast(fmt.Sprintf("0 SQL by our load tool, %d clients, rate beside DTM", n), 4,
			r.find(withOurs, emptyWork, n, holdfast).times(r.find(withOurs, emptyWork, n, dtm), rate), "×")
	}
	out.AtLeast("2 SQL, rate beside DTM", 1.25, by("2 SQL", holdfast, dtm, rate), "×")
	out.AtLeast("2 SQL with barrier, rate beside DTM", 1.15, by("2 SQL, barrier", holdfast, dtm, rate), "×")
	out.AtLeast("10 SQL, rate beside DTM", 1.05, by("10 SQL", holdfast, dtm, rate), "×")
	out.AtLeast("2 SQL, rate beside no coordinator", 0.65, by("2 SQL", holdfast, none, rate), "×")
	out.AtLeast("2 SQL with barrier, rate beside no coordinator and no barrier", 0.6,
		r.find(withAB, "2 SQL, barrier", abClients, holdfast).times(r.find(withAB, "2 SQL", abClients, none), rate), "×")
	out.AtLeast("0 SQL, three nodes, rate beside one DTM", 1.5, by("0 SQL", three, dtm, rate), "×")
	out = append(out, partBars(r)...)
	return out
}

// partBars are the bars of the parts measured once or in a way of their own.
func partBars(r *Report) (out bars.List) {
	recovery := math.NaN()
	for _, one := range r.Recovery {
		if one.Server == holdfast {
			recovery = one.Seconds
			if recovery == 0 {
				recovery = math.Inf(1)
			}
		}
	}
	out.AtMost("10,000 sagas killed with their second call hanging, all finished after the restart", 10, min(recovery, 1e6), " s")
	ratio, _ := r.besideRatio(holdfast)
	out.AtMost("p99 of 300 sagas/s beside 30/s to a service that never answers, beside without", 1.25, ratio, "×")
	late, early := math.NaN(), math.NaN()
	killed := math.NaN()
	for _, d := range r.Delayed {
		switch {
		case d.Server == holdfast:
			late, early = d.P99, float64(d.Early+d.Lost)
		case d.Server == three && d.Killed:
			killed = float64(d.Early + d.Lost)
		}
	}
	out.AtMost("10,000 delayed messages, early or not delivered", 0, early, "")
	out.AtMost("10,000 delayed messages, late by p99", 20, late, " ms")
	out.AtMost("10,000 delayed messages, leader of three killed, early or not delivered", 0, killed, "")
	ready, rss, due := math.NaN(), math.NaN(), math.NaN()
	if t := r.Timers; t != nil {
		ready, rss, due = t.Ready, megabytes(t.RSS-t.Idle), t.Due.P99
		if t.Due.Early+t.Due.Lost > 0 {
			due = 1e6
		}
	}
	out.AtMost("open timers, ready after a restart", 5, ready, " s")
	out.AtMost("open timers, memory above an idle server", 60, rss, " MB")
	out.AtMost("open timers, those due after the restart late by p99", 20, due, " ms")
	return out
}

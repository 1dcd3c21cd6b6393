package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/bench/host"
)

// judge holds a report against what the project set itself.
func judge(r *Report) (out bars.List) {
	constant, spread := r.get("sweep", stored, mostUsers), r.get("spread", stored, mostUsers)
	out.AtMost("CPU of the app, 20 users, --ack archive", 500, constant.median(appCPU), " µs a request")
	out.AtMost("p95 of 20 users above the store's own median, uploads of one length", 15,
		constant.median(func(s *Sample) float64 { return s.P95 - s.BareP50 }), " ms")
	out.AtMost("p95 of 20 users above the store's own p95, uploads spread", 15,
		spread.median(func(s *Sample) float64 { return s.P95 - s.BareP95 }), " ms")
	out.AtMost("PUTs for 1,000 commits, 20 users, --ack archive", 80, constant.median(perThou), "")
	ours, peer := r.get("pair", local, mostUsers), r.get("pair", litestream, mostUsers)
	out.AtLeast("--ack local beside Litestream, 20 users, rate", 0.97, ours.beside(peer, rate), "×")
	out.AtMost("--ack local beside Litestream, 20 users, memory of the agent", 0.7, ours.beside(peer, memory), "×")
	out.AtMost("acknowledged commits that kills have lost, --ack archive", 0, r.lost(stored), "")
	return out
}

// lost is how many answered commits a side lost by all kills; NaN if it was not killed.
func (r *Report) lost(side string) float64 {
	sum, n := 0.0, 0
	for _, k := range r.Kills {
		if k.Side == side {
			sum += float64(k.Lost)
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum
}

// print writes the tables and the verdicts.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "\nfdatasync before %.3f ms, after %.3f ms\n\n", r.Machine.SyncBefore, r.Machine.SyncAfter)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "part\tupload\tside\tusers\tmed ms\tavg\tp90\tp95\tmin\tmax\tper s\tapp µs\tagent µs\tagent MB\tPUTs/1,000\tall/1,000\tbare p50\tbare p95\t\n")
	for _, f := range r.Figures {
		of := f.median
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", f.Part, f.Delay, f.Side, f.Users,
			of(med), of(func(s *Sample) float64 { return s.Avg }), of(func(s *Sample) float64 { return s.P90 }), of(p95),
			of(func(s *Sample) float64 { return s.Least }), of(func(s *Sample) float64 { return s.Most }), of(rate), of(appCPU), of(agentCPU), of(memory),
			of(perThou), of(func(s *Sample) float64 { return s.AllPerThou }), of(func(s *Sample) float64 { return s.BareP50 }),
			of(func(s *Sample) float64 { return s.BareP95 }))
	}
	for _, side := range publishedSides {
		for _, p := range published[side] {
			fmt.Fprintf(tw, "\t\t%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t\t\t\t\t\t\t\t\n", side, p.Users, p.Med, p.Avg, p.P90, p.P95, p.Least, p.Most,
				1000*float64(p.Users)/p.Avg)
		}
	}
	tw.Flush()
	r.printEnds(w)
	fmt.Fprint(w, "\nMedians over the rounds. App and agent share one core. bare: single uploads of 4 KiB, four at a time, before the round. framework: the app\n"+
		"burns 4.7 ms of its core for each request, as the published one did; it is not Rails. published: other hardware, quoted; per s is users / avg.\n\n")
	r.Bars.Print(w)
}

// printEnds writes what kills lost, and how long others took to go on.
func (r *Report) printEnds(w io.Writer) {
	for _, side := range []string{litestream, local, stored} {
		var lost, restore, again, first []float64
		most := int64(0)
		for _, k := range r.Kills {
			if k.Side == side {
				lost, restore, most = append(lost, float64(k.Lost)), append(restore, k.Seconds), max(most, k.Lost)
			}
		}
		for _, t := range r.Takeovers {
			if t.Side == side {
				again, first = append(again, t.Restore), append(first, t.First)
			}
		}
		if len(lost) > 0 {
			fmt.Fprintf(w, "\n%s, %d kills under load: of the answered commits %.0f lost in all, %.0f as the median, %d at most; restored in %.2f s", side, len(lost),
				r.lost(side), host.Median(lost), most, host.Median(restore))
		}
		if len(again) > 0 {
			fmt.Fprintf(w, "\n%s, a database of %d MB: restored in %.2f s; another machine answers the first request after %.2f s", side, r.Takeovers[0].MB,
				host.Median(again), host.Median(first))
		}
	}
	fmt.Fprintln(w)
}

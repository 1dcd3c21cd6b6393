package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/bench/bars"
)

// The bar of --ack archive is for this many clients and this upload.
const (
	barClients = 64
	barDelay   = 50 * time.Millisecond
)

// judge holds a report against what the project set itself.
func judge(r *Report) (out bars.List) {
	f := func(mode string, size int, delayMs float64) *Figure {
		for _, f := range r.Figures {
			if f.Mode == mode && f.Clients == barClients && f.Size == size && f.DelayMs == delayMs {
				return f
			}
		}
		return nil
	}
	stored := f(ackStored, smallValue, ms(barDelay))
	out.AtLeast("--ack archive, 64 clients, 50 ms an upload, puts a second", 1000, stored.median(rate), "")
	out.AtMost("p95 above the store's own", 15, stored.median(func(s *Sample) float64 { return s.P95 - s.BareP95 }), " ms")
	out.AtMost("uploads a second", 100, stored.median(func(s *Sample) float64 { return s.Uploads }), "")
	for _, delay := range []float64{5, 50} {
		plain, shipping := f(without, smallValue, delay), f(ackCommit, smallValue, delay)
		out.AtLeast(fmt.Sprintf("--ack commit beside no archive, %g ms an upload, rate", delay), 0.95, shipping.beside(plain, rate), "×")
	}
	idle, ten, rss := math.NaN(), math.NaN(), math.NaN()
	if q := r.Quiet; q != nil {
		idle, ten, rss = float64(q.Idle), q.TenPuts, q.Shipping/1e6
	}
	out.AtMost("memory of an archive, idle", 10, rss, " MB")
	out.AtMost("requests of an idle server", 0, idle, "")
	out.AtMost("requests a second at ten puts a second", 1.2, ten, "")
	return out
}

// print writes the tables and the verdicts.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "\nfdatasync before %.3f ms, after %.3f ms\n\n", r.Machine.SyncBefore, r.Machine.SyncAfter)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "upload ms\tmode\tclients\tvalue\tputs/s\t\tp50 ms\tp95 ms\tp99 ms\tbare p50\tbare p95\tCPU µs/put\t\tRSS MB\tuploads/s\tper 1,000 puts\tshipped MB/s\tCPU ms/shipped MB\t\n")
	for _, f := range r.Figures {
		plain := r.plain(f)
		of := func(pick func(*Sample) float64) float64 { return f.median(pick) }
		fmt.Fprintf(tw, "%g\t%s\t%d\t%d\t%.0f\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%s\t%.0f\t%.1f\t%.1f\t%.2f\t%s\t\n", f.DelayMs, f.Mode, f.Clients, f.Size, of(rate),
			bracket(f.beside(plain, rate)), of(func(s *Sample) float64 { return s.P50 }), of(func(s *Sample) float64 { return s.P95 }),
			of(func(s *Sample) float64 { return s.P99 }), of(func(s *Sample) float64 { return s.BareP50 }), of(func(s *Sample) float64 { return s.BareP95 }),
			of(cpu), bracket(f.beside(plain, cpu)), of(memory)/1e6, of(func(s *Sample) float64 { return s.Uploads }),
			of(func(s *Sample) float64 { return s.PerThou }), of(func(s *Sample) float64 { return shipped(s) / s.Seconds }), f.perMB(plain))
	}
	tw.Flush()
	if q := r.Quiet; q != nil {
		fmt.Fprintf(w, "\nidle: %d requests in %.0f s, %+.1f MB beside a server without an archive; ten puts a second: %.2f requests a second\n", q.Idle, q.IdleSeconds,
			q.Shipping/1e6, q.TenPuts)
	}
	for _, one := range r.Restore {
		fmt.Fprintf(w, "restore of %.2f GB of values from a %s: %.1f s (%.1f s a GB), CPU %.1f s, at most %.0f MB\n", float64(one.Bytes)/1e9, one.From, one.Seconds,
			one.Seconds/float64(one.Bytes)*1e9, one.CPU, float64(one.RSS)/1e6)
	}
	fmt.Fprint(w, "\nMedians over the rounds. In brackets: beside no archive in the same round. bare: single uploads of 16 KiB by the same client, beside the round.\n\n")
	r.Bars.Print(w)
}

// perMB is what a shipped megabyte costs of the server's processor time, where only the archive makes the difference.
func (f *Figure) perMB(plain *Figure) string {
	if f.Mode != ackCommit || plain == nil || len(plain.Rounds) == 0 {
		return ""
	}
	more := f.median(func(s *Sample) float64 { return s.CPU * s.PerSecond * s.Seconds / 1e3 / shipped(s) })
	base := plain.median(cpu) / f.median(cpu)
	return fmt.Sprintf("%.1f", more*(1-base))
}

// bracket is a ratio, or nothing.
func bracket(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("(%.2f×)", v)
}

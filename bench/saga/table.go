package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// print writes the tables and the verdicts.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "\nfdatasync before %.3f ms, after %.3f ms\n", r.Machine.SyncBefore, r.Machine.SyncAfter)
	r.printPublished(w)
	r.printOwn(w)
	for _, one := range r.Recovery {
		fmt.Fprintf(w, "\n%s\n", one)
	}
	for _, server := range []string{dtm, holdfast} {
		if ratio, rounds := r.besideRatio(server); rounds > 0 {
			fmt.Fprintf(w, "\n%s: p99 of %d sagas/s beside %d/s to a service that never answers is %.2f× of that without (median of %d rounds)\n", server,
				goodRate, badRate, ratio, rounds)
		}
	}
	for _, one := range r.Delayed {
		fmt.Fprintf(w, "\n%s\n", one)
	}
	if r.Timers != nil {
		fmt.Fprintf(w, "\n%s\n", r.Timers)
	}
	fmt.Fprintln(w)
	r.Bars.Print(w)
}

// printPublished is the table in the shape of DTM's report, beside its own figures.
func (r *Report) printPublished(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := 0
	fmt.Fprint(tw, "work\tcoordinator\tGlobal-TPS\t±\t\tof none\tDB-TPS\tOPS\tp50 ms\tp99 ms\tcoordinator µs\tits database µs\t\tbusiness database µs\tservice µs\tab µs\tRSS MB\tpublished: Global\tDB\tOPS\t\n")
	for _, work := range works {
		for _, server := range serverNames {
			f := r.find(withAB, work.name, abClients, server)
			if f == nil {
				continue
			}
			rows++
			tps := f.median(rate)
			alone := f.times(r.find(withAB, work.name, abClients, none), rate)
			if work.barrier {
				alone = f.times(r.find(withAB, worksWithout(work), abClients, none), rate)
			}
			if server == none {
				alone = math.NaN()
			}
			fmt.Fprintf(tw, "%s\t%s\t%.0f\t%s\t%s\t%s\t%.0f\t%.0f\t", work.name, titles[server], tps, plusMinus(f), bracket(r.ratio(f, rate)), share(alone),
				tps*float64(work.transactions(server)), tps*float64(work.statements(server)))
			fmt.Fprintf(tw, "%.1f\t%.1f\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%s\t", f.median(p50), f.median(p99), orDash(f.median(serverCPU)),
				orDash(f.median(databaseCPU)), bracket(r.ratio(f, cpu)), f.median(businessCPU), f.median(serviceCPU), f.median(toolCPU),
				orDash(f.median(memory)))
			if p := publishedFor(work.name, server); p != nil {
				fmt.Fprintf(tw, "%s\t%s\t%s\t\n", orDash(float64(p.Global)), orDash(float64(p.Transactions)), orDash(float64(p.Statements)))
			} else {
				fmt.Fprint(tw, "\t\t\t\n")
			}
		}
	}
	if rows == 0 {
		return
	}
	fmt.Fprintf(w, "\nDTM's published table: its bench service, ab -c %d without keep-alive, MariaDB as the business database\n", abClients)
	tw.Flush()
	fmt.Fprint(w, `Medians over the rounds; in brackets: as a multiple of DTM (rate, CPU of the coordinator with its database), medians of each round's ratio.
DB-TPS and OPS are computed as the report does: with DTM four transactions and 10, 12 or 26, 28 statements for each saga; a coordinator without a
database has the services' own two transactions. Published: DTM's report of 2021, on four cores and MySQL 5.7; for orientation.
`)
}

// worksWithout is the row without the barrier.
func worksWithout(w work) string {
	for _, o := range works {
		if o.pairs == w.pairs && !o.barrier {
			return o.name
		}
	}
	return ""
}

// printOwn is the table of our load tool.
func (r *Report) printOwn(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := 0
	fmt.Fprint(tw, "work\tclients\tcoordinator\tsagas/s\t±\t\tp50 ms\tp99 ms\tmost ms\tcoordinator µs\tits database µs\t\tload and services µs\tRSS MB\tcompensated/s\trepeated calls\t\n")
	for _, f := range r.Figures {
		if f.Load != withOurs || len(f.Rounds) == 0 {
			continue
		}
		rows++
		repeated := 0
		for _, s := range f.Rounds {
			repeated += s.Repeated
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%.0f\t%s\t%s\t%.1f\t%.1f\t%.0f\t%s\t%s\t%s\t%.0f\t%s\t%s\t%d\t\n", f.Work, f.Clients, titles[f.Server], f.median(rate),
			plusMinus(f), bracket(r.ratio(f, rate)), f.median(p50), f.median(p99), f.median(most), orDash(f.median(serverCPU)), orDash(f.median(databaseCPU)),
			bracket(r.ratio(f, cpu)), f.median(serviceCPU), orDash(f.median(memory)), orDash(f.median(undone)), repeated)
	}
	if rows == 0 {
		return
	}
	fmt.Fprint(w, "\nOur load tool: one connection for each client, kept; services in the same process as the load\n")
	tw.Flush()
}

// ratio is how many times as much a figure has as DTM's; NaN for a server that is no compared coordinator.
func (r *Report) ratio(f *Figure, of func(*Sample) float64) float64 {
	if f.Server == dtm || f.Server == none {
		return math.NaN()
	}
	return f.times(r.beside(f, dtm), of)
}

// titles are the coordinators for people.
var titles = map[string]string{none: "none", dtm: "DTM", holdfast: "Holdfast", three: "Holdfast, 3 nodes", floor: "floor"}

// Further figures of a sample for the tables.
func serverCPU(s *Sample) float64   { return s.Server }
func databaseCPU(s *Sample) float64 { return s.Database }
func businessCPU(s *Sample) float64 { return s.Business }
func serviceCPU(s *Sample) float64  { return s.Service }
func toolCPU(s *Sample) float64     { return s.Tool }
func memory(s *Sample) float64      { return megabytes(s.Memory) }
func most(s *Sample) float64        { return s.Max }

// undone is a second.
func undone(s *Sample) float64 { return s.PerSecond * float64(s.Undone) / float64(s.Sagas) }

func plusMinus(f *Figure) string {
	if len(f.Rounds) < 2 {
		return ""
	}
	return fmt.Sprintf("%.0f", f.deviation())
}

// bracket is a ratio, or nothing.
func bracket(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("(%.2f×)", v)
}

func share(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

// orDash is a whole number, or a dash for nothing.
func orDash(v float64) string {
	if v == 0 || math.IsNaN(v) {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

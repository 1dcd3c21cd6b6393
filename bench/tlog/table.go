package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// places in display order, with the titles of their parts of the table.
var places = []struct{ name, title string }{
	{wholeMachine, "Server and load on the whole machine"},
	{smallMachine, "One processor and 1 GB for the server, as in the published report"},
	{withMySQL, "Server, load and MariaDB on the whole machine; Holdfast publishes to it"},
}

// print writes the tables and the verdicts.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "\nfdatasync before %.3f ms, after %.3f ms\n", r.Machine.SyncBefore, r.Machine.SyncAfter)
	if r.Proofs != nil {
		fmt.Fprintf(w, "\n%s\n", r.Proofs)
	}
	for _, m := range r.Many {
		fmt.Fprintln(w, m)
	}
	for _, b := range r.Bundles {
		fmt.Fprintln(w, b)
	}
	for _, p := range places {
		for _, tool := range []string{withHammer, withOurs} {
			r.table(w, p.name, p.title, tool)
		}
	}
	fmt.Fprint(w, `
Medians over the rounds. Times are of single adds in ms, min/avg/max; the hammer does not tell them without a terminal. One to integrate
is up to 20 ms too long. In brackets: as a multiple of Tessera's server. load's: CPU of the load tool, µs per add. disk: bytes of the
stopped server's directory for an entry and its hashes (entries of ours have 64 bytes, most of them random, the hammer's a few), not
counting Holdfast's log of commands, which does not grow with the tree; –: no entry is in files yet. files: of the last round. With 512/s
offered the hammer has the published flags and repeats one entry in ten; Tessera drops those.
`)
	fmt.Fprintln(w)
	r.Bars.Print(w)
}

// table is in the shape of the published report's: writes a second over a window, offered, writers, time in queue, time to
// integrate.
func (r *Report) table(w io.Writer, place, title, tool string) {
	var figures []*Figure
	for _, f := range r.Figures {
		if f.Place == place && f.Tool == tool && len(f.Rounds) > 0 {
			figures = append(figures, f)
		}
	}
	if len(figures) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s, load by %s\n", title, toolNames[tool])
	if place == smallMachine {
		fmt.Fprintf(w, "(%s)\n", r.Small)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "server\twriters\toffered/s\twrites/s\t±\t\tin queue\tp99\tto integrate\tCPU µs/add\t\tload's\tbusy\tRSS MB\tdisk B/add\tlog MB\tfiles\twarnings\t\n")
	for _, f := range figures {
		offered, spread := "all", ""
		if f.Rate > 0 {
			offered = strconv.Itoa(f.Rate)
		}
		if len(f.Rounds) > 1 {
			spread = fmt.Sprintf("%.0f", f.deviation())
		}
		last := &f.Rounds[len(f.Rounds)-1]
		warnings := 0
		for _, s := range f.Rounds {
			warnings += s.Warnings
		}
		var other *Figure
		if f.Server != f.peer() {
			other = r.beside(f, f.peer())
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%.1f\t%s\t%.1f\t%.0f %%\t%.0f\t%s\t%d\t%d\t%d\t\n",
			f.Server, f.Writers, offered, f.median(rate), spread, bracket(f.times(other, rate)),
			f.spread(func(s *Sample) *Spread { return s.Queue }), figureOf(f.median(func(s *Sample) float64 { return p99(s.Queue) })),
			f.spread(func(s *Sample) *Spread { return s.Integrate }), f.median(cpu), bracket(f.times(other, cpu)),
			f.median(func(s *Sample) float64 { return s.LoadCPU }), 100*f.median(func(s *Sample) float64 { return s.Busy }),
			f.median(memory), figureOf(f.median(disk)), last.Log>>20, last.Files, warnings)
	}
	if place == smallMachine && tool == withOurs {
		for _, p := range published {
			fmt.Fprintf(tw, "published, %s\t%d\t%.0f\t%.0f\t\t\t%s\t\t%s\t\t\t\t\t\t\t\t\t\t\n", p.Run, p.Writers, p.Offered, p.PerSecond, p.Queue, p.Integrate)
		}
	}
	tw.Flush()
	for _, f := range figures {
		if place != withMySQL {
			break
		}
		fmt.Fprintf(w, "%s: MariaDB used %.0f %% of a processor", f.Server, 100*f.median(func(s *Sample) float64 { return s.Database }))
		if late := f.behind(); !math.IsNaN(late) {
			fmt.Fprintf(w, "; what is published was at most %.1f s behind the log", late)
		}
		fmt.Fprintln(w)
	}
}

// toolNames are those of Figure.Tool for people.
var toolNames = map[string]string{withHammer: "Tessera's hammer", withOurs: withOurs}

func (s PubSpread) String() string { return fmt.Sprintf("%.0f/%.0f/%.0f", s.Min, s.Avg, s.Max) }

// spread is the least, the median of the averages and the most of all rounds.
func (f *Figure) spread(of func(*Sample) *Spread) string {
	low, high := math.Inf(1), 0.0
	for i := range f.Rounds {
		if s := of(&f.Rounds[i]); s != nil {
			low, high = min(low, s.Min), max(high, s.Max)
		}
	}
	if high == 0 {
		return "–"
	}
	return figureOf(low) + "/" + figureOf(f.median(func(s *Sample) float64 { return avg(of(s)) })) + "/" + figureOf(high)
}

func p99(s *Spread) float64 {
	if s == nil {
		return math.NaN()
	}
	return s.P99
}

// figureOf writes a time in milliseconds with as many digits as matter.
func figureOf(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// bracket is a ratio, or nothing.
func bracket(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("(%.2f×)", v)
}

package v2

import (
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/bench/plot"
)

// leastLatency is what hey does not tell from zero, in milliseconds.
const leastLatency = 0.1

// chart is the table as a page of bars.
func chart(rep *Report) []byte {
	c := plot.Chart{
		Title: "The etcd v2 benchmark: etcd 3.4 and Holdfast, three members on one machine",
		Lead: []string{
			fmt.Sprintf("%s, %d processors, client included, fdatasync %.2f ms; %s",
				rep.Machine.CPU, rep.Machine.Cores, rep.Machine.SyncBefore, rep.Began.UTC().Format("2 January 2006")),
			fmt.Sprintf("medians of %s of %d s, the servers taking turns; thin lines: standard deviation; blue numbers: Holdfast as a "+
				"multiple of etcd 3.4", roundsOf(rep.Lines), rep.Seconds),
		},
		Notes: []string{
			"Published: etcd 2.2.0, means of 100 short runs; each member and the load tool on a machine of its own (2 processors, local SSD), so its figures are shown for",
			"orientation and not compared. Its reads of all members were made one member after the other and added up; here all are read at the same time.",
		},
		Series: []plot.Series{{Name: "etcd 3.4 with v2 enabled", Look: plot.Peer}, {Name: "Holdfast", Look: plot.Ours}},
		Mark:   "published figures of etcd 2.2.0, other machines",
		Panels: []plot.Panel{
			{Title: "requests per second", Width: 320, Edge: 432, Least: leastLatency},
			{Title: "90th percentile, ms (log)", X: 450, Width: 175, Log: true, Least: leastLatency},
			{Title: "servers' CPU, µs per request", X: 700, Width: 180, Edge: 980, Least: leastLatency},
		},
	}
	for _, g := range groups(rep.Lines) {
		part := plot.Group{Title: g.title}
		for i := range g.lines {
			l := &g.lines[i]
			row := plot.Row{Label: label(l.Cell), Bars: []plot.Bar{bar(0, l.Etcd), bar(1, l.Holdfast)}, Ratios: []float64{l.Speed, 0, l.CPU}}
			if p := publishedFor(l.Cell); p != nil {
				row.Marks = []float64{p.PerSecond, p.P90, 0}
			}
			part.Rows = append(part.Rows, row)
		}
		c.Groups = append(c.Groups, part)
	}
	return c.SVG()
}

// bar has the figures in the order of the panels.
func bar(series int, f *Figures) plot.Bar {
	if f == nil {
		return plot.Bar{Series: series}
	}
	return plot.Bar{Series: series, Values: []plot.Value{{V: f.PerSecond, Deviation: f.Deviation}, {V: f.P90}, {V: f.CPU}}}
}

// roundsOf says how many rounds there were, and if some did not count that.
func roundsOf(lines []Line) string {
	low, high := math.MaxInt, 0
	for _, l := range lines {
		for _, f := range []*Figures{l.Etcd, l.Holdfast} {
			if f != nil {
				low, high = min(low, f.Rounds), max(high, f.Rounds)
			}
		}
	}
	switch {
	case high == 0:
		return "no round"
	case low == high && low == 1:
		return "1 round"
	case low == high:
		return fmt.Sprintf("%d rounds", low)
	}
	return fmt.Sprintf("%d to %d rounds", low, high)
}

func label(c Cell) string {
	who := fmt.Sprintf("%d clients", c.Clients)
	if c.Clients == 1 {
		who = "1 client"
	}
	if c.Target == "all" {
		return fmt.Sprintf("%d B, %s, all members", c.Size, who)
	}
	return fmt.Sprintf("%d B, %s, leader", c.Size, who)
}

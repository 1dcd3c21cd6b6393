package main

import (
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/bench/plot"
)

// leastTime is what a dot begins at, in milliseconds.
const leastTime = 0.1

// chart is the table as a page of bars.
func chart(r *Report) []byte {
	c := plot.Chart{
		Title: "Adds to a transparency log: Tessera on files and Holdfast, on one machine",
		Lead: []string{
			fmt.Sprintf("%s, %d processors, load included, fdatasync %.2f ms; %s", r.Machine.CPU, r.Machine.Cores, r.Machine.SyncBefore,
				r.Began.UTC().Format("2 January 2006")),
			"growth of the tree by its checkpoints, every add durable before its answer; medians, the servers taking turns; thin lines: standard deviation; blue",
			"numbers: Holdfast as a multiple of Tessera in grey; the hammer tells no times without a terminal",
		},
		Notes: []string{
			"Published: Tessera's performance report, on an e2-micro machine (one shared core, 1 GB), MySQL on it too, the load from another; shown for orientation and not",
			"compared. Its times are averages of intervals, and those to integrate have up to 600 ms of polling in them; here they are of single adds, polled every 20 ms.",
		},
		Series: []plot.Series{{Name: "Tessera: conformance-posix v1.0.4, conformance/mysql v1.0.2", Look: plot.Peer},
			{Name: "Tessera v1.0.4 with batches of 10 ms", Look: plot.Other}, {Name: "Holdfast", Look: plot.Ours}},
		Mark: "published by Tessera",
		Panels: []plot.Panel{
			{Title: "adds per second", Width: 225, Edge: 342, Least: leastTime},
			{Title: "server's CPU, µs per add", X: 365, Width: 125, Edge: 580, Least: leastTime},
			{Title: "in queue, avg ms (log)", X: 600, Width: 120, Log: true, Least: leastTime},
			{Title: "to integrate, avg ms (log)", X: 790, Width: 130, Log: true, Least: leastTime},
		},
	}
	if r.Proofs != nil {
		c.Notes = append(c.Notes, fmt.Sprintf("An add with its proof, at %d adds/s until the proof is verified: p50 %.1f ms, p99 %.1f ms.", r.Proofs.Rate, r.Proofs.P50, r.Proofs.P99))
	}
	series := map[string]int{posix: 0, tesseraMySQL: 0, personality: 1, holdfast: 2}
	for _, p := range places {
		for _, tool := range []string{withHammer, withOurs} {
			g := plot.Group{Title: p.title + ", load by " + toolNames[tool]}
			rows := make(map[load]int)
			for _, f := range r.Figures {
				if f.Place != p.name || f.Tool != tool {
					continue
				}
				i, ok := rows[f.load]
				if !ok {
					i = len(g.Rows)
					rows[f.load] = i
					g.Rows = append(g.Rows, plot.Row{Label: label(f.load)})
				}
				row := &g.Rows[i]
				row.Bars = append(row.Bars, plot.Bar{Series: series[f.Server], Values: values(f)})
				if f.Server == holdfast {
					row.Ratios = []float64{orNone(f.times(r.beside(f, f.peer()), rate)), orNone(f.times(r.beside(f, f.peer()), cpu))}
				}
				if pub := runLike(f); pub != nil {
					row.Marks = []float64{pub.PerSecond, 0, pub.Queue.Avg, pub.Integrate.Avg}
				}
			}
			if len(g.Rows) > 0 {
				c.Groups = append(c.Groups, g)
			}
		}
	}
	return c.SVG()
}

// runLike is the published run that a figure repeats; nil if there is none.
func runLike(f *Figure) *Published {
	for _, run := range []struct {
		place string
		n     int
	}{{smallMachine, onFiles}, {withMySQL, onMySQL}} {
		if p := &published[run.n]; f.Place == run.place && f.Writers == p.Writers {
			return p
		}
	}
	return nil
}

// values are a figure's in the order of the panels; none if no round counts.
func values(f *Figure) []plot.Value {
	if len(f.Rounds) == 0 {
		return nil
	}
	return []plot.Value{{V: f.median(rate), Deviation: f.deviation()}, {V: f.median(cpu)}, {V: f.median(queue)}, {V: f.median(seen)}}
}

func label(l load) string {
	if l.Rate > 0 {
		return fmt.Sprintf("%d writers, %d/s offered", l.Writers, l.Rate)
	}
	return fmt.Sprintf("%d writers", l.Writers)
}

// orNone replaces NaN by 0, which is drawn as nothing.
func orNone(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

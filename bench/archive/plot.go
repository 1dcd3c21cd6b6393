package main

import (
	"fmt"

	"github.com/holdfastdb/holdfast/bench/plot"
)

// chart is the table as a page of bars.
func chart(r *Report) []byte {
	c := plot.Chart{
		Title: "The log in a bucket: what it costs to ship it, and to wait for it",
		Lead: []string{
			fmt.Sprintf("%s, %d processors, load and store included, fdatasync %.2f ms; %s", r.Machine.CPU, r.Machine.Cores, r.Machine.SyncBefore,
				r.Began.UTC().Format("2 January 2006")),
			"puts by clients that wait for each answer, every one synced; medians, the modes taking turns; numbers: --ack commit beside no archive",
		},
		Series: []plot.Series{{Name: without, Look: plot.Peer}, {Name: ackCommit, Look: plot.OursToo}, {Name: ackStored, Look: plot.Ours}},
		Panels: []plot.Panel{
			{Title: "puts per second", Width: 225, Edge: 342, Least: 1},
			{Title: "server's CPU, µs per put", X: 365, Width: 125, Edge: 580, Least: 1},
			{Title: "p95, ms (log)", X: 600, Width: 120, Log: true, Least: 0.1},
			{Title: "uploads per second", X: 790, Width: 130, Least: 0.1},
		},
	}
	series := map[string]int{without: 0, ackCommit: 1, ackStored: 2}
	groups := map[string]*plot.Group{}
	var order []string
	for _, f := range r.Figures {
		if len(f.Rounds) == 0 {
			continue
		}
		title := fmt.Sprintf("%d clients, values of %d bytes", f.Clients, f.Size)
		g := groups[title]
		if g == nil {
			g = &plot.Group{Title: title}
			groups[title], order = g, append(order, title)
		}
		label := fmt.Sprintf("%g ms an upload", f.DelayMs)
		if len(g.Rows) == 0 || g.Rows[len(g.Rows)-1].Label != label {
			g.Rows = append(g.Rows, plot.Row{Label: label})
		}
		row := &g.Rows[len(g.Rows)-1]
		row.Bars = append(row.Bars, plot.Bar{Series: series[f.Mode], Values: []plot.Value{{V: f.median(rate)}, {V: f.median(cpu)},
			{V: f.median(func(s *Sample) float64 { return s.P95 })}, {V: f.median(func(s *Sample) float64 { return s.Uploads })}}})
		if plain := r.plain(f); f.Mode == ackCommit && plain != nil && len(plain.Rounds) > 0 {
			row.Ratios = []float64{f.beside(plain, rate), f.beside(plain, cpu)}
		}
	}
	for _, title := range order {
		c.Groups = append(c.Groups, *groups[title])
	}
	return c.SVG()
}

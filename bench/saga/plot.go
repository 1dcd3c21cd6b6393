package main

import (
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/bench/plot"
)

// chart is the tables as a page of bars.
func chart(r *Report) []byte {
	c := plot.Chart{
		Title: "Sagas of two branches: DTM 1.19 on MariaDB and Holdfast, on one machine",
		Lead: []string{
			fmt.Sprintf("%s, %d processors, load, services and databases included, fdatasync %.2f ms; %s", r.Machine.CPU, r.Machine.Cores,
				r.Machine.SyncBefore, r.Began.UTC().Format("2 January 2006")),
			"every saga durable and at its end before its answer, answers checked against what services saw and databases hold; medians, the coordinators taking",
			"turns; thin lines: standard deviation; blue numbers: Holdfast (one node) as a multiple of DTM",
		},
		Notes: []string{
			"Published: DTM's report of October 2021, on four cores and MySQL 5.7 (0 SQL: a later table); shown for orientation and not compared. n SQL: so many statements in",
			"each of two services. Floor: a server that decodes, syncs twice, calls twice and answers, and is no coordinator. CPU: the coordinator's, DTM with its own MariaDB.",
		},
		Series: []plot.Series{{Name: titles[none], Look: plot.Faint}, {Name: "DTM 1.19", Look: plot.Peer}, {Name: titles[holdfast], Look: plot.Ours},
			{Name: titles[three], Look: plot.OursToo}, {Name: titles[floor], Look: plot.Other}},
		Mark: "published by DTM",
		Panels: []plot.Panel{
			{Title: "sagas per second", Width: 240, Edge: 362, Least: 1},
			{Title: "coordinator's CPU, µs a saga", X: 385, Width: 140, Edge: 615, Least: 1},
			{Title: "p50, ms (log)", X: 640, Width: 110, Log: true, Least: 0.1},
			{Title: "p99, ms (log)", X: 825, Width: 110, Log: true, Least: 0.1},
		},
	}
	g := plot.Group{Title: "DTM's bench service on MariaDB, load by ab -c 20"}
	for _, w := range works {
		g.Rows = append(g.Rows, r.row(w.name, withAB, w.name, abClients)...)
	}
	c.Groups = append(c.Groups, g)
	g = plot.Group{Title: "Empty branches, load by our tool"}
	for _, f := range r.Figures { // one of each row stands for it
		if f.Load == withOurs && f.Server == holdfast {
			g.Rows = append(g.Rows, r.row(fmt.Sprintf("%s, %d clients", f.Work, f.Clients), withOurs, f.Work, f.Clients)...)
		}
	}
	c.Groups = append(c.Groups, g)
	return c.SVG()
}

// row is all coordinators' results with one load; none if nothing was measured.
func (r *Report) row(label, load, work string, clients int) []plot.Row {
	row := plot.Row{Label: label}
	for i, server := range serverNames {
		f := r.find(load, work, clients, server)
		if f == nil {
			continue
		}
		b := plot.Bar{Series: i, Values: []plot.Value{{V: f.median(rate), Deviation: f.deviation()}, {V: f.median(cpu)}, {V: f.median(p50)}, {V: f.median(p99)}}}
		if server == none {
			b.Values[1].V = math.NaN()
		}
		row.Bars = append(row.Bars, b)
	}
	if len(row.Bars) == 0 {
		return nil
	}
	ours := r.find(load, work, clients, holdfast)
	row.Ratios = []float64{orNone(ours.times(r.find(load, work, clients, dtm), rate)), orNone(ours.times(r.find(load, work, clients, dtm), cpu))}
	if p := publishedFor(work, dtm); p != nil && load == withAB {
		row.Marks = []float64{float64(p.Global)}
	}
	return []plot.Row{row}
}

// orNone replaces NaN by 0, which is drawn as nothing.
func orNone(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

package main

import (
	"fmt"

	"github.com/holdfastdb/holdfast/bench/plot"
)

// chart is the table as a page of bars: a group for each number of connections, a row for each workload.
func (r *Report) chart() []byte {
	c := plot.Chart{
		Title: "sysbench: MariaDB and Holdfast, on one machine",
		Lead: []string{
			fmt.Sprintf("%s, %d processors, sysbench included, fdatasync %.2f ms; %s", r.Machine.CPU, r.Machine.Cores, r.Machine.SyncBefore, r.Began.UTC().Format("2 January 2006")),
			fmt.Sprintf("%d tables of %d rows, every commit synced; medians of rounds of %d s, the servers taking turns; blue numbers: Holdfast as a multiple of MariaDB", r.Tables, r.Rows, r.Seconds),
		},
		Notes: []string{
			fmt.Sprintf("Published: EloqSQL 0.3.0's smallest cluster, %d processors for SQL and 24 for its log and store; shown for orientation and not compared.", publishedProcessors),
			fmt.Sprintf("From %d threads on MariaDB is the better one of a thread for each connection and a pool of threads.", pooledFrom),
		},
		Series: []plot.Series{{Name: mariadb, Look: plot.Peer}, {Name: holdfast, Look: plot.Ours}},
		Mark:   "published by EloqSQL",
		Panels: []plot.Panel{
			{Title: "transactions per second (log)", Width: 200, Edge: 322, Log: true, Least: 1},
			{Title: "server's CPU, µs a statement", X: 345, Width: 140, Edge: 575, Least: 1},
			{Title: "p95, ms (log)", X: 600, Width: 110, Log: true, Least: 0.1},
			{Title: "RSS, MB", X: 785, Width: 110, Least: 1},
		},
	}
	var g *plot.Group
	for _, cell := range r.cells() {
		title := fmt.Sprintf("%d threads, --memory %dMiB", cell.Threads, cell.Memory)
		if g == nil || g.Title != title {
			c.Groups = append(c.Groups, plot.Group{Title: title})
			g = &c.Groups[len(c.Groups)-1]
		}
		g.Rows = append(g.Rows, r.row(cell))
	}
	return c.SVG()
}

// row is what both did in a cell.
func (r *Report) row(c Cell) plot.Row {
	row := plot.Row{Label: c.Workload}
	sides := [][]Round{r.theirs(c), r.of(holdfast, c)}
	for i, rounds := range sides {
		row.Bars = append(row.Bars, plot.Bar{Series: i, Values: []plot.Value{{V: median(rounds, rate)}, {V: median(rounds, cpu)}, {V: median(rounds, p95)}, {V: median(rounds, rss)}}})
	}
	row.Ratios = []float64{median(sides[1], rate) / median(sides[0], rate), median(sides[1], cpu) / median(sides[0], cpu)}
	if p := publishedFor(c); p != nil {
		row.Marks = []float64{p.TPS}
	}
	return row
}

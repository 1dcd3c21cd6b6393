package main

import (
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/bench/plot"
)

// chart is the table as a page of bars.
func chart(r *Report) []byte {
	c := plot.Chart{
		Title: "A SQLite database in a bucket: the published experiment",
		Lead: []string{
			fmt.Sprintf("%s, %d processors, app and agent on one, load and store on another; %s", r.Machine.CPU, r.Machine.Cores, r.Began.UTC().Format("2 January 2006")),
			"a counter behind HTTP, users who post again as soon as they were answered; medians, the sides taking turns",
		},
		Notes: []string{"The published figures are of Rails 8 on Cloud Run and the real Cloud Storage, quoted. framework: an app that burns 4.7 ms of its core for each request."},
		Series: []plot.Series{{Name: publishedMount, Look: plot.Faint}, {Name: publishedLitestream, Look: plot.Other}, {Name: litestream, Look: plot.Peer},
			{Name: local, Look: plot.OursToo}, {Name: stored, Look: plot.Ours}},
		Panels: []plot.Panel{
			{Title: "median, ms", Width: 150, Least: 0.1},
			{Title: "p95, ms", X: 240, Width: 150, Least: 0.1},
			{Title: "maximum, ms (log)", X: 480, Width: 150, Log: true, Least: 1},
			{Title: "requests per second", X: 720, Width: 150, Least: 1},
		},
	}
	series := map[string]int{publishedMount: 0, publishedLitestream: 1, litestream: 2, local: 3, stored: 4, alone: 1}
	for _, part := range []struct{ name, title string }{{"sweep", "The published experiment"}, {"spread", "Uploads that do not all take the same time"},
		{"pair", "Nobody waits for the store"}, {"framework", "An app that burns 4.7 ms for each request"}} {
		g := plot.Group{Title: part.title}
		for users := 1; users <= mostUsers; users++ {
			row := plot.Row{Label: fmt.Sprintf("%d users", users)}
			for _, side := range []string{alone, litestream, local, stored} {
				if f := r.get(part.name, side, users); f != nil && len(f.Rounds) > 0 {
					row.Bars = append(row.Bars, plot.Bar{Series: series[side], Values: []plot.Value{{V: f.median(med)}, {V: f.median(p95)},
						{V: f.median(func(s *Sample) float64 { return s.Most })}, {V: f.median(rate)}}})
				}
			}
			if len(row.Bars) == 0 {
				continue
			}
			if part.name == "sweep" || part.name == "framework" {
				row.Bars = append(quoted(users, series), row.Bars...)
			}
			g.Rows = append(g.Rows, row)
		}
		if len(g.Rows) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	return c.SVG()
}

// quoted is the published bars of a row.
func quoted(users int, series map[string]int) (all []plot.Bar) {
	for _, side := range publishedSides {
		for _, p := range published[side] {
			if p.Users == users {
				all = append(all, plot.Bar{Series: series[side], Values: []plot.Value{{V: p.Med}, {V: p.P95}, {V: p.Most}, {V: math.Round(1000 * float64(users) / p.Avg)}}})
			}
		}
	}
	return all
}

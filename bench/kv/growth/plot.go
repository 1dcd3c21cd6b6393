package growth

import (
	"fmt"

	"github.com/holdfastdb/holdfast/bench/plot"
)

// chart is the table as a page: the cost of an operation for the server, row by row. Rows of one kind at several sizes stand below each
// other.
func chart(r *Report) []byte {
	c := plot.Chart{
		Title: "What grows with history, watchers and size: etcd 3.7.3 and Holdfast",
		Lead: []string{
			fmt.Sprintf("%s, %d processors, client included, fdatasync %.2f ms; %s", r.Machine.CPU, r.Machine.Cores, r.Machine.SyncBefore,
				r.Began.UTC().Format("2 January 2006")),
			"medians of alternating rounds with fresh servers; blue numbers: Holdfast as a multiple of etcd",
		},
		Series: []plot.Series{{Name: "etcd 3.7.3", Look: plot.Peer}, {Name: "Holdfast", Look: plot.Ours}},
		Panels: []plot.Panel{
			{Title: "server's CPU per operation, µs (log)", X: 220, Width: 300, Edge: 600, Log: true, Least: 1},
			{Title: "operations per second (log)", X: 640, Width: 240, Edge: 960, Log: true, Least: 0.1},
		},
	}
	g := plot.Group{}
	for i := range r.Lines {
		l := &r.Lines[i]
		base, ours := l.Servers[etcd], l.Servers[holdfast]
		if base.CPU == 0 || ours.CPU == 0 {
			continue // memory and gaps are in the table
		}
		g.Rows = append(g.Rows, plot.Row{Label: l.Row, Ratios: []float64{ours.CPU / base.CPU, ours.Rate / base.Rate}, Bars: []plot.Bar{
			{Series: 0, Values: []plot.Value{{V: base.CPU}, {V: base.Rate}}},
			{Series: 1, Values: []plot.Value{{V: ours.CPU}, {V: ours.Rate}}},
		}})
	}
	if len(g.Rows) > 0 {
		c.Groups = append(c.Groups, g)
	}
	return c.SVG()
}

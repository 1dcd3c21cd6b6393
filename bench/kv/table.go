package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/holdfastdb/holdfast/bench/host"
)

// medians gathers the rounds of one server in one cell; nil if none counts.
func medians(rounds []round, server string, c cell) *round {
	var of []round
	for _, r := range rounds {
		if r.Server == server && r.cell == c {
			of = append(of, r)
		}
	}
	if len(of) == 0 {
		return nil
	}
	m := func(field func(r *round) float64) float64 {
		var x []float64
		for i := range of {
			x = append(x, field(&of[i]))
		}
		return host.Median(x)
	}
	return &round{Server: server, cell: c, Round: len(of),
		PerSecond: m(func(r *round) float64 { return r.PerSecond }),
		P50:       m(func(r *round) float64 { return r.P50 }),
		P90:       m(func(r *round) float64 { return r.P90 }),
		P99:       m(func(r *round) float64 { return r.P99 }),
		CPU:       m(func(r *round) float64 { return r.CPU }),
		ClientCPU: m(func(r *round) float64 { return r.ClientCPU }),
		RSS:       int64(m(func(r *round) float64 { return float64(r.RSS) })),
	}
}

// summary is one line of the table: medians of one server in one cell. Beside them are the ratios to etcd in the same run: throughput (more
// is better) and server CPU per operation (less is better). Ratios are 0 where there is nothing to compare.
type summary struct {
	round
	Rounds    int     `json:"rounds"`
	SpeedEtcd float64 `json:"per_second_vs_etcd"`
	CPUEtcd   float64 `json:"server_cpu_vs_etcd"`
}

func summarize(cells []cell, servers []string, rounds []round) []summary {
	var out []summary
	for _, c := range cells {
		base := medians(rounds, "etcd", c)
		for _, server := range servers {
			m := medians(rounds, server, c)
			if m == nil {
				continue
			}
			line := summary{round: *m, Rounds: m.Round}
			line.Round = 0 // no single round
			if base != nil && server != "etcd" {
				line.SpeedEtcd, line.CPUEtcd = m.PerSecond/base.PerSecond, m.CPU/base.CPU
			}
			out = append(out, line)
		}
	}
	return out
}

func printTable(w io.Writer, lines []summary) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0
	for _, m := range lines {
		width = max(width, len(m.cell.String()))
	}
	fmt.Fprintf(tw, "%-*s\tserver\trounds\tper s\tvs etcd\tp50 ms\tp90 ms\tp99 ms\tserver us/op\tvs etcd\tclient us/op\tRSS MB\t\n", width, "")
	ratio := func(x float64) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf("%.2fx", x)
	}
	before := cell{}
	for _, m := range lines {
		label := m.cell.String()
		if m.cell == before {
			label = ""
		}
		before = m.cell
		fmt.Fprintf(tw, "%-*s\t%s\t%d\t%.0f\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t%s\t%.1f\t%d\t\n", width, label, m.Server, m.Rounds, m.PerSecond,
			ratio(m.SpeedEtcd), m.P50, m.P90, m.P99, m.CPU, ratio(m.CPUEtcd), m.ClientCPU, m.RSS>>20)
	}
	tw.Flush()
}

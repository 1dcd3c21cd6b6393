package growth

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/holdfastdb/holdfast/bench/host"
)

// Line is one row of the table: the medians of each server's rounds.
type Line struct {
	Row     string            `json:"row"`
	Servers map[string]Figure `json:"servers"`
	Rounds  map[string]int    `json:"rounds"`
}

// fields are what a figure has, in the order of the table.
var fields = []struct {
	name, unit string
	of         func(f *Figure) *float64
}{
	{"server us/op", " us", func(f *Figure) *float64 { return &f.CPU }},
	{"per s", "/s", func(f *Figure) *float64 { return &f.Rate }},
	{"p50 ms", " ms", func(f *Figure) *float64 { return &f.P50 }},
	{"p99 ms", " ms", func(f *Figure) *float64 { return &f.P99 }},
	{"worst ms", " ms", func(f *Figure) *float64 { return &f.Worst }},
	{"RSS MiB", " MiB", func(f *Figure) *float64 { return &f.RSS }},
}

func (f *Figure) String() string {
	parts := []string{f.Row + ":"}
	for _, field := range fields {
		if v := *field.of(f); v != 0 {
			parts = append(parts, fmt.Sprintf("%s %.4g", field.name, v))
		}
	}
	return strings.Join(parts, " ")
}

// lines takes the medians of all rounds, in the order in which rows came first.
func lines(rounds []Round) []Line {
	var out []Line
	index := make(map[string]int)
	samples := make(map[string][]Figure) // by server and row
	for _, r := range rounds {
		for _, f := range r.Figures {
			if _, there := index[f.Row]; !there {
				index[f.Row] = len(out)
				out = append(out, Line{Row: f.Row, Servers: map[string]Figure{}, Rounds: map[string]int{}})
			}
			k := r.Server + "\n" + f.Row
			samples[k] = append(samples[k], f)
		}
	}
	for i := range out {
		for _, server := range []string{etcd, holdfast, floor} {
			all := samples[server+"\n"+out[i].Row]
			if len(all) == 0 {
				continue
			}
			m := Figure{Row: out[i].Row}
			for _, field := range fields {
				var x []float64
				for k := range all {
					x = append(x, *field.of(&all[k]))
				}
				*field.of(&m) = host.Median(x)
			}
			out[i].Servers[server], out[i].Rounds[server] = m, len(all)
		}
	}
	return out
}

func printLines(w io.Writer, all []Line) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "\tserver\trounds")
	for _, f := range fields {
		fmt.Fprint(tw, "\t", f.name)
	}
	fmt.Fprintln(tw, "\tCPU\trate")
	for _, l := range all {
		label := l.Row
		for _, server := range []string{etcd, holdfast, floor} {
			m, there := l.Servers[server]
			if !there {
				continue
			}
			fmt.Fprintf(tw, "%s\t%s\t%d", label, server, l.Rounds[server])
			label = ""
			for _, f := range fields {
				if v := *f.of(&m); v != 0 {
					fmt.Fprintf(tw, "\t%.4g", v)
				} else {
					fmt.Fprint(tw, "\t")
				}
			}
			if base, there := l.Servers[etcd]; there && server != etcd {
				fmt.Fprintf(tw, "\t%s\t%s", ratio(m.CPU, base.CPU), ratio(m.Rate, base.Rate))
			}
			fmt.Fprintln(tw)
		}
	}
	tw.Flush()
}

func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2fx", a/b)
}

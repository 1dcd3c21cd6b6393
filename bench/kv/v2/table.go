package v2

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/holdfastdb/holdfast/bench/host"
)

// Figures are one server's in one cell: medians over the rounds, and how far the rounds lie apart (standard deviation).
type Figures struct {
	Rounds    int     `json:"rounds"`
	PerSecond float64 `json:"per_second"`
	Deviation float64 `json:"per_second_deviation"`
	P90       float64 `json:"p90_ms"`
	P90Dev    float64 `json:"p90_deviation_ms"`
	CPU       float64 `json:"server_cpu_us_per_op"`
	ClientCPU float64 `json:"client_cpu_us_per_op"`
}

// Line is one cell of the table. Ratios are ours to etcd's, 0 if one of them is missing. Each is the median over the rounds of the ratio
// within a round, where both were measured one after the other. It is not the ratio of two medians, which may come from different spells of
// the machine.
type Line struct {
	Cell
	Etcd     *Figures `json:"etcd"`
	Holdfast *Figures `json:"holdfast"`
	Speed    float64  `json:"per_second_ratio"`
	Latency  float64  `json:"p90_ratio"`
	CPU      float64  `json:"server_cpu_ratio"`
}

func summarize(cells []Cell, rounds []Round) (out []Line) {
	for _, c := range cells {
		of := make(map[string][]Round)
		for _, r := range rounds {
			if r.Cell == c {
				of[r.Server] = append(of[r.Server], r)
			}
		}
		l := Line{Cell: c, Etcd: figures(of[etcd]), Holdfast: figures(of[holdfast])}
		var speed, latency, cpu []float64
		for _, a := range of[etcd] {
			for _, b := range of[holdfast] {
				if a.Round == b.Round {
					speed = append(speed, b.PerSecond/a.PerSecond)
					cpu = append(cpu, b.CPU/max(a.CPU, 1e-3))
					latency = append(latency, b.P90/max(a.P90, 0.1)) // hey's resolution
				}
			}
		}
		if len(speed) > 0 {
			l.Speed, l.Latency, l.CPU = host.Median(speed), host.Median(latency), host.Median(cpu)
		}
		out = append(out, l)
	}
	return out
}

// figures of one server's rounds of one cell; nil if none counts.
func figures(rounds []Round) *Figures {
	if len(rounds) == 0 {
		return nil
	}
	list := func(field func(r *Round) float64) (x []float64) {
		for i := range rounds {
			x = append(x, field(&rounds[i]))
		}
		return x
	}
	speed, p90 := list(func(r *Round) float64 { return r.PerSecond }), list(func(r *Round) float64 { return r.P90 })
	return &Figures{Rounds: len(rounds),
		PerSecond: host.Median(speed), Deviation: host.Deviation(speed), P90: host.Median(p90), P90Dev: host.Deviation(p90),
		CPU:       host.Median(list(func(r *Round) float64 { return r.CPU })),
		ClientCPU: host.Median(list(func(r *Round) float64 { return r.ClientCPU })),
	}
}

// group is a part of the table and of the plot.
type group struct {
	title string
	lines []Line
}

// groups parts the lines by operation and tool, in the report's order: leader before all members, sizes within.
func groups(lines []Line) (out []group) {
	for _, g := range []struct{ op, tool, title string }{
		{"read", "hey", "Reads of one key, by hey"}, {"read", "wrk", "Reads of one key, by wrk"}, {"write", "hey", "Writes of one key, by hey"},
	} {
		one := group{title: g.title}
		for _, target := range []string{"leader", "all"} {
			for _, l := range lines {
				if l.Op == g.op && l.Tool == g.tool && l.Target == target {
					one.lines = append(one.lines, l)
				}
			}
		}
		if len(one.lines) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// printTable prints the report's table with both servers side by side.
func printTable(w io.Writer, lines []Line) {
	for _, g := range groups(lines) {
		fmt.Fprintf(w, "\n%s (median ± standard deviation over the rounds; p90 in ms; cpu is the servers' in us per request)\n", g.title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(tw, "bytes\tclients\ttarget\t%s/s\t±\tp90\t±\tcpu\t%s/s\t±\tp90\t±\tcpu\tspeed\tp90\tcpu\tpublished/s\tp90\t\n", etcd, holdfast)
		for _, l := range g.lines {
			fmt.Fprintf(tw, "%d\t%d\t%s\t%s%s%s\t%s\t%s\t", l.Size, l.Clients, l.Target, l.Etcd.columns(), l.Holdfast.columns(),
				ratio(l.Speed), ratio(l.Latency), ratio(l.CPU))
			if p := publishedFor(l.Cell); p != nil {
				fmt.Fprintf(tw, "%.0f\t%.2f\t\n", p.PerSecond, p.P90)
			} else {
				fmt.Fprint(tw, "\t\t\n")
			}
		}
		tw.Flush()
	}
}

func (f *Figures) columns() string {
	if f == nil {
		return strings.Repeat("–\t", 5)
	}
	return fmt.Sprintf("%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t", f.PerSecond, f.Deviation, f.P90, f.P90Dev, f.CPU)
}

func ratio(x float64) string {
	if x == 0 {
		return "–"
	}
	return strconv.FormatFloat(x, 'f', 2, 64) + "x"
}

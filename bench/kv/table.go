package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

// machine says what the figures were measured on; without it none of them means anything.
type machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	Kernel     string  `json:"kernel"`
	Load       string  `json:"load_average_at_start"`
	SyncBefore float64 `json:"fdatasync_before_ms"`
	SyncAfter  float64 `json:"fdatasync_after_ms"`
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores (%s), kernel %s, load %s, fdatasync %.3f ms", m.Cores, m.CPU, m.Kernel, m.Load, m.SyncBefore)
}

func describe(dir string) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), CPU: "unknown"}
	// Names are for the reader; a machine that does not tell is no reason not to measure.
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				m.CPU = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 0 {
			m.Load = f[0]
		}
	}
	var err error
	m.SyncBefore, err = syncTime(dir)
	return m, err
}

func fdatasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// median of a non-empty list; the mean of the middle two of an even number.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

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
		return median(x)
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

// summary is one line of the table: medians of one server in one cell and, beside them, the ratios to etcd in the same run:
// throughput (more is better) and server CPU per operation (less is better). Ratios are 0 where there is nothing to compare.
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

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

// printTable shows medians, and beside each server its ratio to etcd in the same run: throughput (more is better) and
// server CPU per operation (less is better).
func printTable(w io.Writer, cells []cell, servers []string, rounds []round) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0
	for _, c := range cells {
		width = max(width, len(c.String()))
	}
	fmt.Fprintf(tw, "%-*s", width, "")
	fmt.Fprintln(tw, "\tserver\trounds\tper s\tvs etcd\tp50 ms\tp90 ms\tp99 ms\tserver us/op\tvs etcd\tclient us/op\tRSS MB\t")
	for _, c := range cells {
		base := medians(rounds, "etcd", c)
		label := c.String()
		for _, server := range servers {
			m := medians(rounds, server, c)
			if m == nil {
				continue
			}
			speed, cpu := "", ""
			if base != nil && server != "etcd" {
				speed = fmt.Sprintf("%.2fx", m.PerSecond/base.PerSecond)
				cpu = fmt.Sprintf("%.2fx", m.CPU/base.CPU)
			}
			fmt.Fprintf(tw, "%-*s\t%s\t%d\t%.0f\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t%s\t%.1f\t%d\t\n", width, label, server, m.Round, m.PerSecond, speed,
				m.P50, m.P90, m.P99, m.CPU, cpu, m.ClientCPU, m.RSS>>20)
			label = ""
		}
	}
	tw.Flush()
}

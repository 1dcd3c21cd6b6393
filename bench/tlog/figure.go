package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/bench/host"
)

// Report is the JSON file.
type Report struct {
	Began   time.Time    `json:"began"`
	Machine host.Machine `json:"machine"`
	// Small says how the small machine was made of this one.
	Small     string      `json:"small_machine,omitempty"`
	Proofs    *Proofs     `json:"add_to_proof,omitempty"`
	Bundles   []*Bundles  `json:"bundles,omitempty"`
	Many      []*ManyLogs `json:"many_logs,omitempty"`
	Figures   []*Figure   `json:"figures"`
	Bars      bars.List   `json:"bars"`
	Published []Published `json:"published"`
}

// The machines of Figure.Place.
const (
	wholeMachine = "whole machine"
	smallMachine = "one processor, 1 GB"
	withMySQL    = "MariaDB on the same machine"
)

// Figure is one server under one load on one machine, measured in rounds.
type Figure struct {
	Place  string `json:"place"`
	Server string `json:"server"`
	load
	Rounds []Sample `json:"rounds"`
}

// Sample is one round of a figure.
type Sample struct {
	Seconds    float64 `json:"seconds"`         // of the window
	AddsPerSec float64 `json:"adds_per_second"` // growth of the tree
	CPU        float64 `json:"server_cpu_us_per_add"`
	Busy       float64 `json:"server_cpu"`          // of one processor
	LoadCPU    float64 `json:"load_cpu_us_per_add"` // of the load tool, over its whole run
	Stolen     float64 `json:"stolen_cpu"`          // of the machine, by its neighbours
	Memory     int64   `json:"server_peak_rss_bytes"`
	Size       int     `json:"tree_size"` // at the end
	// Disk is the size of the data directory after the server has stopped, without Log, which is Holdfast's log of commands. That is
	// dropped once its effects are in the store. Held is how many entries Disk is for.
	Disk     int64 `json:"disk_bytes"`
	Held     int   `json:"disk_entries"`
	Log      int64 `json:"disk_log_bytes"`
	Files    int   `json:"files"`
	Warnings int   `json:"load_warnings"` // lines of the hammer's; adds of ours that failed or were pushed back

	// On MariaDB only: its use of one processor, and the longest time that the log was ahead of its publication, known to 0.2 s.
	Database float64  `json:"database_cpu,omitempty"`
	Behind   *float64 `json:"published_behind_s,omitempty"`

	// Figures that the hammer does not print without a terminal.
	Queue     *Spread `json:"time_in_queue,omitempty"`
	Integrate *Spread `json:"time_to_integrate,omitempty"`
}

// Spread of the times of single adds, as `holdfast bench tlog` reports it.
type Spread struct {
	Min float64 `json:"min_ms"`
	Avg float64 `json:"avg_ms"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// figure begins one more figure.
func (r *Report) figure(place, server string, l load) *Figure {
	f := &Figure{Place: place, Server: server, load: l}
	r.Figures = append(r.Figures, f)
	return f
}

// median over the rounds; NaN if there are none, or if what is asked for was not measured.
func (f *Figure) median(of func(*Sample) float64) float64 {
	var x []float64
	for i := range f.Rounds {
		if v := of(&f.Rounds[i]); !math.IsNaN(v) {
			x = append(x, v)
		}
	}
	if len(x) == 0 {
		return math.NaN()
	}
	return host.Median(x)
}

// Figures of a sample.
func rate(s *Sample) float64   { return s.AddsPerSec }
func cpu(s *Sample) float64    { return s.CPU }
func queue(s *Sample) float64  { return avg(s.Queue) }
func seen(s *Sample) float64   { return avg(s.Integrate) }
func memory(s *Sample) float64 { return float64(s.Memory) / (1 << 20) }

func disk(s *Sample) float64 {
	if s.Held == 0 {
		return math.NaN()
	}
	return float64(s.Disk) / float64(s.Held)
}

func avg(s *Spread) float64 {
	if s == nil {
		return math.NaN()
	}
	return s.Avg
}

// behind is the most of all rounds.
func (f *Figure) behind() float64 {
	most := math.NaN()
	for _, s := range f.Rounds {
		if s.Behind != nil && !(most > *s.Behind) {
			most = *s.Behind
		}
	}
	return most
}

// peer is Tessera's server that a figure is compared with.
func (f *Figure) peer() string {
	if f.Place == withMySQL {
		return tesseraMySQL
	}
	return posix
}

// deviation of the rate over the rounds.
func (f *Figure) deviation() float64 {
	var x []float64
	for _, s := range f.Rounds {
		x = append(x, s.AddsPerSec)
	}
	return host.Deviation(x)
}

// beside is the figure of the other server under the same load on the same machine; nil if there is none.
func (r *Report) beside(f *Figure, server string) *Figure {
	for _, o := range r.Figures {
		if o.Server == server && o.Place == f.Place && o.load == f.load && len(o.Rounds) > 0 {
			return o
		}
	}
	return nil
}

// times is how many times as much f has as the other. It is the median over the rounds of the ratio within a round, where both were
// measured one after the other. The ratio of two medians would not do: each may come from another spell of the machine. NaN if there is
// nothing to compare.
func (f *Figure) times(other *Figure, of func(*Sample) float64) float64 {
	if other == nil {
		return math.NaN()
	}
	var x []float64
	for i := range min(len(f.Rounds), len(other.Rounds)) {
		if v := of(&f.Rounds[i]) / of(&other.Rounds[i]); !math.IsNaN(v) {
			x = append(x, v)
		}
	}
	if len(x) == 0 {
		return math.NaN()
	}
	return host.Median(x)
}

// write leaves the report as JSON and as a plot.
func (r *Report) write(jsonFile, plotFile string) error {
	r.Published = published
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(writeFile(jsonFile, append(b, '\n')), writeFile(plotFile, chart(r)))
}

func writeFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

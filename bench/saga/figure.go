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
	Began     time.Time    `json:"began"`
	Machine   host.Machine `json:"machine"`
	Figures   []*Figure    `json:"figures"`
	Recovery  []*Recovery  `json:"recovery,omitempty"`
	Beside    []*Beside    `json:"beside_a_service_that_hangs,omitempty"`
	Delayed   []*Delayed   `json:"delayed_messages,omitempty"`
	Timers    *Timers      `json:"open_timers,omitempty"`
	Bars      bars.List    `json:"bars"`
	Published []Published  `json:"published"`
}

// Figure is one coordinator under one load, measured in rounds.
type Figure struct {
	Load    string   `json:"load"` // withAB, withOurs
	Work    string   `json:"work"`
	Clients int      `json:"clients"`
	Server  string   `json:"coordinator"`
	Rounds  []Sample `json:"rounds"`
}

// The loads.
const (
	withAB   = "ApacheBench and DTM's bench service"
	withOurs = "our load tool"
)

// Sample is one round of a figure. Processor times are of one saga, in microseconds.
type Sample struct {
	Round     int     `json:"round"`
	Sagas     int     `json:"sagas"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	Server    float64 `json:"coordinator_cpu_us"`
	Database  float64 `json:"coordinators_database_cpu_us"`
	Business  float64 `json:"business_database_cpu_us"`
	Service   float64 `json:"service_cpu_us"` // of our load tool with the load, which is services and starter at once
	Tool      float64 `json:"tool_cpu_us"`
	Memory    int64   `json:"coordinator_rss_bytes"`
	Stolen    float64 `json:"stolen_cpu"`            // of the machine, by its neighbours
	Undone    int     `json:"compensated,omitempty"` // sagas
	Repeated  int     `json:"repeated_calls,omitempty"`
}

// figure is that of a load, work and coordinator, begun if there is none.
func (r *Report) figure(load, work string, clients int, server string) *Figure {
	if f := r.find(load, work, clients, server); f != nil {
		return f
	}
	f := &Figure{Load: load, Work: work, Clients: clients, Server: server}
	r.Figures = append(r.Figures, f)
	return f
}

func (r *Report) find(load, work string, clients int, server string) *Figure {
	for _, f := range r.Figures {
		if f.Load == load && f.Work == work && f.Clients == clients && f.Server == server {
			return f
		}
	}
	return nil
}

// beside is the figure of another coordinator under the same load; nil if there is none.
func (r *Report) beside(f *Figure, server string) *Figure {
	return r.find(f.Load, f.Work, f.Clients, server)
}

// Figures of a sample.
func rate(s *Sample) float64 { return s.PerSecond }
func p50(s *Sample) float64  { return s.P50 }
func p99(s *Sample) float64  { return s.P99 }
func cpu(s *Sample) float64  { return s.Server + s.Database }

// median over the rounds; NaN if there are none.
func (f *Figure) median(of func(*Sample) float64) float64 {
	if f == nil || len(f.Rounds) == 0 {
		return math.NaN()
	}
	var x []float64
	for i := range f.Rounds {
		x = append(x, of(&f.Rounds[i]))
	}
	return host.Median(x)
}

// deviation of the rate over the rounds.
func (f *Figure) deviation() float64 {
	var x []float64
	for _, s := range f.Rounds {
		x = append(x, s.PerSecond)
	}
	return host.Deviation(x)
}

// times is how many times as much f has as the other. It is the median over the rounds of the ratio within a round, where both were
// measured one after the other. The ratio of two medians would not do: each may come from another spell of the machine. NaN if there is
// nothing to compare.
func (f *Figure) times(other *Figure, of func(*Sample) float64) float64 {
	if f == nil || other == nil {
		return math.NaN()
	}
	var x []float64
	for i := range f.Rounds {
		for j := range other.Rounds {
			if f.Rounds[i].Round == other.Rounds[j].Round {
				x = append(x, of(&f.Rounds[i])/of(&other.Rounds[j]))
			}
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

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
	Figures []*Figure    `json:"figures"`
	Quiet   *Quiet       `json:"quiet,omitempty"`
	Restore []Restored   `json:"restore,omitempty"`
	Bars    bars.List    `json:"bars"`
}

// How a server is run.
const (
	without   = "no archive"
	ackCommit = "--ack commit"
	ackStored = "--ack archive"
)

// modes in the order in which they take turns.
var modes = []string{without, ackCommit, ackStored}

// Figure is one way to run a server under one load over one store, measured in rounds.
type Figure struct {
	Mode    string   `json:"mode"`
	Clients int      `json:"clients"`
	Size    int      `json:"value_bytes"`
	DelayMs float64  `json:"upload_ms"`
	Rounds  []Sample `json:"rounds"`
}

// Sample is one round of a figure.
type Sample struct {
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"puts_per_second"`
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
	P99       float64 `json:"p99_ms"`
	CPU       float64 `json:"server_cpu_us_per_put"`
	RSS       int64   `json:"server_rss_bytes"`
	Uploads   float64 `json:"uploads_per_second"`
	PerThou   float64 `json:"uploads_per_1000_puts"`
	Shipped   int64   `json:"shipped_bytes"`
	BareP50   float64 `json:"bare_upload_p50_ms"`
	BareP95   float64 `json:"bare_upload_p95_ms"`
}

// Quiet is what a server asks of the store that has little to do.
type Quiet struct {
	IdleSeconds float64 `json:"idle_s"`
	Idle        int     `json:"idle_requests"`
	TenPuts     float64 `json:"requests_per_second_at_ten_puts"`
	Shipping    float64 `json:"rss_bytes_more_when_idle"`
}

// Restored is one restore.
type Restored struct {
	From    string  `json:"from"`
	Bytes   int64   `json:"bytes_of_values"`
	Objects int64   `json:"bytes_of_objects"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_s"`
	RSS     int64   `json:"peak_rss_bytes"`
	// Puts is how many were acknowledged, Found how many keys the restored server has; both are of one write a key.
	Puts  int `json:"puts"`
	Found int `json:"found"`
}

// find returns the figure of that kind, and begins it if there is none.
func (r *Report) find(mode string, clients, size int, delay time.Duration) *Figure {
	for _, f := range r.Figures {
		if f.Mode == mode && f.Clients == clients && f.Size == size && f.DelayMs == ms(delay) {
			return f
		}
	}
	f := &Figure{Mode: mode, Clients: clients, Size: size, DelayMs: ms(delay)}
	r.Figures = append(r.Figures, f)
	return f
}

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

// beside is the median of the ratios within a round.
func (f *Figure) beside(other *Figure, of func(*Sample) float64) float64 {
	if f == nil || other == nil {
		return math.NaN()
	}
	var x []float64
	for i := range min(len(f.Rounds), len(other.Rounds)) {
		x = append(x, of(&f.Rounds[i])/of(&other.Rounds[i]))
	}
	if len(x) == 0 {
		return math.NaN()
	}
	return host.Median(x)
}

// plain is what a figure with an archive is compared with: the same load without one. nil: there is none, or f is that.
func (r *Report) plain(f *Figure) *Figure {
	for _, other := range r.Figures {
		if f.Mode != without && other.Mode == without && other.Clients == f.Clients && other.Size == f.Size && other.DelayMs == f.DelayMs {
			return other
		}
	}
	return nil
}

// Figures of a sample.
func rate(s *Sample) float64    { return s.PerSecond }
func cpu(s *Sample) float64     { return s.CPU }
func memory(s *Sample) float64  { return float64(s.RSS) }
func shipped(s *Sample) float64 { return float64(s.Shipped) / 1e6 }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// write leaves the report and the plot.
func (r *Report) write(jsonFile, plotFile string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(jsonFile), 0o755), os.WriteFile(jsonFile, append(text, '\n'), 0o644),
		os.MkdirAll(filepath.Dir(plotFile), 0o755), os.WriteFile(plotFile, chart(r), 0o644))
}

package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/bench/host"
)

// Report is the JSON file.
type Report struct {
	Began     time.Time    `json:"began"`
	Machine   host.Machine `json:"machine"`
	Figures   []*Figure    `json:"figures"`
	Kills     []Killed     `json:"kills,omitempty"`
	Takeovers []Takeover   `json:"takeovers,omitempty"`
	Bars      bars.List    `json:"bars"`
}

// Figure is one cell: a side, so many users, a store, measured in rounds.
type Figure struct {
	Part   string   `json:"part"`
	Side   string   `json:"side"`
	Users  int      `json:"users"`
	Delay  delay    `json:"upload"`
	BurnMs float64  `json:"app_burns_ms"`
	Rounds []Sample `json:"rounds"`
}

// Sample is one round of a cell: the users' view, and the cost. Times are in milliseconds where nothing else is said.
type Sample struct {
	users
	Stolen     float64 `json:"stolen_share"`
	AppCPU     float64 `json:"app_cpu_us_per_request"`
	AgentCPU   float64 `json:"agent_cpu_us_per_request"`
	AgentRSS   int64   `json:"agent_rss_bytes"`
	PerThou    float64 `json:"puts_per_1000_commits"`
	AllPerThou float64 `json:"requests_per_1000_commits"`
	PutBytes   int64   `json:"put_bytes"`
	BareP50    float64 `json:"bare_put_p50_ms"`
	BareP95    float64 `json:"bare_put_p95_ms"`
}

// Killed is one kill -9 of app and agent.
type Killed struct {
	Side     string  `json:"side"`
	After    float64 `json:"after_s"`
	Answered int64   `json:"answered"` // the largest count that a user was answered
	Restored int64   `json:"restored"` // the count in a restore from the bucket alone
	Lost     int64   `json:"lost"`
	Seconds  float64 `json:"restore_s"`
}

// Takeover is one machine that follows another.
type Takeover struct {
	Side    string  `json:"side"`
	MB      int     `json:"mb"`
	Restore float64 `json:"restore_s"`
	First   float64 `json:"first_answer_s"` // from the start of the other machine's agent on
	// CPU is what the agent used until then, Requests what it asked of the bucket.
	CPU      float64 `json:"agent_cpu_s"`
	Requests int     `json:"requests"`
}

// find returns the figure of that kind, and begins it if there is none.
func (r *Report) find(part, side string, users int, d delay, burn time.Duration) *Figure {
	if f := r.get(part, side, users); f != nil && f.Delay == d {
		return f
	}
	f := &Figure{Part: part, Side: side, Users: users, Delay: d, BurnMs: ms(burn)}
	r.Figures = append(r.Figures, f)
	return f
}

// get returns the figure of that kind, or nil.
func (r *Report) get(part, side string, users int) *Figure {
	for _, f := range r.Figures {
		if f.Part == part && f.Side == side && f.Users == users {
			return f
		}
	}
	return nil
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
	if f == nil || other == nil || len(f.Rounds) == 0 || len(other.Rounds) == 0 {
		return math.NaN()
	}
	var x []float64
	for i := range min(len(f.Rounds), len(other.Rounds)) {
		x = append(x, of(&f.Rounds[i])/of(&other.Rounds[i]))
	}
	return host.Median(x)
}

// Figures of a sample.
func rate(s *Sample) float64     { return s.PerSecond }
func med(s *Sample) float64      { return s.Med }
func p95(s *Sample) float64      { return s.P95 }
func memory(s *Sample) float64   { return float64(s.AgentRSS) / 1e6 }
func appCPU(s *Sample) float64   { return s.AppCPU }
func agentCPU(s *Sample) float64 { return s.AgentCPU }
func perThou(s *Sample) float64  { return s.PerThou }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile of a list that is not empty.
func quantile(x []float64, q float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[min(len(x)-1, int(q*float64(len(x))))]
}

// write leaves the report and the plot.
func (r *Report) write(jsonFile, plotFile string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(jsonFile), 0o755), os.WriteFile(jsonFile, append(text, '\n'), 0o644),
		os.MkdirAll(filepath.Dir(plotFile), 0o755), os.WriteFile(plotFile, chart(r), 0o644))
}

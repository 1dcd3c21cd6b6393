package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/bench/host"
)

// Report is everything that was measured.
type Report struct {
	Began    time.Time    `json:"began"`
	Machine  host.Machine `json:"machine"`
	Build    string       `json:"build"` // the first bytes of the binary's SHA-256, in hexadecimal
	Tables   int          `json:"tables"`
	Rows     int          `json:"rows"`
	Seconds  int          `json:"seconds"`
	Cost     *Cost        `json:"cost,omitempty"`
	Prepared []Prepared   `json:"prepared"`
	Rounds   []Round      `json:"rounds"`
	TPCC     *TPCC        `json:"tpcc,omitempty"`
	Bars     bars.List    `json:"bars"`
}

// Prepared is how fast a server took the rows.
type Prepared struct {
	Server string  `json:"server"`
	Memory int     `json:"memory_mib"`
	Rows   float64 `json:"rows_per_second"`
}

// Cell is what is measured on every server.
type Cell struct {
	Memory   int    `json:"memory_mib"` // Holdfast's --memory
	Threads  int    `json:"threads"`
	Workload string `json:"workload"`
}

// Round is one cell on one server, once.
type Round struct {
	Cell
	Server string           `json:"server"`
	Rate   float64          `json:"transactions_per_second"`
	QPS    float64          `json:"queries_per_second"`
	P95ms  float64          `json:"p95_ms"`
	CPUus  float64          `json:"cpu_per_statement_us"`
	RSSmb  float64          `json:"rss_mb"` // when the round had ended
	Errors int64            `json:"ignored_errors"`
	Codes  map[string]int64 `json:"errors_by_number,omitempty"`
}

// build names the binary that is measured.
func build(bin string) (string, error) {
	f, err := os.Open(bin)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// goOn takes over what an earlier call has measured. A report of another build or of other data is an error: its rounds say nothing beside new ones.
func (r *Report) goOn(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("-resume: %w", err)
	}
	var was Report
	if err := json.Unmarshal(text, &was); err != nil {
		return fmt.Errorf("-resume: %s: %w", path, err)
	}
	if was.Build != r.Build || was.Tables != r.Tables || was.Rows != r.Rows || was.Seconds != r.Seconds {
		return fmt.Errorf("-resume: %s is of build %s with %d × %d rows and rounds of %d s, this is build %s with %d × %d rows and rounds of %d s: call it without -resume",
			path, was.Build, was.Tables, was.Rows, was.Seconds, r.Build, r.Tables, r.Rows, r.Seconds)
	}
	r.Began, r.Cost, r.Prepared, r.Rounds = was.Began, was.Cost, was.Prepared, was.Rounds
	return nil
}

// write writes the report as a whole or not at all.
func (r *Report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// of returns the rounds of a cell on one server.
func (r *Report) of(server string, c Cell) (all []Round) {
	for _, o := range r.Rounds {
		if o.Server == server && o.Cell == c {
			all = append(all, o)
		}
	}
	return all
}

// theirs returns the rounds of the MariaDB that did more transactions in a cell: with a thread for each connection, or with a pool.
func (r *Report) theirs(c Cell) []Round {
	own, pooled := r.of(mariadb, c), r.of(pooledMariaDB, c)
	if len(own) == 0 || len(pooled) > 0 && median(pooled, rate) > median(own, rate) {
		return pooled
	}
	return own
}

// drop removes the rounds of a cell.
func (r *Report) drop(c Cell) {
	r.Rounds = slices.DeleteFunc(r.Rounds, func(o Round) bool { return o.Cell == c })
}

// cells are those that both sides have, in the order in which they were measured.
func (r *Report) cells() (all []Cell) {
	for _, o := range r.Rounds {
		if !slices.Contains(all, o.Cell) && len(r.of(holdfast, o.Cell)) > 0 && len(r.theirs(o.Cell)) > 0 {
			all = append(all, o.Cell)
		}
	}
	return all
}

// Figures of a round.
func rate(o Round) float64 { return o.Rate }
func qps(o Round) float64  { return o.QPS }
func p95(o Round) float64  { return o.P95ms }
func cpu(o Round) float64  { return o.CPUus }
func rss(o Round) float64  { return o.RSSmb }

// median is that of a figure of some rounds.
func median(rounds []Round, of func(Round) float64) float64 {
	all := make([]float64, len(rounds))
	for i, o := range rounds {
		all[i] = of(o)
	}
	return host.Median(all)
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// sampleReport has two rounds over a slow store and over a quick one.
func sampleReport() *Report {
	r := &Report{Machine: host.Machine{CPU: "a processor", Cores: 2}, Quiet: &Quiet{IdleSeconds: 30, TenPuts: 1.1, Shipping: 4e6},
		Restore: []Restored{{From: "directory", Bytes: 1e9, Seconds: 20, CPU: 30, RSS: 100e6, Puts: 5, Found: 5}}}
	for _, delay := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond} {
		for round := range 2 {
			for mode, s := range map[string]Sample{
				without:   {PerSecond: 10_000, CPU: 100, P95: 9},
				ackCommit: {PerSecond: 9700, CPU: 104, P95: 10, Uploads: 90, Shipped: 20e6},
				ackStored: {PerSecond: 1050, CPU: 150, P95: 62, BareP95: 51, Uploads: 95, Shipped: 2e6},
			} { // any order: each has its own figure
				s.PerSecond /= float64(1 + round) // the second round's machine is half as fast
				s.Seconds = 10
				f := r.find(mode, 64, smallValue, delay)
				f.Rounds = append(f.Rounds, s)
			}
		}
	}
	return r
}

// TestBarsOfAnArchive: each is judged by its own figure, and by ratios within a round; what was not measured is not reached.
func TestBarsOfAnArchive(t *testing.T) {
	missed := map[string]bool{}
	for _, b := range judge(sampleReport()) {
		if b.Got == nil {
			t.Errorf("not measured: %s", b.What)
		}
		missed[b.What] = !b.Reached
	}
	for what, miss := range missed { // any order
		if want := strings.Contains(what, "puts a second") && strings.Contains(what, "50 ms"); miss != want { // half of the rounds are at 525
			t.Errorf("%s: missed %v, want %v", what, miss, want)
		}
	}
	for _, b := range judge(&Report{}) {
		if b.Reached || b.Got != nil {
			t.Errorf("nothing was measured, and %s", b.String())
		}
	}
}

// TestAReportIsShown: the table, the JSON and the plot have what was measured.
func TestAReportIsShown(t *testing.T) {
	r := sampleReport()
	r.Bars = judge(r)
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{"(0.97×)", "20.0 s a GB", "1.10 requests a second", "7 of 8 bars reached"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	dir := t.TempDir()
	if err := r.write(filepath.Join(dir, "a.json"), filepath.Join(dir, "a.svg")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "a.json"))
	var back Report
	if err != nil || json.Unmarshal(text, &back) != nil || len(back.Figures) != 6 || len(back.Figures[0].Rounds) != 2 {
		t.Errorf("%v, %d figures", err, len(back.Figures))
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "a.svg")); err != nil || !strings.Contains(string(svg), "50 ms an upload") || !strings.Contains(string(svg), "0.97×") {
		t.Errorf("%v\n%s", err, svg)
	}
}

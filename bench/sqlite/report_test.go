package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// sampleReport has what every bar looks at: good figures, but for the memory of the agent.
func sampleReport() *Report {
	r := &Report{Machine: host.Machine{CPU: "a processor", Cores: 2}}
	constant, spread := delay{Median: 50 * time.Millisecond}, delay{Median: 50 * time.Millisecond, Sigma: 0.15}
	add := func(part, side string, d delay, samples ...Sample) {
		r.find(part, side, mostUsers, d, 0).Rounds = samples
	}
	u := func(rate, p95 float64) users {
		return users{Requests: 1000, PerSecond: rate, Med: 52, Avg: 53, P90: 60, P95: p95, Least: 50, Most: 90}
	}
	add("sweep", stored, constant, Sample{users: u(380, 63), AppCPU: 200, PerThou: 70, BareP50: 50.5, BareP95: 51})
	add("spread", stored, spread, Sample{users: u(340, 72), BareP50: 50, BareP95: 64}, Sample{users: u(340, 95), BareP50: 50, BareP95: 64},
		Sample{users: u(340, 74), BareP50: 50, BareP95: 64})
	for round := range 3 { // in the last one the machine is half as fast
		speed := 1 / float64(1+round/2)
		p := r.find("pair", litestream, mostUsers, constant, 0)
		p.Rounds = append(p.Rounds, Sample{users: u(3000*speed, 20), AgentRSS: 40e6})
		h := r.find("pair", local, mostUsers, constant, 0)
		h.Rounds = append(h.Rounds, Sample{users: u(3030*speed, 19), AgentRSS: 30e6})
	}
	r.Kills = []Killed{{Side: litestream, Answered: 5000, Restored: 4000, Lost: 1000, Seconds: 1}, {Side: stored, Answered: 500, Restored: 510, Seconds: 1}}
	r.Takeovers = []Takeover{{Side: litestream, MB: 100, Restore: 1, First: 2}, {Side: stored, MB: 100, Restore: 1, First: 1.5}}
	return r
}

// TestBarsOfSQLite: each is judged by its own figure, ratios within a round; what was not measured is not reached.
func TestBarsOfSQLite(t *testing.T) {
	for _, b := range judge(sampleReport()) {
		if b.Got == nil || b.Reached == strings.Contains(b.What, "memory") {
			t.Error(b.String())
		}
	}
	r := sampleReport()
	r.Kills = append(r.Kills, Killed{Side: stored, Answered: 7, Restored: 6, Lost: 1})
	r.get("sweep", stored, mostUsers).Rounds[0].P95 = 66
	r.get("spread", stored, mostUsers).Rounds[0].P95 = 80
	r.get("pair", local, mostUsers).Rounds[0].PerSecond = 2000
	r.get("pair", local, mostUsers).Rounds[1].PerSecond = 2000
	missed := 0
	for _, b := range judge(r) {
		if !b.Reached {
			missed++
		}
	}
	if missed != 5 {
		t.Errorf("%d bars are missed", missed)
	}
	for _, b := range judge(&Report{}) {
		if b.Reached || b.Got != nil {
			t.Errorf("nothing was measured, and %s", b.String())
		}
	}
}

// TestAReportIsShown: the table, the JSON and the plot have what was measured, and the published figures as they are.
func TestAReportIsShown(t *testing.T) {
	r := sampleReport()
	r.Bars = judge(r)
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{"192.00", "published: Litestream", "1000 lost in all", "first request after 1.50 s", "50 ms, sigma 0.15", "6 of 7 bars reached"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &out)
		}
	}
	dir := t.TempDir()
	jsonFile, plotFile := filepath.Join(dir, "x", "r.json"), filepath.Join(dir, "y", "r.svg")
	if err := r.write(jsonFile, plotFile); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(jsonFile)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(text, &again); err != nil || again.get("spread", stored, mostUsers).median(p95) != 74 {
		t.Errorf("%v: %s", err, text)
	}
	svg, err := os.ReadFile(plotFile)
	if err != nil || !strings.Contains(string(svg), publishedMount) || !strings.Contains(string(svg), "20 users") {
		t.Errorf("the plot: %v, %d bytes", err, len(svg))
	}
}

// TestPublishedFiguresAreWhole: ten rows a side, in order, and no number has slipped into another's column.
func TestPublishedFiguresAreWhole(t *testing.T) {
	for _, side := range publishedSides {
		rows := published[side]
		if len(rows) != 10 {
			t.Fatalf("%s has %d rows", side, len(rows))
		}
		for i, p := range rows {
			if p.Users != 2*(i+1) || !slices.IsSorted([]float64{p.Least, p.Med, p.P90, p.P95, p.Most}) || p.Avg < p.Least || p.Avg > p.P95 {
				t.Errorf("%s: %+v", side, p)
			}
		}
	}
}

// TestK6IsRead: its summary's numbers come to their places, and one without them is refused.
func TestK6IsRead(t *testing.T) {
	const good = `{"http_req_duration":{"values":{"med":1,"avg":2,"p(90)":3,"p(95)":4,"min":5,"max":6}},"iterations":{"values":{"count":70,"rate":8}},
		"checks":{"values":{"rate":0.9,"passes":69,"fails":1}}}`
	u, err := parseK6([]byte(good))
	if err != nil || *u != (users{69, 1, 8, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("%+v, %v", u, err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(good, "p(95)", "p(99)", 1), strings.Replace(good, "69", "0", 1)} {
		if u, err := parseK6([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, u)
		}
	}
}

// TestUploadsAreSpreadAsIsSaid: the median and the 95th percentile of a lognormal delay, and a constant one.
func TestUploadsAreSpreadAsIsSaid(t *testing.T) {
	var all []float64
	d := delay{Median: 50 * time.Millisecond, Sigma: 0.15}
	for range 20_000 {
		all = append(all, ms(d.next()))
	}
	if p50, p95 := quantile(all, 0.5), quantile(all, 0.95); math.Abs(p50-50) > 0.5 || math.Abs(p95-64) > 1 {
		t.Errorf("median %.1f, p95 %.1f", p50, p95)
	}
	if d.Sigma = 0; d.next() != d.Median {
		t.Error("a constant delay is not")
	}
}

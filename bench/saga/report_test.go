package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/bench/host"
)

// sampleReport has two rounds, in the second of which the machine was half as fast.
func sampleReport() *Report {
	r := &Report{Machine: host.Machine{CPU: "a processor", Cores: 2}}
	add := func(load, work string, clients int, server string, first, second, cpu float64) {
		f := r.figure(load, work, clients, server)
		for i, v := range []float64{first, second} {
			s := Sample{Round: i, Sagas: 1000, PerSecond: v, P50: 5, P99: 20, Max: 40, Server: cpu, Memory: 40 << 20}
			if server == dtm {
				s.Database = cpu
			}
			f.Rounds = append(f.Rounds, s)
		}
	}
	for _, w := range works {
		if w.alone() {
			add(withAB, w.name, abClients, none, 2000, 1000, 0)
		}
		add(withAB, w.name, abClients, dtm, 1000, 500, 700)
		add(withAB, w.name, abClients, holdfast, 2300, 1150, 280)
		add(withAB, w.name, abClients, three, 1400, 900, 500)
		add(withAB, w.name, abClients, floor, 2400, 1150, 180)
	}
	for _, n := range []int{20, 64} {
		add(withOurs, emptyWork, n, dtm, 1000, 500, 700)
		add(withOurs, emptyWork, n, holdfast, 6000, 1500, 100)
	}
	r.Recovery = []*Recovery{{Server: dtm, Sagas: 10000, Watched: 120, Finished: 6000}, {Server: holdfast, Sagas: 10000, Seconds: 4, Finished: 10000}}
	for round, p99 := range []float64{11, 14, 12} {
		r.Beside = append(r.Beside, &Beside{Server: holdfast, Round: round, Alone: Latency{P99: 10}, Hanging: Latency{P99: p99}})
	}
	r.Delayed = []*Delayed{{Server: holdfast, Messages: 10000, P99: 8}, {Server: three, Killed: true, Messages: 10000, Lost: 1}}
	r.Timers = &Timers{Open: 1e6, Ready: 6, Idle: 40 << 20, RSS: 90 << 20, Due: Delayed{P99: 3}}
	return r
}

// TestBarsAreJudged: with ratios within a round, and a bound by the floor where the machine allows no more.
func TestBarsAreJudged(t *testing.T) {
	got := make(map[string]bars.Bar)
	r := sampleReport()
	for _, b := range judge(r) {
		got[b.What] = b
	}
	for what, want := range map[string]struct {
		want, v float64
		reached bool
	}{
		"0 SQL, rate beside DTM (0.9 of the floor's, which is less than 2.2×)":               {2.115, 2.3, true},
		"0 SQL, coordinator's CPU per saga beside DTM and its MariaDB":                       {0.25, 0.2, true},
		"0 SQL by our load tool, 20 clients, rate beside DTM":                                {4, 4.5, true},
		"2 SQL, rate beside no coordinator":                                                  {0.65, 1.15, true},
		"2 SQL with barrier, rate beside no coordinator and no barrier":                      {0.6, 1.15, true},
		"0 SQL, three nodes, rate beside one DTM":                                            {1.5, 1.6, true},
		"10,000 sagas killed with their second call hanging, all finished after the restart": {10, 4, true},
		"p99 of 300 sagas/s beside 30/s to a service that never answers, beside without":     {1.25, 1.2, true},
		"10,000 delayed messages, late by p99":                                               {20, 8, true},
		"10,000 delayed messages, leader of three killed, early or not delivered":            {0, 1, false},
		"open timers, ready after a restart":                                                 {5, 6, false},
		"open timers, memory above an idle server":                                           {60, 50, true},
	} {
		b := got[what]
		near := func(a, b float64) bool { return a-b < 0.011 && b-a < 0.011 }
		if b.Got == nil || !near(*b.Got, want.v) || !near(b.Want, want.want) || b.Reached != want.reached {
			t.Errorf("%s: %s", what, b.String())
		}
	}
	r.Recovery[1].Seconds = 0
	r.figure(withAB, "0 SQL", abClients, floor).Rounds[0].PerSecond = 5000
	for _, b := range judge(r) {
		if strings.Contains(b.What, "hanging") && b.Reached {
			t.Errorf("%s although the sagas never finished", b.String())
		}
		if strings.HasPrefix(b.What, "0 SQL, rate") && b.Want != 2.2 {
			t.Errorf("%s although the floor is high", b.String())
		}
	}
	for _, b := range judge(&Report{}) {
		if b.Got != nil || b.Reached {
			t.Errorf("%s: nothing was measured", b.String())
		}
	}
}

// TestReportIsForPeopleAndMachines.
func TestReportIsForPeopleAndMachines(t *testing.T) {
	r := sampleReport()
	r.Bars = judge(r)
	var b bytes.Buffer
	r.print(&b)
	for _, want := range []string{"Holdfast, 3 nodes", "(2.30×)", "935", "9548", "6000 finished within 120 s", "all finished after 4.0 s", "1.20×",
		"leader killed", "1000000 open timers", "50.0 MB above", "MISSED", " bars reached"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the tables do not say %q:\n%s", want, b.String())
		}
	}
	dir := t.TempDir()
	if err := r.write(filepath.Join(dir, "a", "b.json"), filepath.Join(dir, "c", "d.svg")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "a", "b.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || len(back.Figures) != len(r.Figures) || back.Figures[1].Rounds[0].Database != 700 {
		t.Errorf("%v, %s", err, text)
	}
	text, err = os.ReadFile(filepath.Join(dir, "c", "d.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a processor", "two empty branches, 64 clients", "10 SQL, barrier", "2.30×"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the plot does not say %q", want)
		}
	}
}

// TestStatementsAreCountedAsPublished: the report's own figures come out of its own rates, but for its slip.
func TestStatementsAreCountedAsPublished(t *testing.T) {
	for _, p := range published {
		for _, w := range works {
			if w.name != p.Work || p.Statements == 0 {
				continue
			}
			if got := p.Global * w.transactions(p.Coordinator); got != p.Transactions {
				t.Errorf("%s, %s: %d transactions, published %d", p.Work, p.Coordinator, got, p.Transactions)
			}
			if got := p.Global * w.statements(p.Coordinator); got != p.Statements && !(w.name == "10 SQL" && p.Coordinator == none) {
				t.Errorf("%s, %s: %d statements, published %d", p.Work, p.Coordinator, got, p.Statements)
			}
		}
	}
	if m := works[2].mode(true); m != "dtm_barrier" || works[1].mode(true) != "dtm_tx" || works[1].mode(false) != "raw_tx" {
		t.Errorf("modes: %s", m)
	}
}

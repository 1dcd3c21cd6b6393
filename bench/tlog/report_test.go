package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/bench/host"
)

// sample is a report of two rounds, in which ours is better in the first than in the second.
func sample() *Report {
	r := &Report{Machine: host.Machine{CPU: "a processor", Cores: 2}, Small: "by affinity", Many: []*ManyLogs{{Logs: 1, RSS: 20}, {Logs: 1, RSS: 30}, {Logs: 1000, RSS: 60}},
		Bundles: []*Bundles{{Server: posix, Rounds: []BundleSample{{CPU: 40}, {CPU: 20}, {CPU: 30}}}, {Server: holdfast, Rounds: []BundleSample{{CPU: 12}}}},
		Proofs:  &Proofs{Rate: 1000, P50: 4, P99: 60}}
	add := func(place, server string, l load, rates ...float64) {
		f := r.figure(place, server, l)
		for _, v := range rates {
			s := Sample{Seconds: 10, AddsPerSec: v, CPU: 1e6 / v, Size: 1000, Disk: 150000, Held: 500, Log: 50000, Files: 7, Memory: 64 << 20}
			if l.Tool == withOurs {
				s.Queue, s.Integrate = &Spread{1, 2, 2, 3, 4}, &Spread{5, 600, 700, 800, 900}
			}
			f.Rounds = append(f.Rounds, s)
		}
	}
	for _, tool := range []string{withHammer, withOurs} {
		add(wholeMachine, posix, load{Tool: tool, Writers: 16}, 16, 16)
		add(wholeMachine, personality, load{Tool: tool, Writers: 16}, 800, 900)
		add(wholeMachine, holdfast, load{Tool: tool, Writers: 16}, 16000, 8000)
		add(wholeMachine, posix, load{Tool: tool, Writers: 1024}, 20000, 10000)
		add(wholeMachine, holdfast, load{Tool: tool, Writers: 1024}, 40000, 14000)
	}
	add(smallMachine, posix, smallLoads[2], 9000)
	add(smallMachine, holdfast, smallLoads[2])
	add(withMySQL, tesseraMySQL, mysqlLoad, 1000, 1100)
	add(withMySQL, holdfast, mysqlLoad, 9000, 8000)
	last := r.Figures[len(r.Figures)-1].Rounds
	first, second := 2.5, 1.5
	last[0].Behind, last[1].Behind, last[0].Database, last[1].Database = &first, &second, 0.5, 0.7
	return r
}

// TestRatiosAreTakenWithinARound: the machine was twice as slow in the second.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	r := sample()
	got := make(map[string]bars.Bar)
	for _, b := range judge(r) {
		got[b.What] = b
	}
	for what, want := range map[string]struct {
		v       float64
		reached bool
	}{
		"hammer, 1,024 writers, rate beside conformance-posix": {1.7, true},
		"hammer, 16 writers, rate":                             {750, true},
		"own load tool, 1,024 writers, rate":                   {1.7, false},
		"own load tool, 1,024 writers, server CPU an add":      {(0.5 + 10.0/14) / 2, false},
		"add to verified proof at 1,000 adds/s, p50":           {4, true},
		"add to verified proof at 1,000 adds/s, p99":           {60, false},
		"published to MariaDB, behind the log":                 {2.5, false},
	} {
		if b, ok := got[what]; !ok || b.Got == nil || math.Abs(*b.Got-want.v) > 1e-9 || b.Reached != want.reached {
			t.Errorf("%s: %s", what, b.String())
		}
	}
	for _, b := range judge(&Report{}) {
		if b.Reached || b.Got != nil || !strings.HasPrefix(b.String(), "not measured") {
			t.Errorf("nothing was measured: %s", b.String())
		}
	}
}

func TestTheReportIsForPeopleAndMachines(t *testing.T) {
	r := sample()
	r.Bars = judge(r)
	var b bytes.Buffer
	r.print(&b)
	for _, want := range []string{"(750.00×)", "1.0/2.0/4.0", "5.0/600/900", "149/371/692", "MISSED", "5 of 10 bars reached", "MariaDB used 60 % of a processor; what is published was at most 2.5 s behind", "by affinity"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, b.String())
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
	if err := json.Unmarshal(text, &back); err != nil || len(back.Figures) != len(r.Figures) || back.Figures[0].Writers != 16 {
		t.Errorf("%v, %s", err, text)
	}
	text, err = os.ReadFile(filepath.Join(dir, "c", "d.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a processor", "600 writers", "none counts", "750.00×", "p99 60.0 ms", "256 writers"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the plot does not say %q", want)
		}
	}
}

// TestEntriesInTheLogAloneDoNotCount for the bytes in the store.
func TestEntriesInTheLogAloneDoNotCount(t *testing.T) {
	n, err := flushed("PREFIX       ROWS  KEYS     VALUES\ntb           471   6.4 KiB  7.6 MiB\ntc           1     6 B      215 B\n")
	if err != nil || n != 471*256 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err = flushed("PREFIX  ROWS\nmm  1\n"); err != nil || n != 0 {
		t.Errorf("a store without bundles has %d entries, %v", n, err)
	}
}

// TestDiskIsCountedInBlocks: a file of one byte takes more, and the log stands apart.
func TestDiskIsCountedInBlocks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"wal/1", "wal/2", "store/1", "walrus"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{'x'}, 10000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	u, err := use(dir)
	if err != nil || u.files != 4 || u.log < 20000 || u.bytes < 40000 || u.bytes-u.log < 20000 {
		t.Errorf("%+v, %v", u, err)
	}
}

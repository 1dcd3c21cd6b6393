package main

import (
	"strings"
	"testing"
	"time"
)

const printed = `SQL statistics:
    queries performed:
        read:                            140
        write:                           40
        other:                           20
        total:                           200
    transactions:                        10     (99.50 per sec.)
    queries:                             200    (1990.00 per sec.)
    ignored errors:                      3      (0.10 per sec.)
    reconnects:                          0      (0.00 per sec.)
Latency (ms):
         95th percentile:                        12.30
`

// TestAReportOfSysbench: figures are read, and a run in which nothing came through is no figure.
func TestAReportOfSysbench(t *testing.T) {
	var o Round
	if err := o.read(printed, 5*time.Millisecond); err != nil || o.Rate != 99.5 || o.P95ms != 12.3 || o.Errors != 3 || o.CPUus != 25 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, without := range []string{"transactions:                        10", "queries:                             200", "95th percentile:", "ignored errors:"} {
		if err := new(Round).read(strings.Replace(printed, without, "", 1), time.Millisecond); err == nil {
			t.Errorf("a report without %q has figures", without)
		}
	}
	if err := new(Round).read(strings.Replace(printed, "(99.50", "(0.00", 1), time.Millisecond); err == nil {
		t.Error("no transaction came through, and there are figures")
	}
}

func TestLinesOfTheMetric(t *testing.T) {
	for line, want := range map[string]int64{`holdfast_sql_errors_total{code="1213"} 7`: 7, `holdfast_sql_errors_total{code="1062"} 1e+06`: 1000000,
		`holdfast_sql_sessions 3`: -1, `# HELP holdfast_sql_errors_total x`: -1} { // any order: each is on its own
		_, n, ok := errorLine(line)
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d %v", line, n, ok)
		}
	}
}

// TestTheTable: medians of each server and their ratio; errors by number where the server counts them.
func TestTheTable(t *testing.T) {
	r := &Report{Tables: 1, Rows: 10, Seconds: 2}
	for i, rate := range []float64{100, 300, 200} {
		r.Rounds = append(r.Rounds, Round{Server: holdfast, Workload: "w", Threads: 16, Rate: rate, P95ms: 4, CPUus: 10, Errors: 2, Codes: map[string]int64{"1213": 2}},
			Round{Server: mariadb, Workload: "w", Threads: 16, Rate: 50 * float64(i+1), P95ms: 8, CPUus: 20, Errors: 1})
	}
	var out strings.Builder
	r.print(&out)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"w 16 3 200.0 100.0 2.00 4.0 8.0 0.50 10.0 20.0 0.50 6 × 1213 3"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"path/filepath"
	"slices"
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
	if err := o.read(printed, 5*time.Millisecond); err != nil || o.Rate != 99.5 || o.QPS != 1990 || o.P95ms != 12.3 || o.Errors != 3 || o.CPUus != 25 {
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

// sample is a report of two cells: at 16 threads on both, and at 200 threads with a pool that is faster.
func sample() *Report {
	r := &Report{Build: "b", Tables: 1, Rows: 10, Seconds: 2}
	r.Machine.Cores = 2
	for i, rate := range []float64{100, 300, 200} {
		c := Cell{1536, 16, "oltp_write_only"}
		r.Rounds = append(r.Rounds, Round{Server: holdfast, Cell: c, Rate: rate, QPS: 6 * rate, P95ms: 4, CPUus: 10, RSSmb: 90, Errors: 2, Codes: map[string]int64{"1213": 2}},
			Round{Server: mariadb, Cell: c, Rate: 50 * float64(i+1), P95ms: 8, CPUus: 20, RSSmb: 100, Errors: 1})
		c = Cell{1536, 200, "oltp_point_select"}
		r.Rounds = append(r.Rounds, Round{Server: holdfast, Cell: c, Rate: 90, QPS: 90, P95ms: 4, CPUus: 10, RSSmb: 90},
			Round{Server: mariadb, Cell: c, Rate: 80, P95ms: 8, CPUus: 20, RSSmb: 100}, Round{Server: pooledMariaDB, Cell: c, Rate: 100, P95ms: 5, CPUus: 20, RSSmb: 100})
	}
	return r
}

// TestTheTable: medians of each server and their ratio; errors by number where the server counts them; the better MariaDB; what is published.
func TestTheTable(t *testing.T) {
	r := sample()
	r.judge()
	var out strings.Builder
	r.print(&out)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"1536 oltp_write_only 16 3 1200 200.0 100.0 2.00 4.0 8.0 0.50 10.0 20.0 0.50 90.0 100.0 0.90 6 × 1213 3",
		"1536 oltp_point_select (pool) 200 3 90 90.0 100.0 0.90 4.0 5.0 0.80",
		"1536 oltp_point_select 200 147127 9195 90 45 2.1 4.0",
		"reached oltp_write_only, 16 threads: transactions beside MariaDB's: at least 1.05x, it is 2.00x",
		"MISSED oltp_point_select, 200 threads: transactions beside MariaDB's better scheduler: at least 1x, it is 0.90x",
		"3 of 4 bars reached",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// TestOneMemoryIsJudged: a second memory is in the table and has no bar.
func TestOneMemoryIsJudged(t *testing.T) {
	r := sample()
	for _, o := range r.Rounds {
		o.Memory = 256
		r.Rounds = append(r.Rounds, o)
	}
	if r.judge(); len(r.Bars) != 4 || len(r.cells()) != 4 {
		t.Errorf("%d bars of %d cells", len(r.Bars), len(r.cells()))
	}
}

// TestASweepGoesOn: what was measured is not measured again, what lacks rounds is, and a report of another build or of other rows is refused.
func TestASweepGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sql.json")
	if err := sample().write(path); err != nil {
		t.Fatal(err)
	}
	r := &Report{Build: "b", Tables: 1, Rows: 10, Seconds: 2}
	if err := r.goOn(path); err != nil || len(r.Rounds) != 15 {
		t.Fatalf("%d rounds: %v", len(r.Rounds), err)
	}
	s := &sweep{bench: &bench{threads: []int{16, 200}, names: []string{"oltp_point_select", "oltp_write_only"}, rounds: 3}, report: r}
	todo := func() []Cell { return s.todo(1536) }
	want := []Cell{{1536, 16, "oltp_point_select"}, {1536, 200, "oltp_write_only"}}
	if got := todo(); !slices.Equal(got, want) {
		t.Errorf("%v are to be measured, want %v", got, want)
	}
	if s.rounds = 4; len(todo()) != 4 {
		t.Errorf("with another round %v are to be measured", todo())
	}
	if r.drop(want[0]); len(r.Rounds) != 15 {
		t.Error("rounds of other cells are dropped")
	}
	if r.drop(Cell{1536, 16, "oltp_write_only"}); len(r.Rounds) != 9 {
		t.Errorf("%d rounds are left, want 9", len(r.Rounds))
	}
	for _, other := range []*Report{{Build: "c", Tables: 1, Rows: 10, Seconds: 2}, {Build: "b", Tables: 2, Rows: 10, Seconds: 2},
		{Build: "b", Tables: 1, Rows: 11, Seconds: 2}, {Build: "b", Tables: 1, Rows: 10, Seconds: 3}} {
		if other.goOn(path) == nil {
			t.Errorf("%+v goes on with a report of something else", other)
		}
	}
}

// TestThePlot: it is well-formed, and every cell is in it.
func TestThePlot(t *testing.T) {
	text := sample().chart()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"16 threads, --memory 1536MiB", "200 threads, --memory 1536MiB", "oltp_write_only", "2.00×", "0.90×"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is not in the plot", want)
		}
	}
}

// TestListsOfTheCommandLine: a mistake is one line, and nothing is measured.
func TestListsOfTheCommandLine(t *testing.T) {
	for _, c := range []struct {
		threads, memory string
		ok              bool
	}{{"16, 100", "1536,256", true}, {"16,", "1536", false}, {"0", "1536", false}, {"16", "255", false}, {"16", "1GiB", false}} {
		b := &bench{tables: 1, rows: 1, seconds: 1, rounds: 1, tpccThreads: 1}
		if err := b.parse(c.threads, "oltp_read_only", c.memory); (err == nil) != c.ok {
			t.Errorf("-threads %q -memory %q: %v", c.threads, c.memory, err)
		}
	}
}

const printedTPCC = `tpcc: something
[Summary] DELIVERY - Takes(s): 19.8, Count: 282, TPM: 856.5, Sum(ms): 9849.9, Avg(ms): 34.9, 50th(ms): 32.5, 90th(ms): 54.5, 95th(ms): 62.9, 99th(ms): 71.3
[Summary] NEW_ORDER - Takes(s): 20.0, Count: 3294, TPM: 9900.6, Sum(ms): 38318.0, Avg(ms): 11.6, 50th(ms): 10.5, 90th(ms): 18.9, 95th(ms): 24.1, 99th(ms): 33.6
[Summary] NEW_ORDER_ERR - Takes(s): 19.0, Count: 4, TPM: 12.0, Sum(ms): 10.0, Avg(ms): 2.5, 50th(ms): 2.5, 90th(ms): 2.5, 95th(ms): 2.5, 99th(ms): 2.5
tpmC: 9900.6, tpmTotal: 21000.0, efficiency: 76987.5%
`

// TestAReportOfGoTPC: figures are read, and a round in which no order came through is no figure.
func TestAReportOfGoTPC(t *testing.T) {
	var r TPCCRound
	if err := r.read(printedTPCC, 14*time.Second, 20); err != nil || r.TpmC != 9900.6 || r.P95ms != 24.1 || r.Errors != 4 || r.CPUms != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, without := range []string{"tpmC", "NEW_ORDER - "} {
		if err := new(TPCCRound).read(strings.Replace(printedTPCC, without, "", 1), time.Second, 20); err == nil {
			t.Errorf("a report without %q has figures", without)
		}
	}
	if err := new(TPCCRound).read(strings.Replace(printedTPCC, "tpmC: 9900.6", "tpmC: 0.0", 1), time.Second, 20); err == nil {
		t.Error("no order came through, and there are figures")
	}
}

// TestTPCCIsJudged: a broken condition misses its bar, and is named.
func TestTPCCIsJudged(t *testing.T) {
	r := &Report{TPCC: &TPCC{Warehouses: 4, Threads: 16, Memory: 1536, Killed: true, Broken: map[string][]string{holdfast: {"3: new orders have no gaps (2 times)"}},
		Rounds: []TPCCRound{{Server: holdfast, TpmC: 120, P95ms: 5, CPUms: 1}, {Server: mariadb, TpmC: 100, P95ms: 5, CPUms: 1, Errors: 3}}}}
	r.judge()
	var out strings.Builder
	r.print(&out)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"Holdfast 120 5.0 1.00 0 3: new orders have no gaps (2 times)", "MariaDB 100 5.0 1.00 3 none", "at least 1x, it is 1.20x", "at most 0, it is 1.00", "1 of 2 bars reached"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

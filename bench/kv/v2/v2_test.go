package v2

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/bench/host"
)

const heyPrinted = `
Summary:
  Total:	2.0021 secs
  Slowest:	0.0226 secs
  Requests/sec:	16505.3594

  Total data:	2973420 bytes
  Size/request:	90 bytes

Response time histogram:
  0.000 [1]	|
  0.002 [8158]	|■■■■■

Latency distribution:
  50% in 0.0034 secs
  90% in 0.0061 secs
  99% in 0.0089 secs

Status code distribution:
  [200]	33037 responses
  [201]	1 responses
`

const wrkPrinted = `Running 2s test @ http://127.0.0.1:15101/v2/keys/foo
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.91ms    1.52ms  24.36ms   85.11%
    Req/Sec    18.12k     2.11k   22.40k    68.29%
  Latency Distribution
     50%    1.57ms
     90%  890.00us
     99%    7.23ms
  72050 requests in 2.00s, 20.41MB read
Requests/sec:  36025.97
Transfer/sec:     10.20MB
`

func TestSummariesAreRead(t *testing.T) {
	l, err := parseHey(heyPrinted)
	if err != nil || *l != (loaded{count: 33038, perSecond: 16505.3594, p90: 6.1, size: 90}) {
		t.Errorf("hey: %+v, %v", l, err)
	}
	l, err = parseWrk(wrkPrinted)
	if err != nil || *l != (loaded{count: 72050, perSecond: 36025.97, p90: 0.89}) {
		t.Errorf("wrk: %+v, %v", l, err)
	}
}

// A tool that was answered with errors prints a fine rate all the same.
func TestErrorsDoNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		parse func(string) (*loaded, error)
		out   string
		want  error
	}{
		"hey, a 404":            {parseHey, strings.Replace(heyPrinted, "[201]", "[404]", 1), errStatus},
		"hey, a refused dial":   {parseHey, heyPrinted + "\nError distribution:\n  [3]\tconnect: connection refused\n", errStatus},
		"hey, cut short":        {parseHey, heyPrinted[:strings.Index(heyPrinted, "Status")], errIncomplete},
		"hey, nothing answered": {parseHey, strings.ReplaceAll(heyPrinted, "90% in", "80% in"), errIncomplete},
		"wrk, another status":   {parseWrk, strings.Replace(wrkPrinted, "Requests/sec", "  Non-2xx or 3xx responses: 12\nRequests/sec", 1), errStatus},
		"wrk, timeouts":         {parseWrk, strings.Replace(wrkPrinted, "Requests/sec", "  Socket errors: connect 0, read 0, write 0, timeout 9\nRequests/sec", 1), errStatus},
		"wrk, cut short":        {parseWrk, wrkPrinted[:strings.Index(wrkPrinted, "Requests/sec")], errIncomplete},
	} {
		if _, err := c.parse(c.out); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// all is a configuration of the whole table.
func all() *Config {
	return &Config{Clients: []int{1, 64, 256}, Sizes: []int{64, 256}, Ops: []string{"read", "write"}, Tools: []string{"hey", "wrk"},
		Targets: []string{"leader", "all"}}
}

func TestCellsAreTheReports(t *testing.T) {
	cells, err := all().cells()
	if err != nil || len(cells) != 30 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	found := 0
	for _, c := range cells {
		if publishedFor(c) != nil {
			found++
		}
		if c.Target == "all" && (c.Clients == 1 || c.Clients == 64 && c.perMember() != 21 || c.Clients == 256 && c.perMember() != 85) {
			t.Errorf("%s: %d clients for each member", c, c.perMember())
		}
	}
	if found != len(published) {
		t.Errorf("%d of the %d published lines are measured", found, len(published))
	}
	cfg := all()
	cfg.Ops = []string{"erase"}
	if _, err := cfg.cells(); err == nil {
		t.Error("an unknown operation is no error")
	}
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	c := Cell{"read", "hey", 64, 64, "leader"}
	round := func(server string, n int, speed float64) Round {
		return Round{Server: server, Cell: c, Round: n, PerSecond: speed, P90: 2, CPU: 1e6 / speed}
	}
	// The machine is slow in rounds 1 and 3; etcd's second round does not count.
	lines := summarize([]Cell{c}, []Round{round(etcd, 1, 100), round(holdfast, 1, 200), round(holdfast, 2, 1000), round(etcd, 3, 50),
		round(holdfast, 3, 110), round(etcd, 4, 300), round(holdfast, 4, 900)})
	if l := lines[0]; l.Speed != 2.2 || l.Etcd.Rounds != 3 || l.Holdfast.Rounds != 4 || l.Etcd.PerSecond != 100 || l.Latency != 1 {
		t.Errorf("%+v, etcd %+v, holdfast %+v", l, l.Etcd, l.Holdfast)
	}
	var b bytes.Buffer
	printTable(&b, lines)
	if !strings.Contains(b.String(), "2.20x") || !strings.Contains(b.String(), "15048") {
		t.Errorf("table:\n%s", b.String())
	}
}

// sample is a report with every cell, one of them without a server's figures.
func sample() *Report {
	cells, _ := all().cells()
	rep := &Report{Machine: host.Machine{CPU: "a <processor> & more", Cores: 2}, Seconds: 5}
	for i, c := range cells {
		l := Line{Cell: c, Speed: 1.1, CPU: 0.5, Etcd: &Figures{Rounds: 7, PerSecond: 100 * float64(c.Clients), Deviation: 900, P90: float64(i), CPU: 40}}
		if i != 3 {
			l.Holdfast = &Figures{Rounds: 7, PerSecond: 110 * float64(c.Clients), P90: 0.01, CPU: 20}
		}
		rep.Lines = append(rep.Lines, l)
	}
	return rep
}

func TestPlotSaysWhatWasMeasured(t *testing.T) {
	text := string(chart(sample()))
	for _, want := range []string{"a &lt;processor&gt; &amp; more", "7 rounds", "none counts", "published figures of etcd 2.2.0",
		"256 B, 64 clients, all members", "1.10×", "0.50×"} {
		if !strings.Contains(text, want) {
			t.Errorf("the plot does not say %q", want)
		}
	}
	if empty := string(chart(&Report{})); !strings.Contains(empty, "no round") {
		t.Errorf("a plot of nothing: %s", empty)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const printed = `
Summary:
  Total:	1.75961021 secs.
  Slowest:	0.019917974 secs.
  Requests/sec:	17049.23046564955

Response time histogram:
  0.0010 [1]	|
  0.0030 [2568]	|∎∎∎∎∎

Latency distribution:
  10% in 0.002015234 secs.
  50% in 0.003280176 secs.
  90% in 0.005867619 secs.
  99% in 0.010200752 secs.
  99.9% in 0.017132568 secs.
`

func TestParseLoad(t *testing.T) {
	l, err := parseLoad(printed)
	if err != nil {
		t.Fatal(err)
	}
	if l.seconds != 1.75961021 || l.perSecond != 17049.23046564955 || l.percentile["50"] != 3.280176 || l.percentile["99"] != 10.200752 {
		t.Errorf("parsed %+v", l)
	}
	for name, out := range map[string]string{
		"errors":     printed + "\nError distribution:\n  [3]\tetcdserver: request timed out\n",
		"no summary": "panic: something\n",
		"cut short":  printed[:strings.Index(printed, "99% in")],
	} {
		if _, err := parseLoad(out); err == nil {
			t.Errorf("%s: counted as a good run", name)
		}
	}
}

// -dir may name a directory with other things in it: a run with -dir /tmp once took all of /tmp with it.
func TestDirectoryIsNotEmptied(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "not-ours")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), &config{dir: dir, out: filepath.Join(t.TempDir(), "kv.json")}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(kept) {
		t.Errorf("in the directory afterwards: %v, %v", left, err)
	}
}

func TestMedians(t *testing.T) {
	c := cell{"put", 1, 64}
	rounds := []round{{Server: "etcd", cell: c, PerSecond: 5}, {Server: "etcd", cell: c, PerSecond: 1}, {Server: "etcd", cell: c, PerSecond: 2},
		{Server: "floor", cell: c, PerSecond: 9}, {Server: "etcd", cell: cell{"put", 3, 64}, PerSecond: 100}}
	if m := medians(rounds, "etcd", c); m.PerSecond != 2 || m.Round != 3 {
		t.Errorf("median %+v", m)
	}
	if m := medians(rounds, "holdfast", c); m != nil {
		t.Errorf("a server that was not measured has %+v", m)
	}
	var b strings.Builder
	printTable(&b, summarize([]cell{c}, []string{"etcd", "holdfast", "floor"}, rounds))
	if !strings.Contains(b.String(), "4.50x") || strings.Contains(b.String(), "holdfast") {
		t.Errorf("table:\n%s", b.String())
	}
}

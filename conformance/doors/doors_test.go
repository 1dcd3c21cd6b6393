package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/pace"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// TestWhatAChangeConcerns: a door is left out only if nothing of it, of its programs or of what all stand on has changed.
func TestWhatAChangeConcerns(t *testing.T) {
	apart := tree{server: []string{"core/node", "doors/kv"}, spine: []string{"core/node"}, doors: map[string][]string{"kv": {"core/node", "doors/kv"}, "tlog": nil}}
	if !apart.concerns("core/node/loop.go", "tlog") || apart.concerns("doors/kv/door.go", "tlog") {
		t.Error("what all stand on concerns every door, also one that does not import it")
	}
	t.Chdir("../..")
	c, err := changesSince(runsFile)
	if err != nil {
		t.Fatal(err)
	}
	real := c.tree
	for file, want := range map[string]string{
		"doors/kv/door.go":                   "kv",
		"doors/kv/v2/keys.go":                "kv",
		"doors/kv/v2/expire/worker.go":       "kv",
		"conformance/known_failures.txt":     "kv",
		"conformance/v3diff/draw.go":         "kv",
		"conformance/kube/main.go":           "kv",
		"doors/kv/machine/scan.go":           "kv",
		"doors/tlog/read.go":                 "tlog",
		"doors/tlog/publish/place.go":        "tlog",
		"conformance/tlog/verify.py":         "tlog",
		"doors/tlog/machine/machine.go":      "tlog",
		"doors/tlog/tiles/tile.go":           "tlog",
		"doors/saga/advance/worker.go":       "saga",
		"archive/ship/term.go":               "archive",
		"archive/restore/restore.go":         "archive",
		"doors/saga/outcall/net.go":          "saga",
		"doors/saga/machine/do.go":           "saga",
		"conformance/saga/transfer/judge.go": "saga",
		"doors/sql/engine/editor.go":         "sql",
		"doors/sql/txn/tx.go":                "sql",
		"conformance/sql/clients/text.py":    "sql",
		"conformance/sqldiff/reasons.go":     "sql",
		"serve/port/port.go":                 "kv tlog saga sql archive sqlite strangers week",
		"core/node/loop.go":                  "kv tlog saga sql archive sqlite strangers week",
		"core/wal/wal.go":                    "kv tlog saga sql archive sqlite strangers week",
		"core/entry/entry.go":                "kv tlog saga sql archive sqlite strangers week",
		"internal/proctest/cluster.go":       "kv tlog saga sql archive sqlite strangers week",
		"cmd/holdfast/start.go":              "kv tlog saga sql archive sqlite strangers week",
		"doors/kv/etcd/flags/settings.go":    "kv",
		"sqlite/litestream/run.go":           "sqlite",
		"serve/admin/admin.go":               "kv tlog saga sql archive sqlite strangers week", // in the server and no door's own
		"go.mod":                             "kv tlog saga sql archive sqlite strangers week",
		"Makefile":                           "kv tlog saga sql archive sqlite strangers week",
		"scripts/peers.sh":                   "kv tlog saga sql archive sqlite strangers week",
		"conformance/doors/doors.go":         "kv tlog saga sql archive sqlite strangers week",
		"sqlite/extension/shm.c":             "sqlite",
		"docs/OPERATIONS.md":                 "",
		"conformance/RESULTS.md":             "",
		"doors/kv/door_test.go":              "",
		"doors/kv/part/testdata/golden":      "",
		"bench/kv/main.go":                   "",
		"sim/world.go":                       "",
		"internal/mutants/list/kv.txt":       "",
	} {
		var got []string
		for _, d := range doors {
			if real.concerns(file, d.name) {
				got = append(got, d.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s concerns %q, want %q", file, got, want)
		}
	}
}

// TestAnUnknownPastRunsEverything: no row, a commit from elsewhere, no git at all: nothing is left out.
func TestAnUnknownPastRunsEverything(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	git := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("a.go", "1")
	git("add", "-A")
	git("commit", "-qm", "one")
	first := git("rev-parse", "HEAD")
	git("checkout", "-q", "--orphan", "other")
	git("commit", "-qm", "elsewhere")
	elsewhere := git("rev-parse", "HEAD")
	git("checkout", "-q", "-b", "on", first)
	write("b.go", "1")
	git("add", "-A")
	git("commit", "-qm", "two")
	write("a.go", "2")
	write("c.go", "1")
	if s := filesSince([]row{{"kv", first, ""}}, "kv", runsFile); s.why != "" || !slices.Equal(s.files, []string{"a.go", "b.go", "c.go"}) {
		t.Errorf("since the first commit: %+v", s)
	}
	for name, runs := range map[string][]row{"no run": nil, "another door's": {{"tlog", first, ""}}, "elsewhere": {{"kv", elsewhere, ""}},
		"no commit": {{"kv", "0123456789", ""}}} {
		if s := filesSince(runs, "kv", runsFile); s.why == "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	c := &changes{since: map[string]since{"kv": {commit: "abc"}, "tlog": {why: "nobody knows"}}}
	if why, affected := c.affects("kv"); affected || why != "unchanged since its last full run at abc" {
		t.Error(why, affected)
	}
	if _, affected := c.affects("tlog"); !affected {
		t.Error("a door is left out of which nothing is known")
	}
}

// TestRunsKeepOtherDoors: a run of one door replaces its own row.
func TestRunsKeepOtherDoors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RUNS.md")
	for _, r := range []row{{"kv", "c1", "d1"}, {"tlog", "c1", "d1"}, {"kv", "c2", "d2"}} {
		if err := record(file, r); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := parseRuns(string(b)); !slices.Equal(got, []row{{"kv", "c2", "d2"}, {"tlog", "c1", "d1"}}) {
		t.Errorf("%+v", got)
	}
}

// TestPortsVariable: what is set is what the programs look for.
func TestPortsVariable(t *testing.T) {
	if portsVariable != proctest.PortsVariable {
		t.Errorf("%s is set, %s is looked for", portsVariable, proctest.PortsVariable)
	}
}

// TestGroups: all run, those with etcd's fixed ports never beside each other; one that fails is returned, and one that is late named.
func TestGroups(t *testing.T) {
	t.Setenv(pace.Variable, "1")
	dir := t.TempDir()
	table := filepath.Join(dir, "TESTS.md")
	if err := os.WriteFile(table, []byte("# "+allowed+"\n| `late` | 0.1 |\n| everything else | 20 |\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	limits, err := pace.Read(table, allowed)
	if err != nil {
		t.Fatal(err)
	}
	// Two with fixed ports fail if they meet, and the last waits for a free hand meanwhile.
	alone := "mkdir " + dir + "/lock && sleep 0.2 && rmdir " + dir + "/lock"
	all := []group{
		{name: "first", args: []string{"sh", "-c", alone}, fixedPorts: true},
		{name: "second", args: []string{"sh", "-c", alone}, fixedPorts: true},
		{name: "bad", args: []string{"sh", "-c", "echo words; exit 3"}},
		{name: "late", args: []string{"sleep", "0.3"}},
		{name: "good", args: []string{"true"}},
	}
	for _, jobs := range []int{1, 2, 3} {
		var said bytes.Buffer
		var names []string
		for _, g := range runGroups(all, jobs, limits, &said) {
			names = append(names, g.name)
		}
		if !slices.Equal(names, []string{"bad"}) {
			t.Errorf("%d at a time: %v failed", jobs, names)
		}
		if jobs > 1 && !strings.Contains(said.String(), "slow: late took") { // one at a time it goes to the standard error
			t.Errorf("%d at a time, the late one is not named: %s", jobs, &said)
		}
	}
	began := time.Now()
	if failed := runGroups([]group{{name: "late", args: []string{"sleep", "0.3"}}}, 1, nil, io.Discard); failed != nil || time.Since(began) < 300*time.Millisecond {
		t.Errorf("without limits: %v", failed)
	}
}

// TestAllowances: the table has a row for every group of a quick run, and for no other.
func TestAllowances(t *testing.T) {
	a, err := pace.Read("../../"+allowances, allowed)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, d := range doors {
		for _, g := range d.groups(true) {
			want = append(want, g.name)
		}
	}
	got := a.Names()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("rows for\n%q, groups\n%q", got, want)
	}
}

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/results"
)

func TestResultsKeepWhatWasNotRun(t *testing.T) {
	name := filepath.Join(t.TempDir(), "RESULTS.md")
	tools := []string{"etcdctl-3.4", "etcdctl-3.7.3"}
	bad := errors.New("x")
	for _, run := range [][]result{
		{{name: "kv/3/etcdctl-3.7.3/del", err: bad}, {name: "kv/1/etcdctl-3.4/lease", err: bad}, {name: "kv/1/etcdctl-3.4/put-get"}},
		{{name: "kv/3/etcdctl-3.7.3/del"}, {name: "kv/1/etcdctl-3.7.3/put-get", err: bad}},
	} {
		if err := writeResults(name, run, map[string]string{"kv/1/etcdctl-3.4/lease": "because"}, tools); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := "2 passed, 2 failed.\n\n| nodes | case | etcdctl-3.4 | etcdctl-3.7.3 |\n|--:|---|---|---|\n" +
		"| 1 | put-get | passed | FAILED |\n| 1 | lease | fails: because | – |\n| 3 | del | – | passed |\n"
	if !strings.HasSuffix(string(b), want) {
		t.Errorf("got\n%s\nwant it to end in\n%s", b, want)
	}
}

func TestSummaryFailsOnlyOnTheUnknown(t *testing.T) {
	known := results.ParseList("# comment\n\na: because\n")
	for _, c := range []struct {
		results []result
		good    bool
		text    string
	}{
		{[]result{{name: "a", err: errors.New("x")}, {name: "b"}}, true, "1 passed, 1 failed\n"},
		{[]result{{name: "b", err: errors.New("x")}}, false, "0 passed, 1 failed\n"},
		{[]result{{name: "a"}}, true, "a passes now"},
	} {
		var b strings.Builder
		if good := printSummary(&b, c.results, known, 0); good != c.good || !strings.Contains(b.String(), c.text) {
			t.Errorf("%v: %v, %q", c.results, good, b.String())
		}
	}
}

func TestCompareNamesTheCommand(t *testing.T) {
	if err := compare("$ get a\n1\n", "$ get a\n1\n"); err != nil {
		t.Error(err)
	}
	for _, got := range []string{"$ get a\n1\n$ get b\n", "$ get a\n1\n$ get b\n3\n", "$ get a\n1\n$ get b\n2\nmore\n"} {
		if err := compare(got, "$ get a\n1\n$ get b\n2\n"); err == nil || !strings.Contains(err.Error(), "$ get b") {
			t.Errorf("%q: %v", got, err)
		}
	}
}

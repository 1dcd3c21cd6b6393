package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestASkipThatLooksGreenIsNoPass(t *testing.T) {
	for log, want := range map[string]string{
		"=== RUN   TestA\n--- PASS: TestA (0.1s)\nPASS\n":                           "passed",
		"--- SKIP: TestA (0.0s)\nPASS\n":                                            "skipped",
		"testing: warning: no tests to run\nPASS\n":                                 "FAILED",
		"--- PASS: TestAB (0.1s)\nPASS\n":                                           "FAILED",
		"    --- SKIP: TestA/sub (0.0s)\n--- PASS: TestA (0.3s)\n    --- PASS: x\n": "passed",
	} {
		if got := verdict(log, "TestA"); got != want {
			t.Errorf("%q is %s, want %s", log, got, want)
		}
	}
	known, skips := parseList("# why\nTestK: because\n"), parseList("TestS: a stub\n")
	for r, want := range map[result]bool{
		{name: "TestK", verdict: "FAILED"}: true, {name: "TestA", verdict: "FAILED"}: false, {name: "TestS", verdict: "skipped"}: true,
		{name: "TestA", verdict: "skipped"}: false, {name: "TestA", verdict: "passed"}: true,
	} {
		if got := expected(r, known, skips); got != want {
			t.Errorf("%v: expected is %t", r, got)
		}
	}
}

func TestARunOfSomeTestsReplacesTheirCellsOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	names := []string{"TestB", "TestA", "TestC"}
	for _, run := range []struct {
		against string
		results []result
	}{
		{"original", []result{{"TestA", "passed", 2 * time.Second}, {"TestB", "passed", time.Second}, {"TestC", "skipped", 0}}},
		{"ours", []result{{"TestA", "FAILED", time.Second}, {"TestB", "FAILED", time.Second}}},
		{"ours", []result{{"TestA", "passed", time.Second}}},
	} {
		if err := writeResults(file, names, run.against, run.results, map[string]string{"TestB": "not built"}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `Passed of 3: 2 by etcd 3.7.3, 1 by Holdfast.

| test | etcd 3.7.3 | Holdfast |
|---|---|---|
| TestA | passed (2 s) | passed (1 s) |
| TestB | passed (1 s) | fails: not built |
| TestC | skipped (0 s) | – |
`
	if got := string(b); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

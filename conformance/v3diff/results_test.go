package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestARunKeepsWhatOtherSizesWereTold: a run replaces the row and the counts of its own size of cluster only.
func TestARunKeepsWhatOtherSizesWereTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.md")
	for _, run := range []tally{
		{seed: 1, members: 3, scripts: 10, same: 9, requests: map[string]int{"put": 40}, known: map[string]int{"order": 2}},
		{seed: 2, members: 1, scripts: 20, same: 20, requests: map[string]int{"range": 80}},
		{seed: 3, members: 1, scripts: 30, same: 30, requests: map[string]int{"txn": 120}},
	} {
		if err := run.write(file); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 1 | 30 | 30 | 120 | 0s | 3 |", "| 3 | 10 | 9 | 40 | 0s | 1 |", "On 1: txn 120.", "On 3: put 40.", "met on 3: order 2."} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "range 80") {
		t.Errorf("an earlier run of the same size stays:\n%s", b)
	}
}

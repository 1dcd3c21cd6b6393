package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestALineForEachSize: a run replaces the line of its own size of cluster and keeps the others.
func TestALineForEachSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.md")
	for _, o := range []outcome{
		{seed: 1, members: 3, scripts: 10, same: 9, requests: 40, took: time.Minute},
		{seed: 2, members: 1, scripts: 20, same: 20, requests: 80, took: time.Second},
		{seed: 3, members: 3, scripts: 30, same: 30, requests: 120, took: time.Second},
	} {
		if err := o.write(file); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	day := time.Now().Format(time.DateOnly)
	want := resultsHead + "| 1 | 20 | 20 | 80 | 1s | 2 | " + day + " |\n| 3 | 30 | 30 | 120 | 1s | 3 | " + day + " |\n"
	if got := string(b); got != want {
		t.Errorf("%s\nwant\n%s", got, strings.TrimPrefix(want, resultsHead))
	}
}

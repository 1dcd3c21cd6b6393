package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

// TestALineForEachSize: a run replaces the line of its own size of cluster and keeps the others.
func TestALineForEachSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.md")
	for _, o := range []results.Scripts{
		{Seed: 1, Members: 3, Scripts: 10, Same: 9, Requests: 40, Took: time.Minute},
		{Seed: 2, Members: 1, Scripts: 20, Same: 20, Requests: 80, Took: time.Second},
		{Seed: 3, Members: 3, Scripts: 30, Same: 30, Requests: 120, Took: time.Second},
	} {
		if err := write(file, &o); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	day := time.Now().Format(time.DateOnly)
	want := resultsHead + "| members | scripts | same | requests | took | seed | day |\n|--:|--:|--:|--:|--:|--:|---|\n" +
		"| 1 | 20 | 20 | 80 | 1s | 2 | " + day + " |\n| 3 | 30 | 30 | 120 | 1s | 3 | " + day + " |\n"
	if got := string(b); got != want {
		t.Errorf("%s\nwant\n%s", got, strings.TrimPrefix(want, resultsHead))
	}
}

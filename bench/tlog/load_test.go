package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOurReportIsRead, and a run of ours that failed is no figure.
func TestOurReportIsRead(t *testing.T) {
	f := &figure{}
	said := `{"adds": 9, "pushed_back": 2, "failed": 1, "time_in_queue": {"p50_ms": 1.5, "p99_ms": 7.25, "max_ms": 9}}`
	if err := ourReport(f, nil, "", []byte(said)); err != nil {
		t.Fatal(err)
	}
	if f.Warnings != 3 || !slices.Equal(f.P50, []float64{1.5}) || !slices.Equal(f.P99, []float64{7.25}) {
		t.Errorf("%+v", f)
	}
	if err := ourReport(f, errors.New("exit status 1"), "holdfast: 3 adds failed", []byte(said)); err == nil ||
		!strings.Contains(err.Error(), "3 adds failed") {
		t.Errorf("a failed run: %v", err)
	}
	if err := ourReport(f, nil, "", []byte("usage")); err == nil {
		t.Error("what is no report is read")
	}
	if len(f.P50) != 1 {
		t.Errorf("figures of failed runs are kept: %+v", f)
	}
	line := ours(context.Background(), 16, "http://h", "key", 3*time.Second, "tools", "bin/holdfast").Args
	if got := strings.Join(line, " "); got != "bin/holdfast bench tlog http://h --vkey key --writers 16 --duration 3s --verify none --json" {
		t.Errorf("%s", got)
	}
}

// TestHammerWarningsAreCounted: the lines that say so, and not the one about the time being over.
func TestHammerWarningsAreCounted(t *testing.T) {
	f := &figure{}
	said := "I1121 begins\nW1121 slow\nE1121 lost\nF1121 max runtime is over\n"
	if err := hammerWarnings(f, errors.New("exit status 1"), said, nil); err != nil || f.Warnings != 2 {
		t.Errorf("%d, %v", f.Warnings, err)
	}
}

package main

import (
	"testing"
	"time"
)

// TestLagIsTheAgeOfTheOldestUnpublishedSize.
func TestLagIsTheAgeOfTheOldestUnpublishedSize(t *testing.T) {
	var waiting []mark
	began := time.Unix(1000, 0)
	for i, step := range []struct {
		size, published int
		late            time.Duration
	}{
		{10, 10, 0},
		{20, 10, 0},               // signed just now
		{30, 10, time.Second},     // 20 is a second old
		{40, 10, 2 * time.Second}, // and two
		{50, 25, 2 * time.Second}, // 30 is, 20 is out
		{50, 50, 0},
		{50, 50, 0}, // idle
	} {
		var late time.Duration
		waiting, late = lag(waiting, mark{began.Add(time.Duration(i) * time.Second), step.size}, step.published)
		if late != step.late {
			t.Errorf("step %d: %v behind, want %v", i, late, step.late)
		}
	}
	for note, want := range map[string]int{"": 0, "origin\n17\nroot\n\n": 17} {
		if n, err := noteSize([]byte(note)); err != nil || n != want {
			t.Errorf("%q: %d, %v", note, n, err)
		}
	}
	for _, bad := range []string{"origin", "origin\nx\nroot\n"} {
		if _, err := noteSize([]byte(bad)); err == nil {
			t.Errorf("%q is a checkpoint", bad)
		}
	}
}

package compact

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// story looks at the plan as Run does, with one revision written per minute, and tells when it compacted to what.
func story(p Policy, minutes int) string {
	now, revision := time.Duration(0), int64(1)
	pl := newPlan(p, now)
	pl.note(revision)
	var said []string
	for now < time.Duration(minutes)*time.Minute {
		now += pl.interval()
		revision = 1 + int64(now/time.Minute)
		if target := pl.due(now, revision); target != 0 {
			said = append(said, fmt.Sprintf("%s:%d", now, target))
			pl.done(now, target)
		}
		pl.note(revision)
	}
	return strings.Join(said, " ")
}

func TestPeriodKeepsItsLastStretchOfTime(t *testing.T) {
	// A period within the hour: once a period, to the revision of a period and one look ago.
	if got, want := story(Policy{Period: 10 * time.Minute}, 35), "10m0s:1 20m0s:10 30m0s:20"; got != want {
		t.Errorf("10m: %s, want %s", got, want)
	}
	// A longer one: nothing before a whole period is over, then every hour.
	if got, want := story(Policy{Period: 3 * time.Hour}, 305), "3h0m0s:1 4h0m0s:55 5h0m0s:115"; got != want {
		t.Errorf("3h: %s, want %s", got, want)
	}
}

func TestRevisionsKeepsACount(t *testing.T) {
	if got, want := story(Policy{Revisions: 10}, 22), "10m0s:1 15m0s:6 20m0s:11 25m0s:16"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := story(Policy{Revisions: 1000}, 60); got != "" {
		t.Errorf("compacted what should be kept: %s", got)
	}
}

func TestNothingNewIsNotCompactedAgain(t *testing.T) {
	p := newPlan(Policy{Revisions: 1}, 0)
	if p.due(0, 5) != 4 {
		t.Error("nothing due")
	}
	p.done(0, 4)
	if got := p.due(time.Hour, 5); got != 0 {
		t.Errorf("%d again", got)
	}
}

func TestAFailedCompactionIsDueAgain(t *testing.T) {
	p := newPlan(Policy{Period: time.Minute}, 0)
	for range 11 {
		p.note(7)
	}
	if p.due(time.Minute, 9) != 7 || p.due(time.Minute+p.interval(), 9) != 7 {
		t.Error("a compaction that was not done is forgotten")
	}
}

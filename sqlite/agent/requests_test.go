package agent

import (
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
)

// TestTheMonthsRequestsAreSpread: with more than a quarter of them left nothing is stretched. The last quarter is spread over what is left of the month,
// and without any left commits are gathered for ten seconds.
func TestTheMonthsRequestsAreSpread(t *testing.T) {
	const budget = 1000
	for _, c := range []struct {
		made        int64
		left        time.Duration // of the month
		least, want time.Duration
	}{
		{0, time.Hour, time.Second, time.Second},
		{749, 250 * time.Second, time.Millisecond, time.Millisecond},    // 251 are left
		{750, 250 * 2 * time.Second, time.Millisecond, 2 * time.Second}, // a quarter
		{900, 100 * 3 * time.Second, time.Millisecond, 3 * time.Second},
		{900, 100 * 3 * time.Second, 5 * time.Second, 5 * time.Second}, // gathered for longer anyway
		{900, 100 * time.Hour, time.Millisecond, longest},
		{900, 100 * time.Hour, time.Minute, time.Minute},
		{999, 7 * time.Second, time.Millisecond, 7 * time.Second},
		{1000, time.Second, time.Millisecond, longest},
		{2000, time.Second, time.Millisecond, longest},
		{2000, time.Second, time.Minute, time.Minute},
	} {
		var m clock.Manual
		m.Jump(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(-c.left).Sub(time.Unix(0, 0)))
		r := requests{budget: budget, clock: &m}
		for range c.made {
			r.add()
		}
		if got := r.gather(c.least); got != c.want {
			t.Errorf("%d of %d requests are made, and the month ends in %v: commits are gathered for %v, want %v", c.made, budget, c.left, got, c.want)
		}
	}
}

// TestAMonthHasItsOwnRequests: requests from before it began do not count, in any time zone.
func TestAMonthHasItsOwnRequests(t *testing.T) {
	var m clock.Manual
	m.Jump(time.Date(2026, 2, 28, 23, 59, 59, 0, time.UTC).Sub(time.Unix(0, 0)))
	r := requests{budget: 4, clock: &m}
	for range 4 {
		r.add()
	}
	if got := r.gather(time.Millisecond); got != longest {
		t.Errorf("at the end of a month without requests left commits are gathered for %v", got)
	}
	m.Advance(time.Second)
	if got := r.gather(time.Millisecond); got != time.Millisecond {
		t.Errorf("in the first second of the next month commits are gathered for %v", got)
	}
	r.add()
	if r.count != 1 {
		t.Errorf("%d requests are counted in the new month, want 1", r.count)
	}
}

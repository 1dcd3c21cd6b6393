package part

import "testing"

// TestTheFirstInterval: a transaction's own goes before all, and one that fails sooner than the usual is tried again by then.
func TestTheFirstInterval(t *testing.T) {
	for _, c := range []struct {
		of   Options
		want int64
	}{
		{Options{}, 10_000},
		{Options{RetryIntervalMs: 5}, 5},
		{Options{TimeoutMs: 3_000}, 3_000},
		{Options{TimeoutMs: 30_000}, 10_000},
		{Options{TimeoutMs: 3_000, RetryIntervalMs: 20_000}, 20_000},
	} {
		if got := c.of.FirstIntervalMs(10_000); got != c.want {
			t.Errorf("%+v: first after %d ms", c.of, got)
		}
	}
}

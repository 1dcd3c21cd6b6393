package node

import (
	"fmt"
	"testing"
	"time"
)

func TestLatencyCounts(t *testing.T) {
	var l Latency
	if l.Mean() != 0 || l.Deviation() != 0 {
		t.Errorf("without samples: %+v", l)
	}
	for _, ms := range []int{2, 4, 4, 4, 5, 5, 7, 9} {
		l.add(time.Duration(ms) * time.Millisecond)
	}
	if l.Count != 8 || l.Current != 9*time.Millisecond || l.Min != 2*time.Millisecond || l.Max != 9*time.Millisecond ||
		l.Mean() != 5*time.Millisecond || l.Deviation() != 2*time.Millisecond {
		t.Errorf("%+v, mean %s, deviation %s", l, l.Mean(), l.Deviation())
	}
}

// The leader knows how long each follower takes, and goes on counting over terms.
func TestLeaderKnowsLatencies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	_, n := c.leader()
	for i := range 20 {
		mustPropose(t, n, "k", fmt.Sprint(i))
	}
	await(t, "samples of both followers", func() bool {
		timed := 0
		for _, f := range n.Followers() {
			if l := f.Latency; f.ID != n.id && l.Count > 0 && l.Min > 0 && l.Min <= l.Mean() && l.Mean() <= l.Max {
				timed++
			}
		}
		return timed == 2
	})
}

package node

import (
	"testing"

	"github.com/holdfastdb/holdfast/replica"
)

func TestTransferTarget(t *testing.T) {
	all := []replica.Progress{{ID: 1, Match: 100, Active: true}, {ID: 2, Match: 10, Active: true}, {ID: 3, Match: 90, Active: true},
		{ID: 4, Match: 95}, {ID: 5, Match: 99, Active: true, Learner: true}}
	for _, c := range []struct{ asked, want uint64 }{
		{0, 3}, // neither the first one, nor one that is down, nor a learner
		{2, 2}, // asked for is asked for
		{4, 4},
		{5, 0},
		{9, 0},
	} {
		if got := transferTarget(all, 1, c.asked); got != c.want {
			t.Errorf("asked for %d: %d, want %d", c.asked, got, c.want)
		}
	}
	if got := transferTarget(all[:1], 1, 0); got != 0 {
		t.Errorf("alone: %d", got)
	}
}

package node

import (
	"testing"

	"github.com/holdfastdb/holdfast/core/raft"
)

func TestTransferTarget(t *testing.T) {
	all := []raft.Progress{{ID: 1, Match: 100, Active: true}, {ID: 2, Match: 10, Active: true}, {ID: 3, Match: 90, Active: true},
		{ID: 4, Match: 95}, {ID: 5, Match: 99, Active: true, Learner: true}}
	for _, c := range []struct{ asked, want uint64 }{
		{0, 3}, // neither the first one, nor one that is down, nor a learner
		{2, 2}, // asked for is asked for
		{4, 4},
		{5, 0},
		{9, 0},
	} {
		if got := transferTarget(all, 1, c.asked, func(uint64) bool { return true }); got != c.want {
			t.Errorf("asked for %d: %d, want %d", c.asked, got, c.want)
		}
	}
	for only, want := range map[uint64]uint64{2: 2, 3: 3, 4: 3, 9: 3} { // 4 is down, and 9 no member: then the furthest, connected or not
		if got := transferTarget(all, 1, 0, func(id uint64) bool { return id == only }); got != want {
			t.Errorf("only %d is connected: %d, want %d", only, got, want)
		}
	}
	if got := transferTarget(all[:1], 1, 0, nil); got != 0 {
		t.Errorf("alone: %d", got)
	}
}

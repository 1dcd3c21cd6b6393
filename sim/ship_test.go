package sim

import (
	"flag"
	"strings"
	"testing"
)

var shipsFlag = flag.Uint64("ships", 12, "how many histories are replayed without raft")

// TestReplayOfHistories: the members' committed entries are the same on all, and none is missing after crashes. Applied without raft they
// give the members' states. One changed byte is named.
func TestReplayOfHistories(t *testing.T) {
	seeds := *shipsFlag
	if testing.Short() {
		seeds = min(seeds, 3)
	}
	var sum Report
	for seed := uint64(1); seed <= seeds; seed++ {
		rep := Run(Options{Seed: seed, Ship: true})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d histories of %d entries, %d states compared, %d changed bytes named; %s", seeds, sum.Entries, sum.Replayed, sum.Spoiled, sum.Counts())
	if uint64(sum.Replayed) < 2*seeds || uint64(sum.Spoiled) < seeds || uint64(sum.Entries) < 100*seeds {
		t.Error("that is little")
	}
}

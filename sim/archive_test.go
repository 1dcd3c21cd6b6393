package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var archivesFlag = flag.Uint64("archives", 12, "how many runs have an archive")

// TestArchiveOfSeeds: the log is shipped to a store that fails, by leaders that are paused, cut off and killed while uploads are on their
// way. Whatever a client was told is archived is there after a restore, at any moment; the archive has the states that the members had, and
// nothing that was not committed; and once the store is well nobody waits for ever.
func TestArchiveOfSeeds(t *testing.T) {
	seeds := *archivesFlag
	if testing.Short() {
		seeds = min(seeds, 4)
	}
	var sum Report
	for seed := uint64(1); seed <= seeds; seed++ {
		rep := Run(Options{Seed: seed, Archive: true})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.add(rep)
	}
	t.Logf("%d runs, %s; %s", seeds, sum.archived(), sum.counts())
	if uint64(sum.Held) < 20*seeds || uint64(sum.Restored) < seeds || uint64(sum.Spans) < 10*seeds || uint64(sum.Verified) < seeds/2 {
		t.Error("that is little")
	}
}

// archived says what there was of archives.
func (r *Report) archived() string {
	return fmt.Sprintf("%d answers held until archived, %d given up, %d objects of entries, %d snapshots, %d objects removed, %d halves left, "+
		"%d restores, %d states verified, %d notes, %d entries that nobody has shown", r.Held, r.Unheld, r.Spans, r.Kept, r.Pruned, r.Halves,
		r.Restored, r.Verified, r.Findings, r.Unjudged)
}

// TestArchiveSeed replays one seed of TestArchiveOfSeeds (-seed N), with its whole trace.
func TestArchiveSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no seed")
	}
	rep := Run(Options{Seed: *seedFlag, Archive: true, TraceAll: true})
	for _, line := range rep.Trace {
		fmt.Println(line)
	}
	fmt.Println(rep.archived(), rep.Failure)
}

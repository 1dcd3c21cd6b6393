package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

var archivesFlag = flag.Uint64("archives", 12, "how many runs have an archive")

// TestArchiveOfSeeds: the log is shipped to a store that fails, by leaders that are paused, cut off and killed while uploads are on their
// way. Everything that a client was told is archived is there after a restore, at any moment. The archive has the states that the members
// had, and nothing uncommitted; and once the store is well no client waits for ever. With -seed it replays one run.
func TestArchiveOfSeeds(t *testing.T) {
	if *seedFlag != 0 {
		replay(t, Options{Seed: *seedFlag, Archive: true})
		return
	}
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
		sum.Add(rep)
	}
	t.Logf("%d runs, %s; %s", seeds, sum.archived(), sum.Counts())
	if uint64(sum.Held) < 20*seeds || uint64(sum.Restored) < seeds || uint64(sum.Spans) < 8*seeds || uint64(sum.Verified) < seeds/2 {
		t.Error("that is little")
	}
}

// archived is the figures of the archives, as text.
func (r *Report) archived() string {
	return fmt.Sprintf("%d answers held until archived, %d given up, %d objects of entries, %d snapshots, %d objects removed, "+
		"%d halves left, %d puts met another's, %d restores, %d states verified, %d notes, %d entries that nobody has shown", r.Held, r.Unheld,
		r.Spans, r.Kept, r.Pruned, r.Halves, r.Met, r.Restored, r.Verified, r.Findings, r.Unjudged)
}

// TestTwoThatShip: a leader has objects on their way for long when another one takes over, and when it comes to itself it goes on shipping.
// Both find names taken by what the other has put, cut elsewhere, and make one archive.
func TestTwoThatShip(t *testing.T) {
	sum := scene(t, 3, Options{Nodes: 3, Learners: -1, Archive: true, Faults: []Fault{}}, func(w *World) {
		b := &w.archive
		b.still = true
		b.store.Set(objstore.Faults{})
		w.Up(3)
		for range 4 {
			var lead *host
			w.Wait("the archive goes on", func() bool {
				lead = w.leader()
				return lead != nil && lead.n.ArchivedIndex() > 0 && lead.n.ArchivedIndex() > w.applied-min(w.applied, 50)
			})
			b.store.Set(objstore.Faults{Delay: 12 * time.Second})
			w.Pass(Between(w.rFault, 50*time.Millisecond, 500*time.Millisecond))
			b.store.Set(objstore.Faults{Delay: 10 * time.Millisecond})
			b.uplink = 3 * time.Second // the next one sees the end of the archive at once, and is slow to put what follows
			lead.pause(Between(w.rFault, 2*time.Second, 5*time.Second))
			w.Wait("another one leads, or it again", func() bool { return w.leader() != nil && w.leader() != lead || !lead.paused })
			w.Pass(Between(w.rFault, time.Second, 4*time.Second))
			b.uplink = 0
		}
	})
	t.Log(sum.archived())
	if sum.Met == 0 {
		t.Error("nobody met what another had put")
	}
}

package sim

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sim"
)

// seedCount is how many seeds TestTransactionsHold runs: go test ./doors/sql/sim -run Hold -args -n 1000 is a long run.
var seedCount = flag.Uint64("n", 24, "how many seeds")

// options are those of a run whose cluster has reached its level before the first fault.
func options(nodes int, faults ...sim.Fault) sim.Options {
	return sim.Options{Nodes: nodes, Doors: true, Quiet: true, Calm: 3 * time.Second, Chaos: 20 * time.Second, Faults: faults}
}

// long makes a run three times as long: what is to happen in it is rare.
func long(opt sim.Options) sim.Options {
	opt.Chaos *= 3
	return opt
}

// TestTransactionsHold: transactions under faults, over leaders that come and go, on machines that verify every commit.
func TestTransactionsHold(t *testing.T) {
	n := *seedCount
	if testing.Short() {
		n = min(n, 8)
	}
	start := time.Now()
	var sum sim.Report
	for seed := uint64(1); seed <= n; seed++ {
		opt := options([]int{3, 3, 5, 1}[seed%4], sim.Members, sim.Kill, sim.PowerLoss, sim.TornWrite, sim.Blackout, sim.Partition, sim.OneWay, sim.Isolate,
			sim.Pause, sim.Stall, sim.Transfer, sim.SmallLog, sim.Flush)
		opt.Seed = seed
		rep := sim.Run(opt)
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds in %v: %s", n, time.Since(start).Round(100*time.Millisecond), sum.Counts())
	for _, what := range []string{Commits, Locked, Deadlocks, TakenBack, TermsOver, Snapshots, Given, Numbered, Duplicates, Altered, Turns, Wheels, Pieces, Staged, Ranges, IndexesRead, IndexesBuilt, IndexesGoOn, Prepared, PreparedAt,
		JobsTaken, JobsSkipped, Children, Cascades} {
		if sum.More[what] == 0 {
			t.Errorf("that tested nothing: no %s", what)
		}
	}
	if sum.Crashes == 0 || sum.Leaders == 0 {
		t.Error("that tested nothing: no leader has changed")
	}
}

// TestDefectsAreCaught: builds of package txn that are broken on purpose. What clients are told is enough to find each one, and machines that
// verify find most of them sooner.
func TestDefectsAreCaught(t *testing.T) {
	told := []string{CommitLost, MoneyLost, ListBroken, StaleRead, TwoOfAKey, GivenTwice, HalfSeen, WriteSkew, JobTwice, Orphan, sim.WrongOutcome}
	for _, c := range []struct {
		defect string
		opt    sim.Options
	}{
		{NoFence, options(3, sim.Transfer)},
		{ReleaseBeforeApply, options(3, sim.Transfer)},
		{ViewBeforeLock, options(3, sim.Transfer)},
		{NoConfirm, long(options(5, sim.Pause, sim.Flush, sim.Flush, sim.Flush))},
		{StagedUnlocked, options(3, sim.Transfer, sim.Flush)},
		{StatusFirst, options(3, sim.Transfer)},
		{PiecesStay, options(3, sim.Transfer)},
		{NoMerge, options(3, sim.Transfer)},
		{NoRanges, options(3, sim.Transfer)},
		{RangesPassStaged, options(3, sim.Transfer)},
		{PublicEarly, options(3, sim.Transfer)},
		{Repeatable, options(3, sim.Transfer)},
		{PlaceFirst, options(3, sim.Transfer)},
		{Unjudged, options(3, sim.Transfer)},
		{Orphans, options(3, sim.Transfer)},
	} {
		for _, outside := range []bool{false, true} {
			opt := c.opt
			opt.Defect, opt.Outside = c.defect, outside
			kinds := told
			if !outside {
				kinds = append(kinds[:len(kinds):len(kinds)], sim.Stopped)
			}
			found, err := sim.Catch(opt, kinds...)
			t.Logf("%s, machines verify %v: %s", c.defect, !outside, found)
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// TestARunCanBeRepeated: locks, deadlocks and the order in which transactions wake follow from the seed.
func TestARunCanBeRepeated(t *testing.T) {
	for _, seed := range []uint64{3, 7} {
		opt := options(3, sim.Kill, sim.Transfer, sim.Pause)
		opt.Seed = seed
		a, b := sim.Run(opt), sim.Run(opt)
		if a.TraceHash != b.TraceHash {
			t.Errorf("seed %d gave trace %016x and then %016x", seed, a.TraceHash, b.TraceHash)
		}
	}
}

// TestWhatNoOrderExplains: three transactions that append to two lists, and two snapshots of which each has seen what the other one has not.
func TestWhatNoOrderExplains(t *testing.T) {
	at := func(n int) *point { return &point{&transaction{n: n}} }
	a, b, c, r, s := at(1), at(2), at(3), at(4), at(5)
	two := [listCount][]*point{{a, b}, {c}}
	for what, tc := range map[string]struct {
		finals [listCount][]*point
		seen   []seen
		want   []int
	}{
		"nothing is read":        {two, nil, nil},
		"one after the other":    {two, []seen{{r, 0, 1}, {r, 1, 0}, {s, 0, 2}, {s, 1, 1}}, nil},
		"read by its own writer": {two, []seen{{a, 0, 1}, {b, 0, 2}, {c, 1, 1}}, nil},
		"long fork":              {two, []seen{{r, 0, 1}, {r, 1, 0}, {s, 0, 0}, {s, 1, 1}}, []int{1, 2, 3, 4, 5}},
		"two orders":             {[listCount][]*point{{a, b}, {b, a}}, nil, []int{1, 2}},
		"read before it wrote":   {two, []seen{{a, 0, 2}}, []int{1, 2}},
	} {
		var got []int
		for _, p := range circle(tc.finals, tc.seen) {
			got = append(got, p.by.n)
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", what, got, tc.want)
		}
	}
}

package sim

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/sim"
)

// faults are those that leaders come and go by.
var faults = []sim.Fault{sim.Members, sim.Kill, sim.PowerLoss, sim.TornWrite, sim.Blackout, sim.Partition, sim.OneWay, sim.Isolate, sim.Pause, sim.Stall,
	sim.Transfer, sim.SmallLog, sim.Flush}

// TestTransactionsHold: transactions under faults, over leaders that come and go, on machines that verify every commit.
func TestTransactionsHold(t *testing.T) {
	n := uint64(200)
	if testing.Short() {
		n = 4
	}
	var sum sim.Report
	for seed := uint64(1); seed <= n; seed++ {
		rep := sim.Run(sim.Options{Seed: seed, Nodes: 3, Doors: true, Faults: faults})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds: %s", n, sum.Counts())
	for _, what := range []string{Commits, Locked, Deadlocks, Timeouts, TermsOver, Snapshots, Given, Duplicates, Altered} {
		if sum.More[what] == 0 {
			t.Errorf("that tested nothing: no %s", what)
		}
	}
}

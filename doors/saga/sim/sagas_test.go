package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/saga/advance"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/sim"
)

// TestSagasHold: global transactions under faults, over leaders that come and go, with services that are down, slow or silent. Each ends
// with its services all done or all undone, and no service is called against the log. A change of keys is there with its saga or not at
// all.
func TestSagasHold(t *testing.T) {
	n := uint64(16)
	if testing.Short() {
		n = 4
	}
	var sum sim.Report
	for seed := uint64(1); seed <= n; seed++ {
		rep := sim.Run(sim.Options{Seed: seed, Nodes: 3, Doors: true, Faults: []sim.Fault{sim.Members, sim.Kill, sim.PowerLoss, sim.TornWrite, sim.Blackout,
			sim.Partition, sim.Isolate, sim.Pause, sim.Stall, sim.Transfer, sim.WallJump, sim.ClockRate, sim.SmallLog, sim.Flush}})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds: %s", n, sum.Counts())
	if sum.More[Ended] == 0 || sum.More[Undone] == 0 || sum.More[Pairs] == 0 || sum.More[Refused] == 0 || sum.Crashes == 0 || sum.Snapshots == 0 && !testing.Short() {
		t.Error("that tested nothing")
	}
}

// TestDelaysOutliveLeaders: messages with delays, and leaders that go one after the other while they wait, with clocks that run apart.
// None is delivered before its time by the clock of its sender (sagaBook.judge), and none is forgotten.
func TestDelaysOutliveLeaders(t *testing.T) {
	const messages = 12
	sum := scene(t, 16, sim.Options{Nodes: 3, Learners: -1, Doors: true, Quiet: true, Faults: []sim.Fault{}}, func(w *sim.World) {
		b := bookOf(w)
		b.limits, b.calm = advance.Options{}, true
		w.Up(3)
		w.Wait("sagas may begin", func() bool { return w.Leader().Node().ClusterLevel() >= sagapart.Level })
		for range messages {
			o := b.draw(alone)
			*o = order{gid: o.gid, mode: sagapart.Msg, fails: -1, steps: make([]deed, 2)}
			o.wait(sim.Between(b.r, 200*time.Millisecond, 8*time.Second))
			b.submit(w.Leader(), o, 10*time.Second, func() {})
		}
		for range 5 {
			w.Pass(sim.Between(w.Chance(), 300*time.Millisecond, 2*time.Second))
			w.Wait("somebody leads", func() bool { return w.Leader() != nil })
			for _, m := range w.Members() {
				m.Skew(w.Chance())
			}
			w.Leader().Crash(w.Chance().IntN(2) == 0)
		}
	})
	if sum.More[Ended] < messages || sum.Crashes < 5 {
		t.Error("that tested nothing")
	}
}

// bookOf is the sagas of a run.
func bookOf(w *sim.World) *sagaBook {
	for _, wl := range w.Workloads() {
		if b, ok := wl.(*sagaBook); ok {
			return b
		}
	}
	panic("the run has no sagas")
}

// scene plays a story with many seeds.
func scene(t *testing.T, seeds uint64, opt sim.Options, story func(w *sim.World)) sim.Report {
	t.Helper()
	if testing.Short() {
		seeds = min(seeds, 3)
	}
	var sum sim.Report
	for seed := uint64(1); seed <= seeds; seed++ {
		opt.Seed = seed
		rep := sim.Story(opt, story)
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds: %s", seeds, sum.Counts())
	return sum
}

package sim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
)

// scene plays a short story with each of the seeds, which draw everything that the story leaves open. It returns what happened.
func scene(t *testing.T, seeds uint64, opt Options, story func(w *World)) Report {
	t.Helper()
	if testing.Short() {
		seeds = min(seeds, 3)
	}
	var sum Report
	for seed := uint64(1); seed <= seeds; seed++ {
		opt.Seed = seed
		rep := Story(opt, story)
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds: %s", seeds, sum.Counts())
	return sum
}

// ask makes a membership call until it is accepted. then runs at the moment the answer is there.
func (w *World) ask(what string, do func(ctx context.Context, n *node.Node) error, then func()) {
	accepted := false
	var again func()
	again = func() {
		w.members.call(what, do, func(err error) {
			if err == nil || errors.Is(err, node.ErrMemberNotFound) { // removed before, unheard
				accepted = true
				then()
				return
			}
			w.after(200*time.Millisecond, again)
		})
	}
	again()
	w.Wait(what, func() bool { return accepted })
}

// TestRemovedMembersAreNotMissed: once a removal is acknowledged the machine may be switched off for good. The remaining members may lose
// power in the same moment and not remember that they had heard of it.
func TestRemovedMembersAreNotMissed(t *testing.T) {
	sum := scene(t, 8, Options{Nodes: 3, Learners: -1, Faults: []Fault{PowerLoss}}, func(w *World) {
		for left := 3; left > 1; left-- {
			lead := w.Up(left)
			w.Pass(Between(w.rFault, time.Second, 2*time.Second))
			var gone *host
			for _, m := range lead.n.Members() {
				if m.ID != lead.id {
					gone = w.byID[m.ID]
				}
			}
			w.members.spared = gone
			w.ask("remove "+gone.name, func(ctx context.Context, n *node.Node) error { return n.RemoveMember(ctx, gone.id) }, func() {
				gone.retire()
				for _, h := range w.hosts {
					h.crash(true)
				}
			})
		}
	})
	if sum.Crashes < 3 {
		t.Error("that tested nothing")
	}
}

// TestPromotedWhileAway: a learner is cut off when it is promoted, and hears of it by a snapshot in the same term. It is a voter like any
// other from then on, to itself too.
func TestPromotedWhileAway(t *testing.T) {
	sum := scene(t, 4, Options{Nodes: 3, Learners: 1, Faults: []Fault{SmallLog}}, func(w *World) {
		w.Up(4)
		h := w.hosts[3]
		w.Wait("the learner has caught up", func() bool { return h.n != nil && h.n.Status().Ready })
		w.Pass(2 * time.Second) // the leader looks at its progress now and then
		for _, o := range w.hosts {
			w.net.setCut(o, h, o != h)
			w.net.setCut(h, o, o != h)
		}
		w.members.spared = h
		w.ask("promote "+h.name, func(ctx context.Context, n *node.Node) error { return n.PromoteMember(ctx, h.id) }, func() {})
		for range 10 {
			w.Pass(500 * time.Millisecond)
			for _, o := range w.hosts {
				if o != h {
					_ = o.mem.Flush()
				}
			}
		}
	})
	if sum.Snapshots == 0 || sum.Crashes > 0 {
		t.Error("that tested nothing")
	}
}

// TestReadsBesideALearner: clients write through a learner and read at the only voter. The voter's loop is overtaken after it has told the
// learner its commit index and before it has applied that itself.
func TestReadsBesideALearner(t *testing.T) {
	sum := scene(t, 6, Options{Nodes: 1, Learners: 1, Faults: []Fault{Stall}}, func(w *World) {
		w.nemesis.stalls = 3
		w.Up(2)
		w.Pass(6 * time.Second)
	})
	if sum.Answered < 100 {
		t.Error("that tested nothing")
	}
}

// TestMembersComeAndGo: every way in and out of a cluster, under the faults that make it hard.
func TestMembersComeAndGo(t *testing.T) {
	var sum Report
	n := uint64(10)
	if testing.Short() {
		n = 3
	}
	for seed := uint64(1); seed <= n; seed++ {
		rep := Run(Options{Seed: seed, Nodes: 3, Learners: 1, Faults: []Fault{Members, Members, Members, LoseDir, Kill, PowerLoss, Partition, Away, Stall}})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds: %s", n, sum.Counts())
	if (sum.Joined == 0 || sum.Promoted == 0 || sum.Removed == 0 || sum.Lost == 0 || sum.Snapshots == 0) && !testing.Short() {
		t.Error("that tested nothing")
	}
}

// TestVotesStand: members lose power just after they have given a vote, won an election or taken in a snapshot.
func TestVotesStand(t *testing.T) {
	var sum Report
	n := uint64(12)
	if testing.Short() {
		n = 3
	}
	for seed := uint64(1); seed <= n; seed++ {
		rep := Run(Options{Seed: seed, Nodes: 3, Faults: []Fault{Moments, Isolate, Away}})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds: %s", n, sum.Counts())
	if (sum.Crashes < 10 || sum.Leaders < 10) && !testing.Short() {
		t.Error("that tested nothing")
	}
}

// TestTimeGoesOn: leaders with clocks far apart follow one another, each over entries of its predecessor that it has not applied.
func TestTimeGoesOn(t *testing.T) {
	var sum Report
	n := uint64(8)
	if testing.Short() {
		n = 3
	}
	for seed := uint64(1); seed <= n; seed++ {
		rep := Run(Options{Seed: seed, Nodes: 3, Faults: []Fault{WallJump, ClockRate, Isolate, Kill, Transfer, SlowDisk}})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds: %s", n, sum.Counts())
	if sum.Leaders < 10 {
		t.Error("that tested nothing")
	}
}

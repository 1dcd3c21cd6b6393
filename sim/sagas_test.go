package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/saga/advance"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestSagasHold: global transactions under faults, over leaders that come and go, with services that are down, slow or silent. Each ends
// with its services all done or all undone, no service is called against the log, and a change of keys is there with its saga or not at all.
func TestSagasHold(t *testing.T) {
	n := uint64(16)
	if testing.Short() {
		n = 4
	}
	var sum Report
	for seed := uint64(1); seed <= n; seed++ {
		rep := Run(Options{Seed: seed, Nodes: 3, Sagas: true, Faults: []Fault{Members, Kill, PowerLoss, TornWrite, Blackout, Partition, Isolate, Pause, Stall,
			Transfer, WallJump, ClockRate, SmallLog, Flush}})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.add(rep)
	}
	t.Logf("%d seeds: %s", n, sum.counts())
	if sum.Sagas == 0 || sum.Undone == 0 || sum.Pairs == 0 || sum.Refused == 0 || sum.Crashes == 0 || sum.Snapshots == 0 && !testing.Short() {
		t.Error("that tested nothing")
	}
}

// TestDelaysOutliveLeaders: messages with delays, and leaders that go one after the other while they wait, with clocks that run apart.
// None is delivered before its time by the clock of its sender (sagaBook.judge), and none is forgotten.
func TestDelaysOutliveLeaders(t *testing.T) {
	const messages = 12
	sum := scene(t, 16, Options{Nodes: 3, Learners: -1, Sagas: true, Quiet: true, Faults: []Fault{}}, func(w *World) {
		b := &w.sagas
		b.limits, b.calm = advance.Options{}, true
		w.up(3)
		w.wait("sagas may begin", func() bool { return w.leader().n.ClusterLevel() >= sagapart.Level })
		for range messages {
			o := b.draw(alone)
			*o = order{gid: o.gid, mode: sagapart.Msg, fails: -1, steps: make([]deed, 2)}
			o.wait(between(b.r, 200*time.Millisecond, 8*time.Second))
			b.submit(w.leader(), o, 10*time.Second, func() {})
		}
		for range 5 {
			w.pass(between(w.rFault, 300*time.Millisecond, 2*time.Second))
			w.wait("somebody leads", func() bool { return w.leader() != nil })
			for _, h := range w.hosts {
				h.syncClock()
				h.rate = minRate + (maxRate-minRate)*w.rFault.Float64()
				h.clock.Jump(between(w.rFault, -time.Hour, time.Hour))
			}
			w.leader().crash(w.rFault.IntN(2) == 0)
		}
	})
	if sum.Sagas < messages || sum.Crashes < 5 {
		t.Error("that tested nothing")
	}
}

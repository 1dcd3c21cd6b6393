package sim

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/node"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/sim"
)

// TestLogsHold: transparency logs over crashes, power cuts and partitions, and on members that learn them by snapshot or by a log they have
// not seen. Every acknowledged index holds its entry, none is given twice, and equal entries have one index where the log says so. Every
// checkpoint ever seen on any member belongs to the final log.
func TestLogsHold(t *testing.T) {
	n := uint64(12)
	if testing.Short() {
		n = 4
	}
	var sum sim.Report
	for seed := uint64(1); seed <= n; seed++ {
		rep := sim.Run(sim.Options{Seed: seed, Nodes: 3, Doors: true, Faults: []sim.Fault{sim.Members, sim.Kill, sim.PowerLoss, sim.TornWrite, sim.Blackout,
			sim.Partition, sim.Isolate, sim.Pause, sim.SmallLog, sim.Flush}})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		sum.Add(rep)
	}
	t.Logf("%d seeds: %s", n, sum.Counts())
	if sum.More[Added] == 0 || sum.More[Checkpoints] == 0 || sum.Crashes == 0 || sum.Snapshots == 0 && !testing.Short() {
		t.Error("that tested nothing")
	}
}

// TestLostAddsAreCaught: a member that acknowledges an add before it is durable, and so signs what may never have been. When all
// lose power, an index that was given goes to another entry, and a checkpoint that was seen is of no log.
func TestLostAddsAreCaught(t *testing.T) {
	found, err := sim.Catch(sim.Options{Doors: true, Quiet: true, Outside: true, Break: node.Break{AckBeforeSync: true},
		Faults: []sim.Fault{sim.Blackout, sim.PowerLoss}}, LostAdd, SplitView)
	t.Log(found)
	if err != nil {
		t.Error(err)
	}
}

// TestTheBookOfALogSeesWhatIsWrong: what a door could tell that no log could explain.
func TestTheBookOfALogSeesWhatIsWrong(t *testing.T) {
	w, h := &sim.World{}, &sim.Member{}
	tell := func(lb *logBook, first uint64, texts ...string) (kind string) {
		defer func() {
			if r := recover(); r != nil {
				kind = r.(*sim.Violation).Kind
			}
		}()
		lb.acknowledge(w, h, texts, &tlogpart.Appended{First: first})
		return ""
	}
	for what, c := range map[string]struct {
		first uint64
		texts []string
		kind  string
	}{
		"the next ones":              {2, []string{"c", "d"}, ""},
		"the same again":             {0, []string{"a", "b"}, ""},
		"an index given before":      {1, []string{"c"}, LostAdd},
		"another index":              {2, []string{"b"}, LostAdd},
		"twice within one batch":     {2, []string{"c", "c"}, LostAdd},
		"one of many given before":   {0, []string{"a", "c"}, LostAdd},
		"one of many somewhere else": {3, []string{"c", "a"}, LostAdd},
	} {
		lb := newLogBook("plain", false)
		if kind := tell(lb, 0, "a", "b"); kind != "" {
			t.Fatal(kind)
		}
		if kind := tell(lb, c.first, c.texts...); kind != c.kind {
			t.Errorf("%s: %q, want %q", what, kind, c.kind)
		}
	}
}

package sim

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/node"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
)

// TestTreesHold: transparency logs over crashes, power cuts and partitions, and on members that come to know them by snapshot
// or by a log they have not seen. Every acknowledged index holds its entry, none is given twice, equal entries have one index
// where the log says so, and every checkpoint ever seen on any member belongs to the log as it is in the end.
func TestTreesHold(t *testing.T) {
	n := uint64(12)
	if testing.Short() {
		n = 4
	}
	var added, checkpoints, crashes, leaders, snapshots int
	for seed := uint64(1); seed <= n; seed++ {
		rep := Run(Options{Seed: seed, Nodes: 3, Trees: true, Faults: []Fault{Members, Kill, PowerLoss, TornWrite, Blackout, Partition, Isolate, Pause,
			SmallLog, Flush}})
		if rep.Failure != nil {
			t.Errorf("seed %d: %v\n%s", seed, rep.Failure, strings.Join(rep.Trace, "\n"))
		}
		added, checkpoints, crashes = added+rep.Added, checkpoints+rep.Checkpoints, crashes+rep.Crashes
		leaders, snapshots = leaders+rep.Leaders, snapshots+rep.Snapshots
	}
	t.Logf("%d seeds: %d entries acknowledged, %d checkpoints, %d crashes, %d leaders, %d snapshots", n, added, checkpoints, crashes, leaders, snapshots)
	if added == 0 || checkpoints == 0 || crashes == 0 || snapshots == 0 && !testing.Short() {
		t.Error("that tested nothing")
	}
}

// TestLostAddsAreCaught: a member that acknowledges an add before it is durable, and so signs what may never have been. When all
// lose power, an index that was given goes to another entry, and a checkpoint that was seen is of no log.
func TestLostAddsAreCaught(t *testing.T) {
	caught(t, Options{Trees: true, Quiet: true, Outside: true, Break: node.Break{AckBeforeSync: true}, Faults: []Fault{Blackout, PowerLoss}}, LostAdd, SplitView)
}

// TestTheBookOfALogSeesWhatIsWrong: what a door could tell that no log could explain.
func TestTheBookOfALogSeesWhatIsWrong(t *testing.T) {
	w, h := &World{}, &host{name: "n1"}
	tell := func(lb *logBook, first uint64, texts ...string) (kind string) {
		defer func() {
			if r := recover(); r != nil {
				kind = r.(*Violation).Kind
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

package node

import (
	"bytes"
	"testing"

	"github.com/holdfastdb/holdfast/core/raft"
)

// asking is a follower that is cut off, with a read in a round that stays unanswered. answered counts the reads that are.
func asking(t *testing.T) (m *manual, n *Node, answered *int) {
	t.Helper()
	m = newManual(t, 3)
	n, answered = m.nodes[1], new(int)
	m.same()
	m.cutOff(n.id)
	n.LinearizeAsync(0, func(error) { *answered++ })
	if err := n.Pump(); err != nil {
		t.Fatal(err)
	}
	if n.reads.context == nil {
		t.Fatal("no round is out")
	}
	return m, n, answered
}

// An answer to an earlier attempt was given before the reads of this one came, so it says nothing to them.
func TestOnlyTheAnswerToThisAttemptCounts(t *testing.T) {
	m, n, answered := asking(t)
	old := bytes.Clone(n.reads.context)
	m.clock.Advance(readRetry)
	n.LinearizeAsync(0, func(error) { *answered++ })
	if err := n.Pump(); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(n.reads.context, old) {
		t.Fatal("it was not asked again: the test shows nothing")
	}
	n.readAnswered(raft.ReadState{Index: n.appliedIdx, Context: old})
	if *answered != 0 {
		t.Fatalf("%d reads took the answer to an earlier attempt", *answered)
	}
	n.readAnswered(raft.ReadState{Index: n.appliedIdx, Context: n.reads.context})
	if *answered != 2 {
		t.Errorf("%d reads of 2 took the answer", *answered)
	}
}

// A read that comes while a round is out waits for the next: the leader may have answered before it came.
func TestALateReadWaitsForTheNextRound(t *testing.T) {
	_, n, answered := asking(t)
	late := 0
	n.LinearizeAsync(0, func(error) { late++ })
	if err := n.Pump(); err != nil {
		t.Fatal(err)
	}
	n.readAnswered(raft.ReadState{Index: n.appliedIdx, Context: n.reads.context})
	if *answered != 1 || late != 0 {
		t.Errorf("%d in the round and %d late ones were answered", *answered, late)
	}
}

// A read whose index is not applied here waits, were it for one entry.
func TestAReadWaitsForItsLastEntry(t *testing.T) {
	m, n, answered := asking(t)
	n.readAnswered(raft.ReadState{Index: n.appliedIdx + 1, Context: n.reads.context})
	if *answered != 0 {
		t.Fatal("answered one entry too soon")
	}
	m.writeOn(m.nodes[0], 1)
	m.lose = nil
	m.until("answered", func() bool { return *answered == 1 })
	if v, _ := read(t, n, "k0"); v != "0" {
		t.Errorf("the entry it waited for says %q", v)
	}
}

// A voter that was alone asks the others once there are some, like any leader.
func TestALeaderWithANewVoterAsksIt(t *testing.T) {
	m := newManual(t, 1)
	n := m.nodes[0]
	m.add(2, false)
	m.cutOff(n.id)
	answered := 0
	n.LinearizeAsync(0, func(error) { answered++ })
	m.step()
	m.step()
	if answered != 0 {
		t.Error("answered without the other voter")
	}
}

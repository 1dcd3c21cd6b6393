package node

import (
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
)

// blackout takes the power from every member, with all that was not synced, and brings them back.
func (m *manual) blackout() {
	m.t.Helper()
	var ids []uint64
	for _, n := range m.nodes {
		ids = append(ids, n.id)
	}
	for _, id := range ids {
		m.crash(id)
		m.fs[id].Crash(nil)
	}
	for _, id := range ids {
		m.open(id)
	}
	m.leader()
}

// Acknowledged writes are there after all members have lost their power at once, each time anew.
func TestAcknowledgedOutlivesEveryPowerCut(t *testing.T) {
	for _, k := range []int{1, 3} {
		m := newManual(t, k)
		for i := range 3 {
			o := m.propose(m.leader(), "k", fmt.Sprint(i))
			m.until("applied", func() bool { return o.done })
			if o.err != nil {
				t.Fatal(o.err)
			}
			m.blackout()
			n := m.leader()
			m.until("its own term is applied", func() bool { return n.pub.Load().ready })
			if v, version := read(t, n, "k"); v != fmt.Sprint(i) || version != int64(i+1) {
				t.Fatalf("%d members, after cut %d: k = %q, version %d", k, i, v, version)
			}
		}
	}
}

// The commit index causes no sync of its own; it is on disk with the next record.
func TestTheCommitIndexRidesOnTheNextRecord(t *testing.T) {
	m := newManual(t, 1)
	n := m.nodes[0]
	m.writeOn(n, 3)
	before := n.appliedIdx
	m.writeOn(n, 1)
	if c := n.wal.HardState().Commit; c < before {
		t.Errorf("the log says committed up to %d, an entry after %d was written since", c, before)
	}
}

// After a restart the configuration is the one that belongs to the applied state.
func TestWhoVotesComesBackWithTheState(t *testing.T) {
	m := newManual(t, 1)
	m.add(2, false)
	m.same()
	if err := m.nodes[0].store.Flush(); err != nil {
		t.Fatal(err)
	}
	m.crash(1)
	if n := m.open(1); n.appliedIdx < 3 || len(n.rep.Conf().Voters) != 2 {
		t.Errorf("it came back at %d with %s", n.appliedIdx, fmt.Sprint(n.rep.Conf()))
	}
}

// The log that a snapshot begins has the term and the vote that come with the snapshot, or a crash would take them back.
func TestASnapshotBeginsTheLogInItsTerm(t *testing.T) {
	m := newManual(t, 1)
	n := m.nodes[0]
	m.writeOn(n, 3)
	if err := n.drainWrites(); err != nil {
		t.Fatal(err)
	}
	in, err := n.store.Incoming()
	if err != nil {
		t.Fatal(err)
	}
	index := n.appliedIdx + 100
	it, err := n.store.NewIter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	point := &raft.SnapshotPoint{Index: index, Term: 40, Conf: n.rep.Conf()}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		if k := string(it.Key()); k != string(store.AppliedKey) && k != "\x00state" {
			if err := in.Set(it.Key(), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if err := in.Finish(index); err != nil {
		t.Fatal(err)
	}
	n.offered = &received{point: point, in: in, took: make(chan error, 1)}
	hs := wal.HardState{Term: 41, Vote: 7, Commit: index}
	if err := n.installSnapshot(&raft.Write{Batch: wal.Batch{HardState: &hs}, Sync: true, Snapshot: point}); err != nil {
		t.Fatal(err)
	}
	if got := n.wal.HardState(); got != hs {
		t.Errorf("the log begins with %+v, want %+v", got, hs)
	}
	m.nodes = nil // raft knows nothing of this: it is not to go on
	n.Stop()
}

// The log keeps the entries that the store has only in memory, at any length, and drops those that the store has on disk.
func TestTheLogKeepsWhatTheStoreMayLose(t *testing.T) {
	m := newManual(t, 1)
	n := m.nodes[0]
	durable, err := n.store.DurableApplied()
	if err != nil {
		t.Fatal(err)
	}
	for range 40 { // more than a segment
		o := m.propose(n, "k", string(make([]byte, 512<<10)))
		m.until("applied", func() bool { return o.done })
	}
	n.truncate()
	if first := n.wal.FirstIndex(); first > durable+1 {
		t.Errorf("the log begins at %d, the store has %d on disk", first, durable)
	}
	if err := n.store.Flush(); err != nil {
		t.Fatal(err)
	}
	n.truncate()
	if first := n.wal.FirstIndex(); first <= durable+1 {
		t.Errorf("the log begins at %d although the store has it all: the test shows nothing", first)
	}
}

package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/raft"
)

// wantVersion gives everything that is under way time to come, and looks how often a key was written.
func (m *manual) wantVersion(key string, want int64) {
	m.t.Helper()
	for range 20 {
		m.step()
		m.clock.Advance(packPatience)
	}
	m.same()
	for _, n := range m.nodes {
		if _, version := read(m.t, n, key); version != want {
			m.t.Fatalf("member %x applied it %d times, want %d", n.id, version, want)
		}
	}
}

// A follower that gets "not the leader" from the member it has sent a command to knows nothing of the command. That member may have led
// when it took it. Only a later term proves that it is dead.
func TestARefusalOfOneThatLedIsNoProof(t *testing.T) {
	m := newManual(t, 3)
	leader, follower := m.nodes[0], m.nodes[1]
	o := m.propose(follower, "k", "v")
	m.step() // the follower sends it, and the leader has it
	if len(follower.inflight) != 1 {
		t.Fatalf("%d commands are on their way", len(follower.inflight))
	}
	for seq := range follower.inflight {
		refusal := append(binary.AppendUvarint([]byte{frameRefused}, follower.rep.Term()), refusedNotLeader)
		refusal = binary.AppendUvarint(binary.LittleEndian.AppendUint64(refusal, follower.origin), seq)
		follower.HandleFrame(leader.id, peer.ChannelForward, refusal)
	}
	m.until("applied", func() bool { return o.done })
	if o.err != nil {
		t.Fatal(o.err)
	}
	m.wantVersion("k", 1)
}

// A leader takes commands before the first entry of its term is applied, but stamps them only afterwards. Stamps of earlier leaders may not
// be applied yet. Applying that entry supersedes what is of earlier terms, and not these.
func TestCommandsBeforeTheFirstEntryOfATermWaitForIt(t *testing.T) {
	m := newManual(t, 3)
	next := m.nodes[1]
	m.nodes[0].TransferAsync(next.id)
	m.until("it leads", func() bool { return next.rep.IsLeader() })
	if next.termApplied == next.rep.Term() {
		t.Fatal("its first entry is applied already: the test shows nothing")
	}
	o := m.propose(next, "k", "v")
	if err := next.Pump(); err != nil {
		t.Fatal(err)
	}
	if next.termApplied == next.rep.Term() {
		t.Fatal("its first entry is applied already: the test shows nothing")
	}
	if len(next.inflight) != 0 {
		t.Error("it was stamped before the first entry of the term was applied")
	}
	m.until("applied", func() bool { return o.done })
	m.wantVersion("k", 1)
	if n := next.Counters().Superseded; n != 0 {
		t.Errorf("%d were superseded", n)
	}
}

// TestACommandOfThisTermIsNotSuperseded: it may be in the log, and would be applied twice.
func TestACommandOfThisTermIsNotSuperseded(t *testing.T) {
	m := newManual(t, 3)
	leader := m.nodes[0]
	m.writeOn(leader, 1) // the first entry of the term is applied
	m.lose = func(parcel) bool { return true }
	o := m.propose(leader, "k", "v")
	for range 10 {
		if err := leader.Pump(); err != nil {
			t.Fatal(err)
		}
	}
	if len(leader.inflight) != 1 || o.done {
		t.Fatalf("%d are on their way: the test shows nothing", len(leader.inflight))
	}
	leader.supersede(leader.rep.Term())
	if len(leader.inflight) != 1 {
		t.Error("it is proposed again")
	}
	m.lose = nil
	m.until("applied", func() bool { return o.done })
	m.wantVersion("k", 1)
}

// A decision of a term that is over is refused wherever it is proposed, and takes no effect.
func TestATermThatIsOverTakesNothing(t *testing.T) {
	m := newManual(t, 3)
	for _, n := range m.nodes[:2] {
		var err error
		if e := n.ProposeAsync(LaneSystem, n.Status().Term-1, []entry.Part{putPart("k", "v")}, func(_ *entry.Result, e error) { err = e }); e != nil {
			t.Fatal(e)
		}
		m.until("an outcome", func() bool { return err != nil })
		if !errors.Is(err, ErrSuperseded) {
			t.Fatal(err)
		}
	}
	m.writeOn(m.nodes[0], 1)
	m.wantVersion("k", 0)
}

// A member that catches up by a snapshot cannot tell whether a command it had sent before is in it.
func TestASnapshotLeavesOutcomesUnknown(t *testing.T) {
	m := newManual(t, 3)
	leader, far := m.nodes[0], m.nodes[2]
	m.lose = func(p parcel) bool { return p.to == far.id }
	o := m.propose(far, "k", "v")
	m.until("applied elsewhere", func() bool { _, version := read(t, leader, "k"); return version == 1 })
	m.cutOff(far.id)
	m.writeOn(leader, 30)
	m.forgetLog(far.id)
	if o.done {
		t.Fatal("it has an outcome: the test shows nothing")
	}
	m.lose = nil
	m.until("a snapshot", func() bool { return far.replaced.Load() == 1 })
	m.until("an outcome", func() bool { return o.done })
	if !errors.Is(o.err, ErrUnknown) || len(far.inflight) != 0 {
		t.Errorf("%v, %d in flight", o.err, len(far.inflight))
	}
	before, _ := read(t, leader, "k")
	m.writeOn(leader, 1)
	if after, _ := read(t, leader, "k"); after != before {
		t.Errorf("k was %q and is %q", before, after)
	}
}

// Adding a voter raises the quorum, so enough of those that are there must have been started.
func TestNoVoterBesideOneThatNeverStarted(t *testing.T) {
	m := newManual(t, 1)
	lead := m.nodes[0]
	m.change(lead, raft.AddVoter, 2, &emember.Part{Add: &emember.Add{Member: emember.Member{ID: 2, PeerURLs: []string{"http://10.0.0.2:2380"}}}})
	gone, cancel := context.WithCancel(context.Background())
	cancel() // nothing can be committed, so a call that is let through must not wait
	if _, err := lead.addMember(gone, emember.Member{PeerURLs: []string{"http://10.0.0.3:2380"}}); !errors.Is(err, ErrNotEnoughStarted) {
		t.Errorf("one of two has started, and a third is added: %v", err)
	}
}

// A call is checked where it is run, too: by any way of its frame, no service runs for a process that is no member.
func TestNoServiceRunsForAStranger(t *testing.T) {
	m := newManual(t, 3)
	n := m.nodes[0]
	var ran atomic.Int64
	n.Handle("test.count", func(context.Context, []byte) ([]byte, error) {
		ran.Add(1)
		return nil, nil
	})
	call := entry.AppendPacked(binary.AppendUvarint([]byte{frameCall}, 1), []byte("test.count"))
	served := func() int64 {
		for range cap(n.calls.slots) { // until the serving goroutines are done
			n.calls.slots <- struct{}{}
		}
		for range cap(n.calls.slots) {
			<-n.calls.slots
		}
		return ran.Load()
	}
	n.handleCallFrame(0xbad, bytes.Clone(call))
	if served() != 0 {
		t.Error("a stranger was served")
	}
	n.handleCallFrame(m.nodes[1].id, bytes.Clone(call))
	if served() != 1 {
		t.Error("a member was not served: the test shows nothing")
	}
}

package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/raft"
)

// A linearizable read sees everything acknowledged before it, on every member, and any number of waiting reads cost one round.
func TestReadsShareARound(t *testing.T) {
	m := newManual(t, 3)
	o := m.propose(m.nodes[1], "k", "v")
	m.until("applied", func() bool { return o.done })
	for _, n := range m.nodes {
		before := n.reads.counter
		answered := 0
		for range 100 {
			n.LinearizeAsync(0, func(err error) {
				if err != nil {
					t.Error(err)
				}
				if v, _ := read(t, n, "k"); v != "v" {
					t.Errorf("member %x reads %q", n.id, v)
				}
				answered++
			})
		}
		m.until("answered", func() bool { return answered == 100 })
		if rounds := n.reads.counter - before; rounds > 3 { // one, and what a lost tick may cost
			t.Errorf("member %x took %d rounds", n.id, rounds)
		}
	}
}

// A member that is cut off answers no read, not even one that led a moment ago and has not noticed.
func TestCutOffMemberAnswersNoRead(t *testing.T) {
	m := newManual(t, 3)
	old := m.nodes[0]
	m.cutOff(old.id)
	answered := false
	old.LinearizeAsync(0, func(error) { answered = true })
	inTerm := error(nil)
	old.LinearizeAsync(old.Status().Term, func(err error) { inTerm = err })
	m.until("another leader", func() bool { return m.nodes[1].pub.Load().leads != 0 || m.nodes[2].pub.Load().leads != 0 })
	var other *Node
	for _, n := range m.nodes[1:] {
		if n.pub.Load().leads != 0 {
			other = n
		}
	}
	o := m.propose(other, "k", "new")
	m.until("applied", func() bool { return o.done })
	if answered || inTerm != nil {
		t.Fatalf("answered while cut off: %v, %v", answered, inTerm)
	}
	m.lose = nil
	m.until("answered", func() bool { return answered && inTerm != nil })
	if v, _ := read(t, old, "k"); v != "new" {
		t.Fatalf("read %q after a linearizable read was answered", v)
	}
	if !errors.Is(inTerm, ErrSuperseded) {
		t.Fatalf("a read in the old term: %v", inTerm)
	}
}

// A voter with a learner tells it the commit index before it applies what it covers, so the learner may answer a write first. A
// later read at the voter must see that write.
func TestSoleVoterReadsWhatItsLearnerShows(t *testing.T) {
	m := newManual(t, 1)
	voter, lrn := m.nodes[0], m.add(2, true)
	reads, early := 0, 0
	for i := range 20 {
		want := fmt.Sprint(i)
		o := m.propose(lrn, "k", want)
		asked := false
		m.sending = func(p parcel) bool {
			if p.from != voter.id || asked {
				return false
			}
			lrn.HandleFrame(p.from, p.channel, p.frame)
			if err := lrn.Pump(); err != nil {
				t.Fatal(err)
			}
			if o.done && !asked {
				asked = true
				if _, version := read(t, voter, "k"); version == int64(i) {
					early++ // the learner has answered what the voter has yet to apply
				}
				for _, term := range []uint64{0, voter.Status().Term} {
					voter.LinearizeAsync(term, func(err error) {
						reads++
						if v, _ := read(t, voter, "k"); v != want || err != nil {
							t.Errorf("read %q at the voter after its learner had acknowledged %q: %v", v, want, err)
						}
					})
				}
			}
			return true
		}
		m.until("applied and read", func() bool { return o.done && reads == 2*(i+1) })
		m.sending = nil
	}
	if early == 0 {
		t.Fatal("the learner was never ahead of the voter: nothing was tried")
	}
}

// The last other member that left may have applied and answered entries that the voter had committed then. The voter reads
// without a round only once it has applied all of it itself.
func TestTheLastVoterCatchesUpBeforeItReadsAlone(t *testing.T) {
	for _, learner := range []bool{true, false} {
		m := newManual(t, 1)
		voter := m.nodes[0]
		other := m.add(2, learner)
		pump := func(n *Node) {
			t.Helper()
			if err := n.Pump(); err != nil {
				t.Fatal(err)
			}
		}
		dispatch := func() { // one log entry
			t.Helper()
			voter.packedIndex = 0 // as if the entry before were committed
			if err := voter.drainInbox(); err != nil {
				t.Fatal(err)
			}
			if err := voter.dispatch(); err != nil {
				t.Fatal(err)
			}
		}
		removed := false
		if err := voter.ChangeAsync(raft.Remove, other.id, &emember.Part{Remove: &emember.Remove{ID: other.id}},
			func(*entry.Result, error) { removed = true }); err != nil {
			t.Fatal(err)
		}
		dispatch()
		acknowledged, reads := &outcome{}, 0
		ahead := false
		if err := voter.ProposeAsync(LaneKV, 0, []entry.Part{putPart("own", "v")}, func(*entry.Result, error) {
			// Between the entry that removed the other member and the one with its last write.
			ahead = removed && acknowledged.done
			voter.LinearizeAsync(0, func(err error) {
				reads++
				if v, _ := read(t, voter, "k"); v != "new" || err != nil {
					t.Errorf("read %q at the last voter after the removed member had acknowledged a write: %v", v, err)
				}
			})
		}); err != nil {
			t.Fatal(err)
		}
		dispatch()
		acknowledged = m.propose(other, "k", "new")
		pump(other)
		for _, p := range m.take() {
			m.node(p.to).HandleFrame(p.from, p.channel, p.frame)
		}
		dispatch()
		m.sending = func(p parcel) bool {
			if p.to == other.id && !acknowledged.done {
				other.HandleFrame(p.from, p.channel, p.frame)
				pump(other)
				if !acknowledged.done && other.WriteStep() {
					pump(other)
				}
			}
			return p.to == other.id
		}
		for range 100 {
			pump(voter)
			voter.WriteStep()
			for _, p := range m.take() {
				m.node(p.to).HandleFrame(p.from, p.channel, p.frame)
			}
		}
		m.sending = nil
		if !ahead || reads != 1 {
			t.Fatalf("learner %v: the removed member was ahead: %v; %d reads answered", learner, ahead, reads)
		}
		m.crash(other.id)
		before := voter.reads.counter
		for range 10 {
			voter.LinearizeAsync(0, func(err error) { reads++ })
		}
		if reads != 11 || voter.reads.counter != before {
			t.Fatalf("alone and with everything applied it answered %d reads of 10 at once", reads-1)
		}
	}
}

// Readers that leave while there is no leader leave nothing behind.
func TestReadersThatLeave(t *testing.T) {
	m := newManual(t, 3)
	n := m.nodes[0]
	m.cutOff(n.id)
	m.until("no leader", func() bool { return n.rep.Leader() == 0 })
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 1000 {
		if err := n.Linearize(gone); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	for range 10 {
		m.step()
		m.clock.Advance(100 * time.Millisecond)
	}
	if k := len(n.reads.round) + len(n.reads.queue); k != 0 {
		t.Fatalf("%d readers are kept that nobody waits for", k)
	}
}

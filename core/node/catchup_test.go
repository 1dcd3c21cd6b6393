package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// leader is the member that leads now.
func (m *manual) leader() *Node {
	m.t.Helper()
	var l *Node
	m.until("a leader", func() bool {
		for _, n := range m.nodes {
			if n.pub.Load().leads != 0 && n.pub.Load().leads >= n.rep.Term() {
				l = n
			}
		}
		return l != nil
	})
	return l
}

// cutOff loses everything from and to one member.
func (m *manual) cutOff(id uint64) {
	m.lose = func(p parcel) bool { return p.from == id || p.to == id }
}

// writeOn proposes k times on n and waits for the outcome.
func (m *manual) writeOn(n *Node, k int) {
	m.t.Helper()
	for i := range k {
		o := m.propose(n, fmt.Sprintf("k%d", i%10), fmt.Sprint(i))
		m.until("applied", func() bool { return o.done })
		if o.err != nil {
			m.t.Fatal(o.err)
		}
	}
}

// forgetLog truncates the logs of all but one member up to what they applied, as if a long time had passed.
func (m *manual) forgetLog(but uint64) {
	m.t.Helper()
	for _, n := range m.nodes {
		if n.id == but {
			continue
		}
		if err := n.store.Flush(); err != nil {
			m.t.Fatal(err)
		}
		if err := n.wal.Truncate(n.appliedIdx); err != nil {
			m.t.Fatal(err)
		}
	}
}

// same waits until all members applied the same, and compares their state hashes.
func (m *manual) same() {
	m.t.Helper()
	m.until("all at the same index", func() bool {
		for _, n := range m.nodes {
			if n.appliedIdx != m.nodes[0].appliedIdx || n.rep.Leader() == 0 {
				return false
			}
		}
		return true
	})
	_, want := m.nodes[0].applier.Hash()
	for _, n := range m.nodes {
		if _, got := n.applier.Hash(); got != want {
			m.t.Fatalf("member %x has the state hash %x, member %x %x", n.id, got, m.nodes[0].id, want)
		}
	}
}

func TestCatchUpBySnapshot(t *testing.T) {
	m := newManual(t, 3)
	far := m.nodes[2]
	m.cutOff(far.id)
	m.writeOn(m.nodes[0], 30)
	m.forgetLog(far.id)
	m.lose = nil
	m.until("a snapshot", func() bool { return far.replaced.Load() == 1 })
	m.same()
	m.writeOn(far, 3)
	m.same()
	if v, version := read(t, far, "k0"); v != "0" || version != 4 {
		t.Fatalf("k0 = %q, version %d", v, version)
	}
	// The received state is durable: the member comes back with it after a crash.
	m.crash(far.id)
	again := m.open(far.id)
	if again.appliedIdx < 30 {
		t.Fatalf("it came back at %d", again.appliedIdx)
	}
	m.writeOn(m.leader(), 3)
	m.same()
}

// A learner is promoted while it is cut off, and hears of it by a snapshot in the same term. It reports itself a voter from then on.
func TestAPromotionHeardBySnapshot(t *testing.T) {
	m := newManual(t, 3)
	lead, lrn := m.nodes[0], m.add(4, true)
	m.until("ready", func() bool { return lrn.Status().Ready })
	if !lrn.Status().Learner {
		t.Fatal("it does not say that it is a learner")
	}
	term := lrn.Status().Term
	m.cutOff(lrn.id)
	m.change(lead, raft.AddVoter, lrn.id, &emember.Part{Promote: &emember.Promote{ID: lrn.id}})
	m.writeOn(lead, 20)
	m.forgetLog(lrn.id)
	m.lose = nil
	m.until("a snapshot", func() bool { return lrn.replaced.Load() == 1 })
	m.same()
	st := lrn.Status()
	if st.Term != term {
		t.Fatalf("the term went from %d to %d: nothing was tried", term, st.Term)
	}
	if st.Learner || !st.Ready {
		t.Errorf("after its promotion it says: learner %v, ready %v", st.Learner, st.Ready)
	}
}

// A member's remembered commit index for its next record ends with its log: over a snapshot it would go back on disk.
func TestCommitIndexStaysOverASnapshot(t *testing.T) {
	m := newManual(t, 3)
	lead, far := m.nodes[0], m.nodes[2]
	m.writeOn(lead, 5)
	m.until("a commit index that no record holds", func() bool { return far.writer.moved != nil })
	m.cutOff(far.id)
	m.writeOn(lead, 30)
	m.forgetLog(far.id)
	m.lose = nil
	m.until("a snapshot", func() bool { return far.replaced.Load() == 1 })
	at := far.appliedIdx
	for i := range 3 {
		m.writeOn(lead, 1)
		m.same()
		if hs := far.wal.HardState(); hs.Commit < at {
			t.Fatalf("write %d after the snapshot of index %d: the log says that %d was committed, in term %d", i, at, hs.Commit, hs.Term)
		}
	}
}

// A stream that is lost or damaged on the way leaves the receiver as it was, and comes again.
func TestLostSnapshotComesAgain(t *testing.T) {
	m := newManual(t, 3)
	far := m.nodes[2]
	m.cutOff(far.id)
	m.writeOn(m.nodes[0], 20)
	m.forgetLog(far.id)
	tries := 0
	m.lose = func(p parcel) bool {
		if p.channel != peer.ChannelSnapshot {
			return false
		}
		tries++
		if tries == 2 {
			p.frame[len(p.frame)/2] ^= 1
		}
		return tries == 1
	}
	m.until("the third try", func() bool { return far.replaced.Load() == 1 })
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
	m.same()
}

// A crash between the switch of the store and the reset of the log: the next start finishes the install. The log of the old
// store may be shorter than the snapshot, or longer with entries that never came to anything.
func TestCrashInTheMiddleOfAnInstall(t *testing.T) {
	for _, c := range []struct {
		name string
		lost int // entries that only the member itself has, of its own term
	}{{"shorter log", 0}, {"longer log of a dead term", 60}} {
		t.Run(c.name, func(t *testing.T) {
			m := newManual(t, 3)
			far := m.nodes[0]
			m.cutOff(far.id)
			var dead []*outcome
			for i := range c.lost {
				dead = append(dead, m.propose(far, "lost", fmt.Sprint(i)))
				m.step()
				m.clock.Advance(packPatience) // nothing is committed, so each entry is cut when that is over
				m.step()
			}
			m.until("another leader", func() bool { return m.nodes[1].pub.Load().leads != 0 || m.nodes[2].pub.Load().leads != 0 })
			for _, o := range dead {
				if o.done {
					t.Fatalf("an outcome without a majority: %v", o.err)
				}
			}
			if got := far.wal.LastIndex(); int(got) < c.lost {
				t.Fatalf("its log ends at %d", got)
			}
			var leader *Node
			for _, n := range m.nodes[1:] {
				if n.pub.Load().leads != 0 {
					leader = n
				}
			}
			m.writeOn(leader, 20)
			m.forgetLog(far.id)
			boom := errors.New("power cut")
			m.lose = func(p parcel) bool {
				if p.channel == peer.ChannelSnapshot && p.to == far.id {
					m.bad[far.id].FailWrite(func(name string) bool { return strings.Contains(name, "START") }, boom)
				}
				return false
			}
			crashed := false
			m.died = func(n *Node, err error) {
				if n != far || !errors.Is(err, boom) {
					t.Fatalf("member %x: %v", n.id, err)
				}
				crashed = true
				m.crash(far.id)
			}
			m.until("the crash", func() bool { return crashed })
			m.died, m.lose = nil, nil
			m.bad[far.id].FailWrite(nil, nil)

			again := m.open(far.id)
			if again.appliedIdx < 20 || again.wal.LastIndex() != again.appliedIdx {
				t.Fatalf("the store is at %d, the log ends at %d", again.appliedIdx, again.wal.LastIndex())
			}
			m.writeOn(again, 3)
			m.same()
			if _, version := read(t, again, "lost"); version != 0 {
				t.Error("a write of the dead term took effect")
			}
		})
	}
}

// slowInstall is a store that a reader visits right after its contents were exchanged.
type slowInstall struct {
	*store.Mem
	visit func()
}

func (s *slowInstall) Install(in store.Incoming) error {
	err := s.Mem.Install(in)
	s.visit()
	return err
}

// A read while a snapshot is installed sees the state before it or the one after, or fails; never new rows at an old revision.
func TestReadDuringInstall(t *testing.T) {
	m := newManual(t, 3)
	far := m.nodes[2]
	read := make(chan error, 1)
	far.store = &slowInstall{far.store.(*store.Mem), func() {
		go func() {
			r, rev, err := far.kv().Range(&kvpart.Range{Key: []byte("k0")}, 1<<20)
			switch {
			case err != nil || len(r.KVs) == 0:
				read <- nil
			case r.KVs[0].ModRevision > rev:
				read <- fmt.Errorf("revision %d of a key read at revision %d", r.KVs[0].ModRevision, rev)
			default:
				read <- nil
			}
		}()
		time.Sleep(50 * time.Millisecond) // it must wait for us; give it time to fail to
	}}
	m.cutOff(far.id)
	m.writeOn(m.nodes[0], 30)
	m.forgetLog(far.id)
	m.lose = nil
	m.until("a snapshot", func() bool { return far.replaced.Load() == 1 })
	if err := <-read; err != nil {
		t.Fatal(err)
	}
}

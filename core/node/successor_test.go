package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// patient has elections that are never begun by raft's own timeouts.
func patient(_ uint64, cfg *Config) { cfg.ElectionTicks = 1 << 20 }

// soon waits in the time of the test's bubble: turns are not the manual clock's.
func (m *manual) soon(what string, ok func() bool) {
	m.t.Helper()
	wait.Until(m.t, what, func() bool {
		m.step()
		if ok() {
			return true
		}
		m.clock.Advance(time.Millisecond)
		return false
	})
}

// impatient is a cluster of k whose members wait for ever by themselves.
func impatient(t *testing.T, k int) *manual {
	m := newManual(t, k)
	m.more = patient
	for id := uint64(1); id <= uint64(k); id++ {
		m.crash(id)
	}
	for id := uint64(1); id <= uint64(k); id++ {
		m.open(id)
	}
	m.node(1).rep.Campaign()
	m.until("a leader", func() bool { return m.node(1).pub.Load().leads != 0 && m.nodes[k-1].pub.Load().ready })
	return m
}

// In these tests a turn lasts as long as it should, however busy the machine is. They run in bubbles, with a time of their own.

// TestALeaderThatIsGone: the voters stand by turns, and the next leader comes in one term. The others may notice at once, later, or be told
// of the wrong member.
func TestALeaderThatIsGone(t *testing.T) {
	for _, c := range []struct {
		what   string
		voters int
		tell   []uint64 // who is told, in this order
		late   uint64   // the member told only when the first has stood, 0: none
		lost   bool     // nothing arrives until then
	}{
		{"all notice", 3, []uint64{2, 3}, 0, false},
		{"the one whose turn is first notices late", 3, []uint64{3}, 2, false},
		{"the one whose turn is second notices late", 3, []uint64{2}, 3, false},
		{"of five", 5, []uint64{5, 4, 3, 2}, 0, false},
		{"the first to stand are not heard", 3, []uint64{2, 3}, 0, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := impatient(t, c.voters)
				m.writeOn(m.node(1), 3)
				m.same()
				before := m.node(1).Term()
				m.crash(1)
				for _, id := range c.tell {
					m.node(id).Refused(1)
				}
				if c.late != 0 || c.lost {
					m.lose = func(parcel) bool { return c.lost }
					began := time.Now()
					m.soon("time passes", func() bool { return time.Since(began) > 60*time.Millisecond })
					m.lose = nil
				}
				if c.late != 0 {
					m.node(c.late).Refused(1)
				}
				var lead *Node
				m.soon("another leads", func() bool {
					for _, n := range m.nodes {
						if n.pub.Load().leads != 0 {
							lead = n
						}
					}
					return lead != nil
				})
				if got := lead.Term(); got != before+1 {
					t.Errorf("term %d after %d", got, before)
				}
				m.writeOn(lead, 1)
			})
		})
	}
}

// TestALeaderThatIsNotGone: a member told so of a follower does nothing. One told so of a live leader hears of it again with the next
// heartbeat.
func TestALeaderThatIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := impatient(t, 3)
		before := m.node(1).Term()
		for range 10 {
			m.node(1).Refused(2)
			m.node(1).Refused(1)
			m.node(2).Refused(3)
			m.node(3).Refused(2)
			m.soon("told", func() bool { return true })
		}
		m.node(2).Refused(1)
		m.soon("it follows again", func() bool { return m.node(2).leadersGone.Load() == 1 && m.node(2).rep.Leader() == 1 })
		m.writeOn(m.node(1), 3)
		if got := m.node(1).Term(); got != before || m.node(1).pub.Load().leads == 0 {
			t.Errorf("term %d after %d", got, before)
		}
	})
}

// TestALearnerDoesNotStand: it forgets the leader, and has no turn.
func TestALearnerDoesNotStand(t *testing.T) {
	if turnOf([]uint64{9, 4, 7}, 7, 4) != 0 || turnOf([]uint64{9, 4, 7}, 9, 4) != 1 || turnOf([]uint64{9, 4, 7}, 5, 4) != -1 || turnOf([]uint64{4}, 4, 4) != -1 {
		t.Error("turns are not by the voters that are left, in order")
	}
}

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/raft"
)

// Once a membership change has been answered, a member that crashes comes back with it, even if all else of its store is lost.
func TestAnAnsweredChangeIsDurable(t *testing.T) {
	m := newManual(t, 3)
	m.change(m.nodes[0], raft.Remove, 3, &emember.Part{Remove: &emember.Remove{ID: 3}})
	m.crash(3)
	m.until("applied by the other one", func() bool { return !m.node(2).rep.Conf().Voter(3) })
	for _, id := range []uint64{1, 2} {
		m.crash(id)
		// The truncated log does not tell it again, so the store has to.
		conf, err := readConf(m.mem[id])
		if err != nil || conf.Voter(3) || len(conf.Voters) != 2 {
			t.Fatalf("member %d would come back with the voters %x: %v", id, conf.Voters, err)
		}
		n := m.open(id)
		if ms := n.Members(); len(ms) != 2 || n.rep.Conf().Voter(3) || !n.Removed(3) {
			t.Fatalf("member %d came back with the members %+v", id, ms)
		}
	}
	m.writeOn(m.leader(), 3)
}

// Changes that wait for the one in flight cost nothing while they wait, are bounded in number, and go in their order.
func TestChangesThatWait(t *testing.T) {
	m := newManual(t, 3)
	lead := m.nodes[0]
	m.until("all hear the leader", func() bool { return lead.rep.Commit() == lead.appliedIdx })
	m.lose = func(parcel) bool { return true }
	var done []uint64
	var refused int
	for id := uint64(10); id < 10+maxChanges+5; id++ {
		add := emember.Member{ID: id, PeerURLs: []string{fmt.Sprintf("http://10.0.1.%d:1", id)}, Learner: true}
		if err := lead.ChangeAsync(raft.AddLearner, id, &emember.Part{Add: &emember.Add{Member: add}}, func(r *entry.Result, err error) {
			switch {
			case err == nil && r.Rejection == nil:
				done = append(done, id)
			case errors.Is(err, ErrOverloaded):
				refused++
			default:
				t.Errorf("change %d: %v %v", id, r, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		m.step()
	}
	for len(lead.wake) > 0 {
		<-lead.wake
	}
	for range 3 {
		if err := lead.Pump(); err != nil {
			t.Fatal(err)
		}
		if len(lead.wake) > 0 {
			t.Fatal("a change that waits wakes the loop again at once")
		}
	}
	if refused != 4 || len(done) != 0 { // one is in flight
		t.Errorf("%d refused, %d done while nothing can be committed", refused, len(done))
	}
	m.lose = nil
	m.until("all done", func() bool { return len(done) == maxChanges+1 })
	if !slices.IsSorted(done) {
		t.Errorf("done in the order %v", done)
	}
}

// A leader that is deposed answers the changes that wait at it: nothing of them was proposed.
func TestChangesThatWaitAtADeposedLeader(t *testing.T) {
	m := newManual(t, 3)
	old := m.nodes[0]
	m.cutOff(old.id)
	ended := map[uint64]error{}
	for id := uint64(10); id < 13; id++ {
		add := emember.Member{ID: id, PeerURLs: []string{fmt.Sprintf("http://10.0.1.%d:1", id)}, Learner: true}
		if err := old.ChangeAsync(raft.AddLearner, id, &emember.Part{Add: &emember.Add{Member: add}}, func(_ *entry.Result, err error) { ended[id] = err }); err != nil {
			t.Fatal(err)
		}
	}
	m.until("another leader", func() bool { return m.nodes[1].pub.Load().leads != 0 || m.nodes[2].pub.Load().leads != 0 })
	m.lose = nil
	m.until("an end", func() bool { return len(ended) >= 2 })
	for _, id := range []uint64{11, 12} {
		if err, ok := ended[id]; !ok || !errors.Is(err, ErrSuperseded) {
			t.Errorf("change %d ended with %v, %v", id, ok, err)
		}
	}
	m.writeOn(old, 3)
	m.same()
}

// halfConnected is a network on which the leader has lost some members.
type halfConnected struct {
	manualNet
	down map[uint64]bool
}

func (h *halfConnected) ConnectedFor(id uint64) int64 {
	if h.down[id] {
		return 0
	}
	return h.manualNet.ConnectedFor(id)
}

// etcd's rule for a new member, which it counts as one that is down, whether it will vote or not.
// TestCtlV3MemberAddAsLearnerWithOneMemberDown of its tests/e2e (v3.7.3) has these cases.
func TestAddWithMembersDown(t *testing.T) {
	for _, c := range []struct{ voters, mayBeDown int }{{1, 0}, {3, 0}, {4, 1}, {5, 1}} {
		m := newManual(t, c.voters)
		lead := m.nodes[0]
		net := &halfConnected{lead.net.(manualNet), map[uint64]bool{}}
		lead.net = net
		add := func(asLearner bool) (err error) {
			answer := make(chan error, 1)
			go func() {
				_, err := lead.AddMember(context.Background(), []string{"http://10.0.0.9:2380"}, asLearner)
				answer <- err
			}()
			m.until("an answer", func() bool {
				time.Sleep(time.Millisecond) // the caller has a goroutine of its own
				select {
				case err = <-answer:
					return true
				default:
					return false
				}
			})
			return err
		}
		for down := c.mayBeDown + 1; down < c.voters; down++ {
			for id := 2; id < 2+down; id++ {
				net.down[uint64(id)] = true
			}
			for _, asLearner := range []bool{true, false} {
				if err := add(asLearner); !errors.Is(err, ErrUnhealthy) {
					t.Errorf("%d voters, %d of them down, learner %v: %v", c.voters, down, asLearner, err)
				}
			}
		}
		clear(net.down)
		for id := 2; id < 2+c.mayBeDown; id++ {
			net.down[uint64(id)] = true
		}
		if err := add(true); err != nil {
			t.Errorf("%d voters, %d of them down: %v", c.voters, c.mayBeDown, err)
		}
	}
}

// An operator promotes a learner as soon as it is ready and up to date. So the check must not depend on figures that are published twice a
// second.
func TestALearnerThatIsReadyCanBePromoted(t *testing.T) {
	m := newManual(t, 1)
	lead := m.nodes[0]
	m.writeOn(lead, 50)
	lrn := m.add(2, true)
	caught := false
	lrn.LinearizeAsync(0, func(err error) { caught = err == nil })
	m.until("caught up", func() bool { return caught && lrn.Status().Ready })
	lead.pub.Load().progress = nil // as it is until the next round of publishing
	answer := make(chan error, 1)
	go func() { answer <- lead.PromoteMember(context.Background(), lrn.id) }()
	m.until("an answer", func() bool {
		time.Sleep(time.Millisecond)
		select {
		case err := <-answer:
			if err != nil {
				t.Fatal(err)
			}
			return true
		default:
			return false
		}
	})
	m.until("a voter by its own word", func() bool { return !lrn.Status().Learner })
}

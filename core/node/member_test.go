package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// idOf is a member's id as the log has it, by name.
func idOf(t testing.TB, n *Node, name string) uint64 {
	t.Helper()
	for _, m := range n.Members() {
		if m.Name == name {
			return m.ID
		}
	}
	t.Fatalf("no member %s in %+v", name, n.Members())
	return 0
}

func learner(n *Node, id uint64) (is, known bool) {
	for _, m := range n.Members() {
		if m.ID == id {
			return m.Learner, true
		}
	}
	return false, false
}

// The checks of etcd's strict reconfiguration, asked on a follower: membership calls work on every member.
func TestMembershipRefusals(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	_, n := c.follower()
	ctx := within(t)
	if err := n.RemoveMember(ctx, 12345); !errors.Is(err, ErrMemberNotFound) {
		t.Errorf("remove nobody: %v", err)
	}
	if err := n.PromoteMember(ctx, 12345); !errors.Is(err, ErrMemberNotFound) {
		t.Errorf("promote nobody: %v", err)
	}
	if err := n.PromoteMember(ctx, idOf(t, n, "n1")); !errors.Is(err, ErrMemberNotLearner) {
		t.Errorf("promote a voter: %v", err)
	}
	if _, err := n.AddMember(ctx, nil, true); err == nil {
		t.Error("a member without an address was added")
	}
	if _, err := n.AddMember(ctx, []string{"http://" + c.peers["n2"]}, true); !errors.Is(err, ErrPeerAddrExists) {
		t.Errorf("add at an address that is taken: %v", err)
	}
	if err := n.UpdateMember(ctx, idOf(t, n, "n3"), []string{"http://" + c.peers["n2"]}); !errors.Is(err, ErrPeerAddrExists) {
		t.Errorf("move to an address that is taken: %v", err)
	}
	c.healthy()
	m, err := n.AddMember(ctx, []string{"http://" + freeAddr(t)}, true)
	if err != nil {
		t.Fatal(err)
	}
	if is, known := learner(n, m.ID); !known || !is || m.ID == 0 {
		await(t, "the addition is applied here", func() bool { _, known := learner(n, m.ID); return known })
	}
	if _, err := n.AddMember(ctx, []string{"http://" + freeAddr(t)}, true); !errors.Is(err, ErrTooManyLearners) {
		t.Errorf("a second learner: %v", err)
	}
	if err := n.PromoteMember(ctx, m.ID); !errors.Is(err, ErrLearnerNotReady) {
		t.Errorf("promote a learner that never started: %v", err)
	}
	if err := n.RemoveMember(ctx, m.ID); err != nil {
		t.Errorf("remove the learner: %v", err)
	}
	if err := n.RemoveMember(ctx, m.ID); !errors.Is(err, ErrMemberNotFound) {
		t.Errorf("remove it again: %v", err)
	}

	// With one of three down, nothing is added and no live member removed; the one that is down may go.
	down, dn := c.follower()
	downID := dn.id
	c.stop(down)
	_, n = c.leader()
	await(t, "the leader misses it", func() bool { return n.net.ConnectedFor(downID) == 0 })
	// The refusal names the member that is down and what to do, on the leader and through another member.
	names := func(err error) bool {
		return errors.Is(err, ErrUnhealthy) && strings.Contains(err.Error(), fmt.Sprintf("%s (%x) at %s is not connected", down, downID, c.peers[down])) &&
			strings.Contains(err.Error(), fmt.Sprintf("start it, or remove it (holdfast member remove %x)", downID))
	}
	_, f := c.follower()
	for _, through := range []*Node{n, f} {
		if _, err := through.AddMember(ctx, []string{"http://" + freeAddr(t)}, true); !names(err) {
			t.Errorf("add with one down: %v", err)
		}
	}
	if err := n.RemoveMember(ctx, f.id); !names(err) {
		t.Errorf("remove a live member with another down: %v", err)
	}
	if err := n.RemoveMember(ctx, downID); err != nil {
		t.Errorf("remove the one that is down: %v", err)
	}
	mustPropose(t, n, "k", "of two")
}

// Two changes at a time go one after another; one that the machine rejects is an answer to its caller and has no other effect.
func TestMembershipChangesOneByOne(t *testing.T) {
	m := newManual(t, 3)
	leader := m.nodes[0]
	type answer struct {
		done bool
		err  error
	}
	answers := make(chan answer, 2)
	for range 2 { // both see a cluster without the address; the log decides
		go func() {
			_, err := leader.AddMember(context.Background(), []string{"http://10.0.0.9:2380"}, true)
			answers <- answer{true, err}
		}()
	}
	var got []answer
	m.until("both answered", func() bool {
		time.Sleep(time.Millisecond) // the callers have goroutines of their own
		select {
		case a := <-answers:
			got = append(got, a)
		default:
		}
		return len(got) == 2
	})
	if (got[0].err == nil) == (got[1].err == nil) {
		t.Fatalf("%v and %v: one must be added and the other refused", got[0].err, got[1].err)
	}
	for _, a := range got {
		if a.err != nil && !errors.Is(a.err, ErrPeerAddrExists) && !errors.Is(a.err, ErrTooManyLearners) {
			t.Errorf("refused with %v", a.err)
		}
	}
	m.writeOn(m.nodes[1], 3)
	for _, n := range m.nodes {
		m.until("the same members everywhere", func() bool { return len(n.Members()) == 4 && len(n.rep.Conf().Learners) == 1 })
	}
}

// --join without a prior `member add`: a learner, then by itself a voter.
func TestJoin(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1")
	mustPropose(t, c.nodes["n1"], "k", "v")
	n2, err := c.join("n2", "n1")
	if err != nil {
		t.Fatal(err)
	}
	awaitReady(t, n2)
	await(t, "promoted", func() bool { is, known := learner(c.nodes["n1"], n2.id); return known && !is })
	if err := n2.Linearize(within(t)); err != nil {
		t.Fatal(err)
	}
	if v, _ := read(t, n2, "k"); v != "v" {
		t.Fatalf("k = %q", v)
	}
	// It votes: alone the first is no majority any more, together they are.
	mustPropose(t, n2, "k", "w")
	c.stop("n2")
	short, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := c.nodes["n1"].Propose(short, LaneKV, putPart("k", "x")); err == nil {
		t.Fatal("one of two acknowledged a write")
	}
	c.restart("n2")
	mustPropose(t, c.nodes["n1"], "k", "y")
}

// `member add` first, then start: as a learner that a person promotes, and as a voter.
func TestJoinAfterMemberAdd(t *testing.T) {
	t.Parallel()
	for _, asLearner := range []bool{true, false} {
		t.Run(map[bool]string{true: "learner", false: "voter"}[asLearner], func(t *testing.T) {
			c := newCluster(t, "n1")
			n1 := c.nodes["n1"]
			mustPropose(t, n1, "k", "v")
			c.peers["n2"], c.dirs["n2"] = freeAddr(t), t.TempDir()
			m, err := n1.AddMember(within(t), []string{"http://" + c.peers["n2"]}, asLearner)
			if err != nil {
				t.Fatal(err)
			}
			n2, err := c.join("n2", "n1")
			if err != nil {
				t.Fatal(err)
			}
			if n2.id != m.ID {
				t.Fatalf("it came as %x, added was %x", n2.id, m.ID)
			}
			awaitReady(t, n2)
			mustPropose(t, n2, "k", "w")
			if asLearner {
				if is, known := learner(n1, m.ID); !is || !known {
					t.Fatal("a learner that was added by a person was promoted by nobody's word")
				}
				await(t, "promoted", func() bool { return n1.PromoteMember(within(t), m.ID) == nil })
			}
			await(t, "a voter, with its name", func() bool {
				return slices.ContainsFunc(n1.Members(), func(m Member) bool { return m.Name == "n2" && m.ID == n2.id && !m.Learner })
			})
			mustPropose(t, n1, "k", "x")
		})
	}
}

// A member that lost its disk is refused under its old id, by every way back but removal.
func TestWipedMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	mustPropose(t, c.nodes["n1"], "k", "v")
	wiped, wn := c.follower()
	oldID := wn.id
	c.stop(wiped)
	if err := os.RemoveAll(c.dirs[wiped]); err != nil {
		t.Fatal(err)
	}
	other, on := c.leader()
	_, err := c.start(wiped, StartOptions{Peers: c.peers})
	if err == nil || !strings.Contains(err.Error(), "member remove") || !strings.Contains(err.Error(), "--join") {
		t.Fatalf("with --peers: %v", err)
	}
	if _, err = c.join(wiped, other); err == nil || !strings.Contains(err.Error(), "member remove") {
		t.Fatalf("with --join: %v", err)
	}
	if err := on.RemoveMember(within(t), oldID); err != nil {
		t.Fatal(err)
	}
	c.healthy()
	n, err := c.join(wiped, other)
	if err != nil {
		t.Fatal(err)
	}
	awaitReady(t, n)
	if n.id == oldID {
		t.Fatal("it came back under its old id")
	}
	await(t, "promoted", func() bool { is, known := learner(on, n.id); return known && !is })
	if v, _ := read(t, n, "k"); v != "v" {
		t.Fatalf("k = %q", v)
	}
}

// A removed member stops with a sentence and does not come back.
func TestRemovedMemberStops(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	c.healthy()
	name, gone := c.follower()
	_, leader := c.leader()
	if err := leader.RemoveMember(within(t), gone.id); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone.StoppedC():
		if err := gone.Failure(); err == nil || !strings.Contains(err.Error(), "removed from the cluster") {
			t.Errorf("it stopped with %v", err)
		}
	case <-time.After(wait.Limit(t)):
		t.Error("it goes on")
	}
	c.stop(name)
	mustPropose(t, leader, "k", "of two")
	if n, err := c.start(name, StartOptions{}); err == nil { // it was told by a refusal, not by its log
		expelled(t, n)
	} else if !strings.Contains(err.Error(), "removed from the cluster") {
		t.Errorf("it starts again: %v", err)
	}
}

// expelled waits until a member that does not know of its removal hears of it.
func expelled(t *testing.T, n *Node) {
	t.Helper()
	select {
	case <-n.StoppedC():
		if err := n.Failure(); err == nil || !strings.Contains(err.Error(), "removed from the cluster") {
			t.Errorf("it stopped with %v", err)
		}
	case <-time.After(wait.Limit(t)):
		t.Errorf("a removed member goes on, ready: %t", n.Status().Ready)
	}
}

// A member that was removed while it was away hears of it when it comes back, also from those that have started again since.
func TestAMemberThatWasRemovedWhileAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	c.healthy()
	name, gone := c.follower()
	c.stop(name)
	_, leader := c.leader()
	if err := leader.RemoveMember(within(t), gone.id); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		for other := range maps.Clone(c.nodes) {
			if again {
				c.stop(other)
				c.restart(other)
			}
		}
		n, err := c.start(name, StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		expelled(t, n)
		n.Stop()
	}
}

// A member that follows a leader believes its log, not a third one. That one may have been made a cluster of its own from one member's
// data.
func TestAFollowerIsNotExpelledByAThird(t *testing.T) {
	m := newManual(t, 3)
	lead := m.leader()
	one, other := m.node(lead.id%3+1), m.node((lead.id+1)%3+1)
	one.Expelled(other.id)
	lead.Expelled(other.id)
	m.writeOn(lead, 3)
	m.same()
	died := map[uint64]string{}
	m.died = func(n *Node, err error) { died[n.id] = err.Error() }
	one.Expelled(lead.id)
	m.until("it believes its leader", func() bool { return strings.Contains(died[one.id], "removed from the cluster") })
	if len(died) != 1 {
		t.Errorf("%v", died)
	}
}

// Members that were told different things do not become a cluster.
func TestBootstrapRefusals(t *testing.T) {
	t.Parallel()
	a, b := freeAddr(t), freeAddr(t)
	dir := t.TempDir()
	patience := 3 * time.Second // a refused one may hear of no other any more
	start := func(dir, name, addr string, peers map[string]string) chan error {
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			n, err := Start(ctx, house(Config{Dir: dir, MemoryBytes: 64 << 20}), StartOptions{Name: name, PeerAddr: addr, Peers: peers})
			if err == nil {
				t.Cleanup(n.Stop) // not at once: the other may still have to ask this one
			}
			done <- err
		}()
		return done
	}
	if err := <-start(t.TempDir(), "n9", a, map[string]string{"n1": a, "n2": b}); err == nil || !strings.Contains(err.Error(), "does not name this member") {
		t.Errorf("not in its own list: %v", err)
	}
	one := start(dir, "n1", a, map[string]string{"n1": a, "n2": b})
	two := start(t.TempDir(), "n2", b, map[string]string{"n1": a, "n2": b, "n3": freeAddr(t)})
	for _, err := range []error{<-one, <-two} {
		if err == nil || !strings.Contains(err.Error(), "another --peers list") && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("different lists: %v", err)
		}
	}
	one = start(dir, "n1", a, map[string]string{"n1": a, "n2": b})
	two = start(t.TempDir(), "other", b, map[string]string{"n1": a, "other": b})
	for _, err := range []error{<-one, <-two} {
		if err == nil || !strings.Contains(err.Error(), "calls itself") && !strings.Contains(err.Error(), "another --peers list") &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another name: %v", err)
		}
	}
	// The same directory, told the truth, still becomes a member.
	peers := map[string]string{"n1": a, "n2": b}
	patience = wait.Limit(t)
	one, two = start(dir, "n1", a, peers), start(t.TempDir(), "n2", b, peers)
	for _, err := range []error{<-one, <-two} {
		if err != nil {
			t.Errorf("the same list: %v", err)
		}
	}
}

// Two removals that were both allowed when they were asked for would together leave no member: the log lets only one through.
func TestLastVoterStays(t *testing.T) {
	m := newManual(t, 2)
	leader := m.nodes[0]
	errs := make(chan error, 2)
	for _, id := range []uint64{2, 1} { // past the checks of RemoveMember
		go func() {
			errs <- leader.propChange(context.Background(), raft.Remove, id, &emember.Part{Remove: &emember.Remove{ID: id}})
		}()
		time.Sleep(10 * time.Millisecond)
	}
	m.died = func(n *Node, err error) {
		if !strings.Contains(err.Error(), "was removed from the cluster") {
			t.Fatalf("member %x: %v", n.id, err)
		}
		m.crash(n.id)
	}
	var got []error
	m.until("both answered", func() bool {
		time.Sleep(time.Millisecond) // the callers have goroutines of their own
		select {
		case err := <-errs:
			got = append(got, err)
		default:
		}
		return len(got) == 2 || len(m.nodes) == 0
	})
	if len(m.nodes) == 0 {
		t.Fatal("nobody is left")
	}
	m.until("one voter, one member", func() bool {
		n := m.nodes[0]
		return len(m.nodes) == 1 && len(n.rep.Conf().Voters) == 1 && len(n.Members()) == 1 && n.pub.Load().leads != 0
	})
	m.writeOn(m.nodes[0], 3)
}

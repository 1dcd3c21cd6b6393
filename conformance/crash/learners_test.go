package crash

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestLearnersComeAndGo kills members while learners join, are promoted, removed and wiped all the time, and checks that no read is stale.
// A read with quorum must not miss a write that any member, also a learner, acknowledged before the read began. Every acknowledged write is
// there at the end.
func TestLearnersComeAndGo(t *testing.T) {
	processTest(t, false)
	beside(t)
	three := start(t, 3) // another member may come once these have been connected for a while: they are after the first part
	t.Run("one", func(t *testing.T) {
		comeAndGo(t, start(t, 1), count("LEARNER_KILLS_ONE", 2, 100), "removed", "promoted")
	})
	t.Run("three", func(t *testing.T) {
		comeAndGo(t, three, count("LEARNER_KILLS_THREE", 1, 100), "promoted")
	})
}

// comeAndGo lets learners come until there were enough kills and reads. Their fates are taken in turn: the given ones, or in
// the long run all there are.
func comeAndGo(t *testing.T, c *proctest.Cluster, kills int, turns ...string) {
	if long {
		turns = []string{"removed", "promoted and retired", "wiped"}
	}
	reads := count("LEARNER_READS", 500, 60_000)
	r := rng(t)
	voters := len(c.Nodes)
	f := &flock{r: r, c: c, base: voters, places: map[*proctest.Node]*place{}}
	defer f.close()
	for _, n := range c.Nodes {
		f.voters = append(f.voters, f.open(t, n))
	}
	f.load = startRegisters(20, f.voters)
	defer f.load.stop()
	for round := 0; round < len(turns) || f.kills < kills || f.load.reads.Load() < int64(reads); round++ {
		f.join(t)
		time.Sleep(time.Second) // with all members alive, when the learner is most likely to be ahead of the voter
		for range count("LEARNER_STRIKES", 1, 3) {
			f.strike(t)
		}
		switch turn := turns[round%len(turns)]; turn {
		case "removed", "wiped":
			f.dismiss(t, f.learner, turn == "wiped")
		default:
			f.promote(t)
			f.strike(t)
			if turn != "promoted" || len(f.voters) > voters+1 {
				f.retire(t)
			}
		}
	}
	f.load.stop()
	hashes(t, c) // the members left are voters
	missing := 0
	for _, n := range c.Nodes {
		missing += f.load.verify(t, n)
	}
	f.load.report(t)
	summary(t, "learners come and go: %d kills (%d of a learner, %d in the middle of a change), %d pauses, %d voters and one more, "+
		"%d joined, %d promoted, %d removed, %d wiped; %s quorum reads, %d stale, %s writes acknowledged, %d missing", f.kills, f.learnerKills,
		f.during, f.pauses, voters, f.joined, f.promoted, f.removed, f.wiped, grouped(int(f.load.reads.Load())), f.load.stale.Load(),
		grouped(int(f.load.acked.Load())), missing)
}

// flock is members that come and go under a load. It belongs to the test's goroutine.
type flock struct {
	r       *rand.Rand
	c       *proctest.Cluster
	load    *registers
	base    int // voters that are always there
	voters  []*place
	learner *place // nil while there is none
	places  map[*proctest.Node]*place

	kills, learnerKills, during, pauses, joined, promoted, removed, wiped int
}

func (f *flock) open(t *testing.T, n *proctest.Node) *place {
	t.Helper()
	p, err := openPlace(n)
	if err != nil {
		t.Fatal(err)
	}
	f.places[n] = p
	return p
}

func (f *flock) close() {
	for _, p := range f.places {
		p.close()
	}
}

// until repeats a membership call through any voter until the member list shows what it is for. In one of three calls a member
// is killed in the middle, so its answer proves nothing; the list is read with quorum.
func (f *flock) until(t *testing.T, what string, done func([]*pb.Member) bool, call func(context.Context, pb.ClusterClient) error) {
	t.Helper()
	dies := f.r.IntN(3) == 0
	var last error
	for end := time.Now().Add(wait.Limit(t)); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		at := pb.NewClusterClient(f.voters[f.r.IntN(len(f.voters))].cc)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		res, err := at.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
		if err != nil {
			last = err
			cancel()
			continue
		}
		if done(res.Members) {
			cancel()
			return
		}
		answered := make(chan error, 1)
		go func() { answered <- call(ctx, at) }()
		if dies {
			dies = false
			time.Sleep(between(f.r, 0, 20*time.Millisecond))
			f.during++
			f.strike(t)
		}
		last = <-answered
		cancel()
	}
	t.Fatalf("%s: not done after a minute: %v", what, last)
}

// memberOf finds a node in the list by its peer address: it may have no name yet.
func memberOf(n *proctest.Node, all []*pb.Member) *pb.Member {
	for _, m := range all {
		if slices.Contains(m.PeerURLs, "http://"+n.Peer) {
			return m
		}
	}
	return nil
}

// join adds a learner, starts it, and waits until the others know its name.
func (f *flock) join(t *testing.T) {
	t.Helper()
	n, err := f.c.Add("--join", f.voters[f.r.IntN(len(f.voters))].node.Peer)
	if err != nil {
		t.Fatal(err)
	}
	f.until(t, "add a learner", func(all []*pb.Member) bool { return memberOf(n, all) != nil },
		func(ctx context.Context, at pb.ClusterClient) error {
			_, err := at.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"http://" + n.Peer}, IsLearner: true})
			return err
		})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	f.learner = f.open(t, n)
	f.load.move(f.learner, false, true)
	f.until(t, "a learner says its name", func(all []*pb.Member) bool { m := memberOf(n, all); return m != nil && m.Name == n.Name },
		func(context.Context, pb.ClusterClient) error { return nil })
	f.joined++
}

// promote makes the learner a voter.
func (f *flock) promote(t *testing.T) {
	t.Helper()
	p := f.learner
	f.until(t, "promote", func(all []*pb.Member) bool { m := memberOf(p.node, all); return m != nil && !m.IsLearner },
		func(ctx context.Context, at pb.ClusterClient) error {
			res, err := at.MemberList(ctx, &pb.MemberListRequest{})
			if err != nil {
				return err
			}
			if m := memberOf(p.node, res.Members); m != nil {
				_, err = at.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: m.ID})
			}
			return err
		})
	f.voters, f.learner = append(f.voters, p), nil
	f.load.move(p, true, true)
	f.promoted++
}

// retire removes one of the voters, the leader or the one that came last included; with a majority to spare its disk may be lost.
func (f *flock) retire(t *testing.T) {
	t.Helper()
	f.dismiss(t, f.voters[f.r.IntN(len(f.voters))], f.base > 1 && f.r.IntN(2) == 0)
}

// dismiss removes a member for good. It has lost its disk before, or it runs on for a moment as one that was removed.
func (f *flock) dismiss(t *testing.T, p *place, loses bool) {
	t.Helper()
	if loses {
		f.kill(t, p)
		wipe(t, p.node)
		f.wiped++
	}
	f.voters = slices.DeleteFunc(f.voters, func(o *place) bool { return o == p })
	if f.learner == p {
		f.learner = nil
	}
	f.load.move(p, false, true)
	f.until(t, "remove", func(all []*pb.Member) bool { return memberOf(p.node, all) == nil },
		func(ctx context.Context, at pb.ClusterClient) error {
			res, err := at.MemberList(ctx, &pb.MemberListRequest{})
			if err != nil {
				return err
			}
			if m := memberOf(p.node, res.Members); m != nil {
				_, err = at.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: m.ID})
			}
			return err
		})
	f.removed++
	time.Sleep(between(f.r, 0, 300*time.Millisecond))
	f.load.move(p, false, false)
	if err := f.c.Drop(p.node); err != nil {
		t.Fatal(err)
	}
}

func (f *flock) kill(t *testing.T, p *place) {
	t.Helper()
	kill(t, p.node)
	f.kills++
	if p == f.learner {
		f.learnerKills++
	}
}

// strike kills a voter, the learner, or all members, and starts them again. With three voters it also pauses the leader until another one
// leads, and then resumes it. It waits until writes are acknowledged again.
func (f *flock) strike(t *testing.T) {
	t.Helper()
	time.Sleep(between(f.r, 200*time.Millisecond, 700*time.Millisecond))
	victims := []*place{f.voters[f.r.IntN(len(f.voters))]}
	switch n := f.r.IntN(10); {
	case n == 0:
		victims = slices.Clone(f.voters)
		if f.learner != nil {
			victims = append(victims, f.learner)
		}
	case n < 4 && f.learner != nil:
		victims = []*place{f.learner}
	case n == 4 && f.base > 1:
		f.pause(t)
		return
	}
	for _, v := range victims {
		f.kill(t, v)
	}
	before := f.load.acked.Load()
	time.Sleep(between(f.r, 1, 300*time.Millisecond))
	for _, v := range victims {
		if err := v.node.Start(); err != nil {
			t.Fatal(err)
		}
	}
	f.goesOn(t, before)
}

func (f *flock) pause(t *testing.T) {
	t.Helper()
	leader, err := f.c.WaitLeader(wait.Limit(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Pause(); err != nil {
		t.Fatal(err)
	}
	before := f.load.acked.Load()
	eventually(t, func() bool { // the others know another leader
		now, err := f.c.Leader(t.Context())
		return err == nil && now != leader
	})
	if err := leader.Resume(); err != nil {
		t.Fatal(err)
	}
	f.pauses++
	f.goesOn(t, before)
}

// goesOn waits for the voters to be ready and for writes to be acknowledged.
func (f *flock) goesOn(t *testing.T, before int64) {
	t.Helper()
	for _, v := range f.voters {
		if err := f.c.WaitNode(v.node, wait.Limit(t)); err != nil {
			t.Fatal(err)
		}
	}
	if !eventually(t, func() bool { return f.load.acked.Load() > before+10 }) {
		t.Fatalf("no write was acknowledged in 20 s after kill %d, though all voters are ready", f.kills)
	}
}

package crash

import (
	"math/rand/v2"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

const keptTTL = 15 * time.Second

// TestKill9 kills members under load at random moments. Acknowledged writes are there afterwards under their revisions, on every member;
// revisions only grow; watches miss and repeat nothing; kept leases live.
func TestKill9(t *testing.T) {
	processTest(t, true)
	beside(t)
	t.Run("one", func(t *testing.T) { kill9(t, 1, count("KILLS_ONE", 5, 90)) })
	t.Run("three", func(t *testing.T) { kill9(t, 3, count("KILLS_THREE", 6, 130)) })
}

func kill9(t *testing.T, nodes, kills int) {
	r := rng(t)
	c := start(t, nodes)
	var clients []*clientv3.Client
	for range 4 {
		clients = append(clients, dialEager(t, c.Endpoints()...))
	}
	leases := keepLeases(t, dialEager(t, c.Endpoints()...), 20, keptTTL)
	resumed, reopened := follow(dialEager(t, c.Endpoints()...)), follow(dialEager(t, c.Endpoints()...))
	l := startLoad(clients, 16)

	k := &killer{r: r, c: c}
	for k.kills < kills {
		time.Sleep(between(r, 100*time.Millisecond, 800*time.Millisecond))
		victims := k.strike(t)
		before := l.acked.Load()
		reopened.reopen()
		k.revive(t, victims)
		if r.IntN(4) == 0 { // once more while it recovers
			time.Sleep(between(r, 1, 150*time.Millisecond))
			k.kill(t, victims[0])
			if err := victims[0].Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		if !eventually(t, func() bool { return l.acked.Load() > before+10 }) {
			t.Fatalf("no write was acknowledged in 20 s after kill %d, though all members are ready", k.kills)
		}
	}
	l.stop()

	cli := dial(t, c.Endpoints()...)
	held := stored(t, cli)
	missing := l.verify(t, held)
	for _, node := range c.Nodes { // every member by itself
		missing += l.verify(t, stored(t, dial(t, node.KV)))
	}
	events := resumed.finish(t, "resumed", held) + reopened.finish(t, "reopened", held)
	dead := leases.finish(t, cli)
	if nodes > 1 {
		hashes(t, c)
	}
	l.report(t)
	summary(t, "kill9: %d kills (%d of the leader), %d nodes, %s writes acknowledged, %d missing, %d revisions back, "+
		"watch faults %d over %d reopenings, %d of %d kept leases dead", k.kills, k.leaders, nodes, grouped(int(l.acked.Load())), missing,
		len(l.wrong), events, reopened.reopens-1, dead, len(leases.ids))
}

// killer kills members at random and starts them again. It belongs to the test's goroutine.
type killer struct {
	r *rand.Rand
	c *proctest.Cluster

	kills   int
	leaders int // of them, those that led when strike came
}

// strike kills one member or several, without warning.
func (k *killer) strike(t *testing.T) (victims []*proctest.Node) {
	t.Helper()
	victims = k.choose(t)
	for _, v := range victims {
		if st, err := v.Status(t.Context()); err == nil && st.Leader == st.Header.MemberId {
			k.leaders++
		}
	}
	for _, v := range victims {
		k.kill(t, v)
	}
	return victims
}

// revive starts the members again after a moment in which others may have taken over, or may not.
func (k *killer) revive(t *testing.T, victims []*proctest.Node) {
	t.Helper()
	time.Sleep(between(k.r, 1, 300*time.Millisecond))
	for _, v := range victims {
		if err := v.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

func (k *killer) kill(t *testing.T, n *proctest.Node) {
	t.Helper()
	kill(t, n)
	k.kills++
}

// choose picks who dies: mostly the leader or a follower, now and then all at once.
func (k *killer) choose(t *testing.T) []*proctest.Node {
	t.Helper()
	if len(k.c.Nodes) == 1 {
		return k.c.Nodes
	}
	leader, err := k.c.WaitLeader(wait.Limit(t))
	if err != nil {
		t.Fatal(err)
	}
	switch n := k.r.IntN(10); {
	case n == 0:
		return k.c.Nodes
	case n == 1: // no majority left
		return []*proctest.Node{leader, other(k.r, k.c, leader)}
	case n < 6:
		return []*proctest.Node{leader}
	}
	return []*proctest.Node{other(k.r, k.c, leader)}
}

// other is a random member that is not the given one.
func other(r *rand.Rand, c *proctest.Cluster, not *proctest.Node) *proctest.Node {
	for {
		if n := c.Nodes[r.IntN(len(c.Nodes))]; n != not {
			return n
		}
	}
}

func kill(t *testing.T, n *proctest.Node) {
	t.Helper()
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
}

package crash

import (
	"math/rand/v2"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const keptTTL = 15 * time.Second

// TestKill9 kills members under load at random moments. What was acknowledged is there afterwards under its revision,
// on every member; revisions only grow; watches miss and repeat nothing; kept leases live.
func TestKill9(t *testing.T) {
	processTest(t, true)
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

	done, leaders := 0, 0
	for done < kills {
		time.Sleep(between(r, 100*time.Millisecond, 800*time.Millisecond))
		victims := choose(t, r, c)
		for _, v := range victims {
			if st, err := v.Status(t.Context()); err == nil && st.Leader == st.Header.MemberId {
				leaders++
			}
		}
		before := l.acked.Load()
		for _, v := range victims {
			kill(t, v)
			done++
		}
		reopened.reopen()
		time.Sleep(between(r, 1, 300*time.Millisecond))
		for _, v := range victims {
			if err := v.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(4) == 0 { // once more while it recovers
			time.Sleep(between(r, 1, 150*time.Millisecond))
			kill(t, victims[0])
			done++
			if err := victims[0].Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		if !eventually(20*time.Second, func() bool { return l.acked.Load() > before+10 }) {
			t.Fatalf("no write was acknowledged in 20 s after kill %d, though all members are ready", done)
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
		"watch faults %d over %d reopenings, %d of %d kept leases dead", done, leaders, nodes, grouped(int(l.acked.Load())), missing,
		len(l.wrong), events, reopened.reopens-1, dead, len(leases.ids))
}

// choose picks who dies: mostly the leader or a follower, now and then all at once.
func choose(t *testing.T, r *rand.Rand, c *proctest.Cluster) []*proctest.Node {
	t.Helper()
	if len(c.Nodes) == 1 {
		return c.Nodes
	}
	leader, err := c.WaitLeader(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	switch k := r.IntN(10); {
	case k == 0:
		return c.Nodes
	case k == 1: // no majority left
		return []*proctest.Node{leader, other(r, c, leader)}
	case k < 6:
		return []*proctest.Node{leader}
	}
	return []*proctest.Node{other(r, c, leader)}
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

package crash

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestBootstrapCrash kills members while three begin a cluster, each round at other moments. Afterwards the cluster works, or
// the members that cannot go on have ended with one clear line: none hangs, and there are never two clusters.
func TestBootstrapCrash(t *testing.T) {
	processTest(t, true)
	beside(t)
	rounds := count("BOOTSTRAPS", 3, 100)
	kills, refused, working := 0, 0, 0
	var slowest time.Duration
	for round := range rounds {
		if t.Failed() {
			break
		}
		// A subtest per round, so that its servers are gone before the next.
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := rng(t)
			c := describe(t, 3)
			for _, n := range c.Nodes {
				if err := n.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(between(r, 1, 100*time.Millisecond))
			}
			for range 1 + r.IntN(3) {
				time.Sleep(between(r, 1, 150*time.Millisecond))
				victim := c.Nodes[r.IntN(3)]
				kill(t, victim)
				kills++
				if r.IntN(2) == 0 {
					time.Sleep(between(r, 1, 400*time.Millisecond))
				}
				if err := victim.Start(); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			var stopped []string
			for _, n := range c.Nodes {
				if err := c.WaitNode(n, wait.Limit(t)); err != nil {
					if n.Running() {
						t.Fatalf("%s neither serves nor refuses after 30 s: %v", n.Name, err)
					}
					wantRefusal(t, n)
					stopped = append(stopped, n.Name)
					t.Logf("%s refused: %s", n.Name, n.LogTail(1))
				}
			}
			slowest = max(slowest, time.Since(began))
			if len(stopped) > 0 {
				refused++
				return
			}
			ids := map[uint64]bool{}
			for i, n := range c.Nodes {
				cli := dial(t, n.KV)
				if _, err := cli.Put(wait.Context(t), "from/"+n.Name, "v"); err != nil {
					t.Fatalf("put through %s: %v", n.Name, err)
				}
				res, err := cli.Get(wait.Context(t), "from/", clientv3.WithPrefix())
				if err != nil || len(res.Kvs) != i+1 {
					t.Fatalf("%s sees %d of %d keys: %v", n.Name, len(res.Kvs), i+1, err)
				}
				ids[res.Header.ClusterId] = true
			}
			if len(ids) != 1 {
				t.Fatalf("%d clusters came out of one bootstrap", len(ids))
			}
			working++
		})
	}
	summary(t, "bootstrap: %d rounds, %d kills in the middle, %d working clusters, %d refusals, slowest %s after the last start",
		rounds, kills, working, refused, tenth(slowest))
}

// TestNewClusterServesSoon: three members that begin a cluster serve without waiting for an election timeout, which is a second
// at least.
func TestNewClusterServesSoon(t *testing.T) {
	processTest(t, true)
	starts := count("NEW_CLUSTERS", 2, 20)
	var took []time.Duration
	for range starts {
		c := describe(t, 3)
		began := time.Now()
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
		c.Close()
	}
	if m := quantile(took, 0.5); m > barOf(time.Second) {
		t.Errorf("median %s, want at most a second", tenth(m))
	}
	summary(t, "new cluster: three members started %d times, all ready after %s (median), %s (slowest)", starts, tenth(quantile(took, 0.5)), tenth(quantile(took, 1)))
}

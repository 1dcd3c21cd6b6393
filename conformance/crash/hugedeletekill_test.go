package crash

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestHugeDeletesOverKills deletes very many keys by one command while a member, the leader as often as not, dies by kill -9. Every member then has all of them or
// none, and after a restart, which applies the delete again, all members have the same state. Keys beside them stay.
func TestHugeDeletesOverKills(t *testing.T) {
	processTest(t, false)
	beside(t)
	const keys = 10_000
	rounds := count("DELETE_ROUNDS", 3, 30)
	r := rng(t)
	c := start(t, 3)
	for _, node := range c.Nodes {
		if !eventually(t, func() bool { return levelOf(t, node) == newest }) {
			t.Fatalf("%s stays at level %d", node.Name, levelOf(t, node))
		}
	}
	cli := dialEager(t, c.Endpoints()...)
	l := startLoad([]*clientv3.Client{cli}, 4)
	whole, none := 0, 0
	for range rounds {
		loadKeys(t, cli, keys)
		died := make(chan struct{})
		victim := c.Nodes[r.IntN(len(c.Nodes))]
		go func() {
			defer close(died)
			time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
			_ = victim.Kill()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		res, err := cli.Delete(ctx, "0", clientv3.WithRange(":"))
		cancel()
		<-died
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		if err == nil && res.Deleted != keys && res.Deleted != 0 { // 0: a retry of the client's after one that went through
			t.Fatalf("%d keys deleted of %d", res.Deleted, keys)
		}
		for _, node := range c.Nodes {
			var left int64
			if err := untilAnswered(t, func(ctx context.Context) error {
				res, err := dial(t, node.KV).Get(ctx, "0", clientv3.WithRange(":"), clientv3.WithCountOnly())
				if err == nil {
					left = res.Count
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			switch {
			case left == 0:
				none++
			case left == keys && err != nil:
				whole++
			default:
				t.Fatalf("%d keys of %d are left on %s after an answer of %v", left, keys, node.Name, err)
			}
		}
	}
	l.stop()
	missing := l.verify(t, stored(t, cli))
	hashes(t, c)
	l.report(t)
	summary(t, "huge deletes over kills: %d commands that delete %s keys each, a member killed meanwhile; %d members without a key afterwards, %d with all, none with some; "+
		"%s writes beside them acknowledged, %d missing", rounds, grouped(keys), none, whole, grouped(int(l.acked.Load())), missing)
}

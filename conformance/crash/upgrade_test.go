package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// earlierBuilds are those that members of this one must be able to run beside, and go back to while the level is down.
var earlierBuilds = []earlierBuild{{"81b170c", 0}, {"a9412a0", 0}, {"80fb489", 2}, {"6b6ab5c", 4}, {"ee25253", 5}, {"165c005", 7}}

// earlierBuild is a commit, and the level that it knows.
type earlierBuild struct {
	commit string
	level  int
}

// TestRollingUpgrade takes a cluster under load from an earlier build to this one, member by member, and back. It does so again and again,
// by SIGTERM and by kill -9. Then the level goes up, and the earlier build is refused. Nothing acknowledged is missing at any time, no
// member stops by itself, and all come to the same state.
func TestRollingUpgrade(t *testing.T) {
	processTest(t, false)
	if !long {
		t.Skip("builds earlier commits, which takes minutes: only with CRASH=long")
	}
	for _, b := range earlierBuilds {
		t.Run(b.commit, func(t *testing.T) { rollingUpgrade(t, b.commit, b.level) })
	}
}

func rollingUpgrade(t *testing.T, commit string, known int) {
	rounds := count("UPGRADE_ROUNDS", 1, 20)
	earlier, err := proctest.Earlier(commit)
	if err != nil {
		t.Fatal(err)
	}
	r := rng(t)
	c := describe(t, 3)
	ours := c.Nodes[0].Bin()
	for _, node := range c.Nodes {
		c.Become(node, earlier)
	}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	for _, node := range c.Nodes {
		if !eventually(t, func() bool { return levelOf(t, node) == known }) {
			t.Fatalf("%s of %s stays at level %d", node.Name, commit, levelOf(t, node))
		}
	}
	var clients []*clientv3.Client
	for range 4 {
		clients = append(clients, dialEager(t, c.Endpoints()...))
	}
	leases := keepLeases(t, dialEager(t, c.Endpoints()...), 20, keptTTL)
	watch := follow(dialEager(t, c.Endpoints()...))
	l := startLoad(clients, 16)
	changes, kills := 0, 0
	change := func(node *proctest.Node, bin string, flags ...string) {
		t.Helper()
		for _, n := range c.Nodes {
			if !n.Running() {
				t.Fatalf("%s stopped by itself: %v; last lines:\n%s", n.Name, n.ExitError(), n.LogTail(30))
			}
		}
		before := l.acked.Load()
		if r.IntN(3) == 0 {
			kill(t, node)
			kills++
		} else if err := node.Term(wait.Limit(t)); err != nil {
			t.Fatalf("%s does not end: %v", node.Name, err)
		}
		c.Become(node, bin, flags...)
		if err := c.Restart(node); err != nil {
			t.Fatal(err)
		}
		changes++
		if !eventually(t, func() bool { return l.acked.Load() > before+10 }) {
			t.Fatalf("no write was acknowledged in 20 s after %s became another build", node.Name)
		}
	}
	inAnyOrder := func() []*proctest.Node {
		all := append([]*proctest.Node(nil), c.Nodes...)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all
	}
	for range rounds {
		for _, node := range inAnyOrder() {
			change(node, ours, "--hold-level")
		}
		for _, node := range c.Nodes {
			if level := levelOf(t, node); level != known {
				t.Fatalf("%s is at level %d although it is held", node.Name, level)
			}
		}
		for _, node := range inAnyOrder() {
			change(node, earlier)
		}
	}
	// Up for good: two members know the level, and nothing happens; the third one is what it waits for.
	last := inAnyOrder()
	for _, node := range last[:2] {
		change(node, ours)
	}
	time.Sleep(8 * time.Second)
	for _, node := range last[:2] {
		if level := levelOf(t, node); level != known {
			t.Fatalf("%s is at level %d beside a member of %s", node.Name, level, commit)
		}
	}
	change(last[2], ours)
	for _, node := range c.Nodes {
		if !eventually(t, func() bool { return levelOf(t, node) == newest }) {
			t.Fatalf("%s stays at level %d", node.Name, levelOf(t, node))
		}
	}
	l.stop()
	cli := dial(t, c.Endpoints()...)
	held := stored(t, cli)
	missing := l.verify(t, held)
	for _, node := range c.Nodes {
		missing += l.verify(t, stored(t, dial(t, node.KV)))
	}
	events := watch.finish(t, "watch", held)
	dead := leases.finish(t, cli)
	hashes(t, c)
	l.report(t)
	summary(t, "upgrade from %s and back: %d rounds, %d members changed builds (%d by kill -9), %s writes acknowledged, %d missing, "+
		"%d revisions back, watch faults %d, %d of %d kept leases dead", commit, rounds, changes, kills, grouped(int(l.acked.Load())), missing,
		len(l.wrong), events, dead, len(leases.ids))

	// Now there is no way back: the earlier build ends at once and leaves the directory as it was.
	node := c.Nodes[0]
	if err := node.Term(wait.Limit(t)); err != nil {
		t.Fatal(err)
	}
	c.Become(node, earlier)
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-node.Exited():
	case <-time.After(wait.Limit(t)):
		t.Fatalf("%s runs on a directory of level %d", commit, newest)
	}
	refusal := fmt.Sprintf("the cluster is at level %d and this build knows levels up to %d", newest, known)
	if known == 0 { // before there were levels
		refusal = `unknown key "ml"`
	}
	if text := node.LogTail(5); !strings.Contains(text, refusal) {
		t.Errorf("%s ended with\n%s", commit, text)
	}
	c.Become(node, ours)
	if err := c.Restart(node); err != nil {
		t.Fatal(err)
	}
	hashes(t, c)
	// Nor may it join.
	stranger, err := c.Join()
	if err != nil {
		t.Fatal(err)
	}
	stranger.Process = proctest.NewProcess(stranger.LogFile(), earlier, "serve", "--data", stranger.Dir, "--name", stranger.Name, "--kv", stranger.KV,
		"--admin", stranger.Admin, "--peer", stranger.Peer, "--join", c.Nodes[0].Peer)
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stranger.Exited():
	case <-time.After(wait.Limit(t)):
		t.Fatalf("%s waits to join a cluster of level %d", commit, newest)
	}
	if text := stranger.LogTail(5); !strings.Contains(text, fmt.Sprintf("the cluster is at level %d", newest)) {
		t.Errorf("%s was refused with\n%s", commit, text)
	}
	if err := c.Drop(stranger); err != nil && !os.IsNotExist(err) {
		t.Log(err)
	}
}

// newest is the level that this build knows.
const newest = 10

// levelOf asks a member for the level of its cluster. A build before levels has none, which is 0.
func levelOf(t *testing.T, node *proctest.Node) int {
	t.Helper()
	res, err := http.Get("http://" + node.Admin + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var s struct {
		Level int `json:"level"`
	}
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s.Level
}

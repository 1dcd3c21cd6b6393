package crash

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestWipedMember loses the disk of one member. Under its old flags it must not come back as itself, for it has forgotten its votes.
// Removed and joined again it is another member with the same data.
func TestWipedMember(t *testing.T) {
	processTest(t, false)
	beside(t)
	rounds := count("WIPES", 1, 6)
	r := rng(t)
	c := start(t, 3)
	cli := dial(t, c.Endpoints()...)
	l := startLoad([]*clientv3.Client{cli, dial(t, c.Endpoints()...)}, 4)
	var slowest time.Duration
	joined := map[*proctest.Node]bool{}
	for range rounds {
		node := c.Nodes[r.IntN(3)]
		st, err := node.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		old := st.Header.MemberId
		kill(t, node)
		wipe(t, node)

		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
		if joined[node] { // it has been told --join already
			wantRefusal(t, node, "member remove")
		} else {
			wantRefusal(t, node, "member remove", "--join")
		}

		if _, err := cli.MemberRemove(wait.Context(t), old); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		bin, err := proctest.Binary()
		if err != nil {
			t.Fatal(err)
		}
		joined[node] = true
		wipe(t, node) // the refused start may have left its lock file
		node.Process = proctest.NewProcess(filepath.Join(c.Dir, node.Name+".log"), bin, "serve", "--data", node.Dir, "--name", node.Name,
			"--kv", node.KV, "--admin", node.Admin, "--peer", node.Peer, "--join", other(r, c, node).Peer)
		if err := c.Restart(node); err != nil {
			t.Fatal(err)
		}
		promoted := eventually(t, func() bool {
			res, err := cli.MemberList(within(t, 5*time.Second))
			if err != nil || len(res.Members) != 3 {
				return false
			}
			for _, m := range res.Members {
				if m.IsLearner || m.ID == old || m.Name == "" {
					return false
				}
			}
			return true
		})
		if !promoted {
			res, err := cli.MemberList(within(t, 5*time.Second))
			t.Fatalf("%s did not become a voter again in 30 s: %v %v", node.Name, res, err)
		}
		slowest = max(slowest, time.Since(began))
	}
	l.stop()
	hashes(t, c)
	missing := l.verify(t, stored(t, cli))
	summary(t, "wiped member: %d wiped, refused under the old id, joined again and promoted, slowest after %s, %s writes acknowledged meanwhile, %d missing",
		rounds, tenth(slowest), grouped(int(l.acked.Load())), missing)
}

func wipe(t *testing.T, node *proctest.Node) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(node.Dir), os.Mkdir(node.Dir, 0o700)); err != nil {
		t.Fatal(err)
	}
}

// wantRefusal waits until a started node has ended by itself with status 1 and one line that contains all the words.
func wantRefusal(t *testing.T, node *proctest.Node, words ...string) {
	t.Helper()
	select {
	case <-node.Exited():
	case <-time.After(wait.Limit(t)):
		t.Fatalf("%s runs on, though it should refuse to start; last lines:\n%s", node.Name, node.LogTail(10))
	}
	var exit *exec.ExitError
	if !errors.As(node.ExitError(), &exit) || exit.ExitCode() != 1 {
		t.Errorf("%s ended with %v, want status 1", node.Name, node.ExitError())
	}
	line := node.LogTail(1)
	for _, w := range append(words, "holdfast: ") {
		if !strings.Contains(line, w) {
			t.Errorf("%s ended without saying %q: %s", node.Name, w, line)
		}
	}
}

package crash

import (
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

// runbook returns the lines of a fenced block of docs/operations/backup.md.
func runbook(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "```sh "+name+"\n")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("docs/operations/backup.md has no block %q", name)
	}
	return strings.Split(strings.TrimSpace(block), "\n")
}

// TestTheOthersAreGone destroys two of three members, the second in the middle of writing, and runs the lines of the runbook on the
// third. It was part of every majority since the first was gone, so every acknowledged write must be there.
func TestTheOthersAreGone(t *testing.T) {
	processTest(t, false)
	beside(t)
	c := start(t, 3)
	cli := dial(t, c.Endpoints()...)
	l := startLoad([]*clientv3.Client{cli, dial(t, c.Endpoints()...)}, 16)
	defer l.cancel()
	more := func(n int64) {
		t.Helper()
		if from := l.acked.Load(); !eventually(t, func() bool { return l.acked.Load() >= from+n }) {
			t.Fatalf("no %d writes in a minute", n)
		}
	}
	more(200)
	leader, err := c.WaitLeader(wait.Limit(t))
	if err != nil {
		t.Fatal(err)
	}
	var others []*proctest.Node
	for _, node := range c.Nodes {
		if node != leader {
			others = append(others, node)
		}
	}
	kill(t, others[0])
	wipe(t, others[0])
	more(500)
	last := others[1]
	kill(t, leader) // the last one has entries that it will never know to be committed
	wipe(t, leader)
	if err := last.Term(wait.Limit(t)); err != nil {
		t.Fatal(err)
	}
	l.stop()

	bin, err := proctest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	if err := os.Symlink(bin, filepath.Join(work, "holdfast")); err != nil {
		t.Fatal(err)
	}
	// The variables that the lines take from the environment. This process's own is that of other tests as well.
	set := "export PATH='" + work + "':\"$PATH\""
	for name, value := range map[string]string{"DATA": last.Dir, "NAME": last.Name, "KV": last.KV, "ADMIN": last.Admin, "PEER": last.Peer} {
		set += " " + name + "='" + value + "'"
	}
	var printed strings.Builder
	run := func(node *proctest.Node, lines []string) {
		t.Helper()
		for _, line := range lines {
			if strings.HasPrefix(line, "holdfast serve ") {
				node.Process = proctest.NewProcess(node.LogFile(), "/bin/sh", "-c", set+"; exec "+line)
				if err := c.Restart(node); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				continue
			}
			cmd := exec.CommandContext(wait.Context(t), "/bin/sh", "-c", set+"; "+line)
			cmd.Dir = work
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			printed.Write(out)
		}
	}
	run(last, runbook(t, "lost-quorum"))
	for _, words := range []string{"knew its log to be committed up to index", "included, up to index", "other members may hold later writes"} {
		if !strings.Contains(printed.String(), words) {
			t.Errorf("nothing of %q in:\n%s", words, printed.String())
		}
	}
	missing := l.verify(t, stored(t, dial(t, last.KV)))

	for _, node := range []*proctest.Node{others[0], leader} {
		for name, value := range map[string]string{"DATA2": node.Dir, "NAME2": node.Name + "-new", "KV2": node.KV, "ADMIN2": node.Admin, "PEER2": node.Peer} {
			set += " " + name + "='" + value + "'"
		}
		run(node, runbook(t, "lost-quorum-others"))
	}
	fresh := dial(t, c.Endpoints()...)
	if !eventually(t, func() bool {
		res, err := fresh.MemberList(within(t, 5*time.Second))
		if err != nil || len(res.Members) != 3 {
			return false
		}
		for _, m := range res.Members {
			if m.IsLearner {
				return false
			}
		}
		return true
	}) {
		t.Fatal("no three voters within a minute")
	}
	if _, err := fresh.Put(wait.Context(t), "after", "1"); err != nil {
		t.Fatal(err)
	}
	hashes(t, c)
	l.report(t)
	summary(t, "two of three destroyed: %s writes acknowledged, %d missing after the runbook's lines", grouped(int(l.acked.Load())), missing)
}

package crash

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// buildBeforeSagas is the last whose level is 1: it knows no global transactions.
const buildBeforeSagas = "7a55b43"

// TestSagasWaitForTheLevel takes a cluster under load from the build before global transactions to this one, member by member, with the
// saga door on. Until the level rises every submit is refused in the protocol's form, with the remedy, and nothing is called. Once it has
// risen the first saga comes, on every member, and the earlier build runs here no more.
func TestSagasWaitForTheLevel(t *testing.T) {
	processTest(t, false)
	if !long {
		t.Skip("builds an earlier commit, which takes minutes: only with CRASH=long")
	}
	earlier, err := proctest.Earlier(buildBeforeSagas)
	if err != nil {
		t.Fatal(err)
	}
	c := describe(t, 3)
	ours := c.Nodes[0].Bin()
	for _, node := range c.Nodes {
		c.Become(node, earlier)
	}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	for _, node := range c.Nodes {
		if !eventually(t, func() bool { return levelOf(t, node) == 1 }) {
			t.Fatalf("%s of %s stays at level %d", node.Name, buildBeforeSagas, levelOf(t, node))
		}
	}
	var clients []*clientv3.Client
	for range 2 {
		clients = append(clients, dialEager(t, c.Endpoints()...))
	}
	l := startLoad(clients, 4)
	steps, cli := serveSteps(t), newSagaClient()
	begun, refused := 0, 0
	// submit begins a saga and returns what came of it. Before the level has risen nothing may.
	submit := func(node *proctest.Node, path string) (code int, answer string, head http.Header) {
		t.Helper()
		begun++
		kv := ""
		if path == "/api/holdfast/submit" {
			kv = `,"kv":{"success":[{"request_put":{"key":"YQ==","value":"YQ=="}}]}`
		}
		code, answer, head, err := cli.post(node, path, fmt.Sprintf(
			`{"gid":"level-%d","trans_type":"saga","wait_result":true,"retry_interval":1,"steps":[{"action":%q}],"payloads":["{}"]%s}`, begun, steps.URL, kv))
		if err != nil {
			t.Fatal(err)
		}
		return code, answer, head
	}
	refuses := func(node *proctest.Node) {
		t.Helper()
		for _, path := range []string{"/api/dtmsvr/submit", "/api/dtmsvr/prepare", "/api/holdfast/submit"} {
			code, answer, head := submit(node, path)
			e := readEnvelope(t, answer)
			if code != http.StatusServiceUnavailable || e.Result != "" || head.Get("Retry-After") == "" {
				t.Errorf("%s at level 1: %d %s", path, code, answer)
			}
			for _, word := range []string{"nothing was done", "needs level 2, it is at 1", "holdfast status", "raise-level"} {
				if !strings.Contains(e.Message, word) {
					t.Errorf("%s at level 1 does not say %q: %s", path, word, e.Message)
				}
			}
			refused++
		}
	}
	for i, node := range c.Nodes {
		if err := node.Term(wait.Limit(t)); err != nil {
			t.Fatal(err)
		}
		c.Become(node, ours, sagaFlags...)
		if err := c.Restart(node); err != nil {
			t.Fatal(err)
		}
		if i == len(c.Nodes)-1 {
			break
		}
		before := l.acked.Load()
		for _, done := range c.Nodes[:i+1] {
			refuses(done)
			if status, err := cli.status(done, "level-1"); status != "" || err != nil {
				t.Errorf("%s: a saga that was refused is %q, %v", done.Name, status, err)
			}
		}
		time.Sleep(6 * time.Second) // longer than members have to agree on a level
		for _, done := range c.Nodes[:i+1] {
			if level := levelOf(t, done); level != 1 {
				t.Fatalf("%s is at level %d beside a member of %s", done.Name, level, buildBeforeSagas)
			}
			refuses(done)
		}
		if !eventually(t, func() bool { return l.acked.Load() > before+10 }) {
			t.Fatalf("no write was acknowledged after %s became another build", node.Name)
		}
	}
	// The last one has come: it is refused until the level rises, and then never.
	waited := time.Now()
	if !eventually(t, func() bool {
		was := levelOf(t, c.Nodes[2])
		code, answer, _ := submit(c.Nodes[2], "/api/dtmsvr/submit")
		switch {
		case code == http.StatusOK:
			if level := levelOf(t, c.Nodes[2]); level != newest {
				t.Errorf("a saga was taken at level %d", level)
			}
			return true
		case code == http.StatusServiceUnavailable && was < newest:
			refused++
			return false
		}
		t.Fatalf("at level %d: %d %s", was, code, answer)
		return false
	}) {
		t.Fatal("no saga is taken though every member runs this build")
	}
	first := fmt.Sprintf("level-%d", begun)
	rose := time.Since(waited)
	if _, ok := steps.called(first); !ok || steps.calls != 1 {
		t.Errorf("%d calls, one of them for %s: %t", steps.calls, first, ok)
	}
	for _, node := range c.Nodes {
		if !eventually(t, func() bool { return levelOf(t, node) == newest }) {
			t.Fatalf("%s stays at level %d", node.Name, levelOf(t, node))
		}
		if status := cli.ends(t, node, first); status != "succeed" {
			t.Errorf("%s: the first saga is %q", node.Name, status)
		}
		if code, answer, _ := submit(node, "/api/dtmsvr/submit"); code != http.StatusOK {
			t.Errorf("%s at level %d: %d %s", node.Name, newest, code, answer)
		}
	}
	if code, answer, _ := submit(c.Nodes[0], "/api/holdfast/submit"); code != http.StatusOK {
		t.Errorf("with a key beside it: %d %s", code, answer)
	}
	l.stop()
	held := stored(t, dial(t, c.Endpoints()...))
	missing := l.verify(t, held)
	hashes(t, c)
	summary(t, "sagas and the level, from %s: %d submits refused at level 1, the first taken %s after the last member's change, %s writes acknowledged, "+
		"%d missing", buildBeforeSagas, refused, tenth(rose), grouped(int(l.acked.Load())), missing)

	// There is no way back.
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
		t.Fatalf("%s runs on a directory of level %d", buildBeforeSagas, newest)
	}
	if text := node.LogTail(5); !strings.Contains(text, fmt.Sprintf("the cluster is at level %d and this build knows levels up to 1", newest)) {
		t.Errorf("%s ended with\n%s", buildBeforeSagas, text)
	}
}

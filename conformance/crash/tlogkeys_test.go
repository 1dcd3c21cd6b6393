package crash

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// signers is three members with a tlog door, each with a key directory of its own.
type signers struct {
	*proctest.Cluster
	t    *testing.T
	keys string // below it a directory for each node
	key  *tiles.Signer
}

func newSigners(t *testing.T) *signers {
	t.Helper()
	keys := t.TempDir()
	key, err := tiles.NewSigner("log.example/handover", bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	s := &signers{describe(t, 3, "--tlog", "{tlog}", "--tlog-keys", filepath.Join(keys, "{tlog}")), t, keys, key}
	for _, n := range s.Nodes {
		if err := os.Mkdir(s.dir(n), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *signers) dir(n *proctest.Node) string { return filepath.Join(s.keys, n.Addr("tlog")) }

// file is where a node looks for the key.
func (s *signers) file(n *proctest.Node) string { return filepath.Join(s.dir(n), "default.key") }

func (s *signers) give(n *proctest.Node, key *tiles.Signer) {
	s.t.Helper()
	if err := os.WriteFile(s.file(n), []byte(key.Private()), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// post adds an entry through a node.
func (s *signers) post(n *proctest.Node, entry string) (int, string) {
	s.t.Helper()
	res, err := http.Post("http://"+n.Addr("tlog")+"/add", "", strings.NewReader(entry))
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

// add adds an entry through a node, again while it is told to come later.
func (s *signers) add(n *proctest.Node, entry string) {
	s.t.Helper()
	code, body := 0, ""
	if !eventually(s.t, func() bool {
		code, body = s.post(n, entry)
		return code != 503 && code != 0
	}) || code != 200 {
		s.t.Fatalf("add through %s: %d %s", n.Name, code, body)
	}
}

// signed waits until every node shows a checkpoint of a size.
func (s *signers) signed(size uint64) {
	s.t.Helper()
	for _, n := range s.Nodes {
		var note []byte
		if !eventually(s.t, func() bool {
			res, err := http.Get("http://" + n.Addr("tlog") + "/checkpoint")
			if err != nil {
				return false
			}
			defer res.Body.Close()
			note, _ = io.ReadAll(res.Body) // cut short it does not verify
			c, _, err := tiles.OpenCheckpoint(note, s.key.Verifier())
			return err == nil && c.Size == size
		}) {
			s.t.Fatalf("%s has no checkpoint of %d entries in 30 s: %s", n.Name, size, note)
		}
	}
}

// leads waits until a node leads.
func (s *signers) leads(want *proctest.Node) (took time.Duration) {
	s.t.Helper()
	began := time.Now()
	var lead *proctest.Node
	if !eventually(s.t, func() bool {
		lead, _ = s.Leader(s.t.Context())
		return lead == want
	}) {
		s.t.Fatalf("%v leads, want %s", lead, want.Name)
	}
	return time.Since(began)
}

// move hands leadership to a node by an operator's command.
func (s *signers) move(to *proctest.Node) {
	s.t.Helper()
	lead, err := s.WaitLeader(wait.Limit(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	if lead == to {
		return
	}
	st, err := to.Status(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	cli := dial(s.t, lead.KV)
	if _, err := clientv3.NewMaintenance(cli).MoveLeader(wait.Context(s.t), st.Header.MemberId); err != nil {
		s.t.Fatal(err)
	}
}

// TestLeadershipGoesToTheKey: of three members one has the key of a log. It comes to lead, begins the log and signs it. It comes to lead
// again when an operator has given leadership to a member that could not sign, with or without adds. A member with another key does not
// start. When no member has the key, the log can be read and takes nothing through any of them, and says which file is missing.
func TestLeadershipGoesToTheKey(t *testing.T) {
	processTest(t, false)
	beside(t)
	s := newSigners(t)
	has, without, third := s.Nodes[1], s.Nodes[0], s.Nodes[2]
	s.give(has, s.key)
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	first := s.leads(has)
	s.signed(0) // the same note on every member
	for i := range 10 {
		s.add(s.Nodes[i%3], fmt.Sprintf("entry %d", i))
	}
	s.signed(10)

	// An operator moves it to a member that cannot sign, during adds.
	began := time.Now()
	s.move(third)
	for _, n := range s.Nodes {
		if code, body := s.post(n, "through "+n.Name); code == 503 && !strings.Contains(body, s.file(third)) {
			t.Errorf("%s answers %d %s, want the file %s", n.Name, code, body, s.file(third))
		}
	}
	s.add(third, "entry 10")
	s.leads(has)
	asked := time.Since(began)
	s.signed(sizeOf(t, has))

	// And without adds.
	s.move(without)
	atRest := s.leads(has)
	before := sizeOf(t, has)
	s.add(without, "entry 11")
	s.signed(before + 1)

	// Another key, of the same origin.
	other, err := tiles.NewSigner("log.example/handover", bytes.Repeat([]byte{8}, 32))
	if err != nil {
		t.Fatal(err)
	}
	kill(t, third)
	s.give(third, other)
	if err := third.Start(); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, third, "another key than the log default was begun with", s.file(third))
	if err := os.Remove(s.file(third)); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(third); err != nil {
		t.Fatal(err)
	}

	// No key anywhere: a member reads its file once, so all are started again.
	for _, n := range s.Nodes {
		kill(t, n)
	}
	if err := os.Rename(s.file(has), s.file(has)+".away"); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.WaitReady(); err != nil {
		t.Fatal(err)
	}
	lead, err := s.WaitLeader(wait.Limit(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes {
		if code, body := s.post(n, "nobody signs this"); code != 503 || !strings.Contains(body, s.file(lead)) {
			t.Errorf("without any key %s answers %d %s, want 503 and the file %s", n.Name, code, body, s.file(lead))
		}
	}
	s.signed(before + 1) // reads work
	kill(t, has)
	if err := os.Rename(s.file(has)+".away", s.file(has)); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(has); err != nil {
		t.Fatal(err)
	}
	s.leads(has)
	s.add(has, "entry 12")
	s.signed(before + 2)
	summary(t, "tlog handover: leadership went to the only key after the start in %s, back to it from a member without it in %s, at rest in %s",
		tenth(first), tenth(asked), tenth(atRest))
}

// sizeOf is how many entries a node says the log has.
func sizeOf(t *testing.T, n *proctest.Node) uint64 {
	t.Helper()
	size, ok := metric(t, n, `holdfast_tlog_size{log="default"}`)
	if !ok {
		t.Fatal("no holdfast_tlog_size")
	}
	return uint64(size)
}

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// patience bounds every wait of these tests; it is reached only when something is broken.
func within(t testing.TB) context.Context {
	return wait.Context(t)
}

// startAlone starts a cluster of one in dir and waits until it is ready.
func startAlone(t testing.TB, dir string, with func(*Config)) *Node {
	t.Helper()
	cfg := house(Config{Dir: dir, MemoryBytes: 64 << 20})
	if with != nil {
		with(&cfg)
	}
	n, err := Start(within(t), cfg, StartOptions{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	awaitReady(t, n)
	return n
}

func awaitReady(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		await(t, fmt.Sprintf("%s is ready", n.identity.Name), func() bool { return n.Status().Ready })
	}
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	wait.Until(t, what, ok)
}

func mustPropose(t testing.TB, n *Node, key, value string) *entry.Result {
	t.Helper()
	r, err := n.Propose(within(t), LaneKV, putPart(key, value))
	if err != nil {
		t.Fatal(err)
	}
	if r.Rejection != nil {
		t.Fatal(r.Rejection)
	}
	return r
}

func TestAlone(t *testing.T) {
	dir := t.TempDir()
	n := startAlone(t, dir, nil)
	r := mustPropose(t, n, "k", "1")
	await(t, "the status follows", func() bool { return n.Status().Applied >= r.Pos.Index })
	if st := n.Status(); r.Pos.Index < 2 || st.Applied < r.Pos.Index || st.Commit < r.Pos.Index || st.Leader != st.MemberID || st.Learner {
		t.Fatalf("applied at %s, status %+v", r.Pos, st)
	}
	if err := n.Linearize(within(t)); err != nil {
		t.Fatal(err)
	}
	if v, _ := read(t, n, "k"); v != "1" {
		t.Fatalf("k = %q: an acknowledged write must be there to be read", v)
	}
	term, _ := n.Leadership()
	if err := n.LinearizeInTerm(within(t), term); err != nil {
		t.Fatal(err)
	}
	if err := n.LinearizeInTerm(within(t), term+1); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("a term that never was: %v", err)
	}
	if _, err := n.ProposeInTerm(within(t), term, LaneSystem, putPart("k", "2")); err != nil {
		t.Fatal(err)
	}
	if _, err := n.ProposeInTerm(within(t), term-1, LaneSystem, putPart("k", "3")); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("an old term: %v", err)
	}
	cluster, id := n.IDs()
	n.Stop()
	n.Stop() // twice is once
	if _, err := n.Propose(within(t), LaneKV, putPart("k", "4")); !errors.Is(err, ErrStopped) {
		t.Fatalf("after the end: %v", err)
	}
	if err := n.Failure(); err != nil {
		t.Fatalf("asked to stop, and failed: %v", err)
	}

	again := startAlone(t, dir, nil)
	if c, i := again.IDs(); c != cluster || i != id {
		t.Fatalf("came back as %x of %x, was %x of %x", i, c, id, cluster)
	}
	if v, version := read(t, again, "k"); v != "2" || version != 2 {
		t.Fatalf("k = %q, version %d after a restart", v, version)
	}
	if again.Term() <= term {
		t.Fatalf("term %d after %d", again.Term(), term)
	}
}

// Many at once share entries and syncs, and each is applied once.
func TestManyAtOnce(t *testing.T) {
	n := startAlone(t, t.TempDir(), nil)
	before := n.Counters().WAL.Syncs
	const clients, each = 64, 50
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				if _, err := n.Propose(within(t), LaneKV, putPart("k", "v")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if _, version := read(t, n, "k"); version != clients*each {
		t.Fatalf("%d proposals made version %d", clients*each, version)
	}
	if syncs := n.Counters().WAL.Syncs - before; syncs > clients*each/2 {
		t.Errorf("%d syncs for %d proposals of %d clients: they do not share", syncs, clients*each, clients)
	}
}

func TestProposeRefusals(t *testing.T) {
	n := startAlone(t, t.TempDir(), nil)
	if _, err := n.Propose(within(t), LaneKV, entry.Part{Machine: entry.MachineKV, Body: make([]byte, entry.MaxCommandBytes)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := n.Propose(ended, LaneKV, putPart("k", "v")); err != nil && !errors.Is(err, ErrNoLeader) && !errors.Is(err, ErrUnknown) {
		t.Errorf("a caller that left: %v", err)
	}
	if err := n.Failure(); err != nil {
		t.Fatal(err)
	}
	mustPropose(t, n, "k", "v")
}

// A directory is refused with a sentence that says what to do, and nothing in it is changed.
func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	used := t.TempDir()
	n := startAlone(t, used, nil)
	if _, err := Open(house(Config{Dir: used})); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("in use: %v", err)
	}
	n.Stop()

	if _, err := Open(house(Config{Dir: t.TempDir()})); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("empty: %v", err)
	}
	foreign := t.TempDir()
	if err := os.Mkdir(filepath.Join(foreign, "member"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(within(t), house(Config{Dir: foreign}), StartOptions{Name: "n1"}); err == nil || !strings.Contains(err.Error(), "not a Holdfast data directory") {
		t.Errorf("somebody else's directory: %v", err)
	}
	if _, err := os.Stat(identityFile(foreign)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an identity was left there: %v", err)
	}
	identity, err := os.ReadFile(identityFile(used))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"another version": {strings.Replace(string(identity), `"format": 1`, `"format": 9`, 1), "data format 9, this build reads 1"},
		"damaged":         {string(identity[:len(identity)/2]), "identity.json"},
	} {
		if err := os.WriteFile(identityFile(used), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(within(t), house(Config{Dir: used}), StartOptions{Name: "n1"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(identityFile(used), identity, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(used, "wal")); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(within(t), house(Config{Dir: used}), StartOptions{Name: "n1"}); err == nil || !strings.Contains(err.Error(), "memory of its votes") {
		t.Errorf("a log that is gone: %v", err)
	}
}

// A failed fsync stops the node, says so once, and earlier acknowledged writes are there after a restart. Unacknowledged ones may be there
// or not, but the caller was never told that they are.
func TestFailedSyncStopsTheNode(t *testing.T) {
	dir := t.TempDir()
	faulty := disk.NewFaulty(disk.OS())
	var mu sync.Mutex
	var fatal []error
	n := startAlone(t, dir, func(cfg *Config) {
		cfg.FS = faulty
		cfg.OnFatal = func(err error) {
			mu.Lock()
			fatal = append(fatal, err)
			mu.Unlock()
		}
	})
	const clients = 16
	var acked [clients]int
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := 1; ; i++ {
				r, err := n.Propose(within(t), LaneKV, putPart(fmt.Sprint(c), fmt.Sprint(i)))
				if err != nil {
					if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrStopped) {
						t.Errorf("client %d: %v", c, err)
					}
					return
				}
				if r.Rejection != nil {
					t.Error(r.Rejection)
				}
				acked[c] = i
			}
		})
	}
	await(t, "some writes", func() bool { return n.Status().Applied > 50 })
	gone := errors.New("medium error")
	faulty.FailSync(func(name string) bool { return strings.Contains(name, "wal") }, gone)
	select {
	case <-n.StoppedC():
	case <-time.After(wait.Limit(t)):
		t.Fatal("it goes on")
	}
	wg.Wait()
	if err := n.Linearize(within(t)); !errors.Is(err, ErrStopped) {
		t.Errorf("a read after the end: %v", err)
	}
	n.Stop()
	mu.Lock()
	if len(fatal) != 1 || !errors.Is(fatal[0], gone) || !errors.Is(n.Failure(), gone) {
		t.Errorf("told %v, failure %v", fatal, n.Failure())
	}
	mu.Unlock()

	again := startAlone(t, dir, nil)
	for c, want := range acked {
		if _, version := read(t, again, fmt.Sprint(c)); int(version) < want || int(version) > want+1 {
			t.Errorf("client %d: %d acknowledged, %d there", c, want, version)
		}
	}
	mustPropose(t, again, "k", "v")
}

// A full disk is the same: stop with a clear message, lose nothing, start again once there is room.
func TestFullDiskStopsTheNode(t *testing.T) {
	dir := t.TempDir()
	faulty := disk.NewFaulty(disk.OS())
	n := startAlone(t, dir, func(cfg *Config) { cfg.FS = faulty })
	mustPropose(t, n, "k", "1")
	faulty.FillAfter(func(name string) bool { return strings.Contains(name, "wal") }, 100)
	if _, err := n.Propose(within(t), LaneKV, putPart("k", strings.Repeat("x", 10_000))); !errors.Is(err, ErrUnknown) {
		t.Errorf("a write that does not fit: %v", err)
	}
	<-n.StoppedC()
	if err := n.Failure(); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("failure: %v", err)
	}
	n.Stop()
	again := startAlone(t, dir, nil)
	if _, version := read(t, again, "k"); version < 1 {
		t.Error("an acknowledged write is gone")
	}
	mustPropose(t, again, "k", "2")
}

// A follower that comes back with nothing to apply is ready as soon as it has a leader, not with the next write.
func TestAFollowerThatMissedNothingIsReady(t *testing.T) {
	m := newManual(t, 3)
	lead := m.leader()
	m.writeOn(lead, 3)
	m.same()
	id := lead.id%3 + 1
	if err := m.node(id).store.Flush(); err != nil {
		t.Fatal(err)
	}
	last := lead.rep.Commit()
	m.crash(id)
	n := m.open(id)
	for range 50 {
		m.step()
		m.clock.Advance(10 * time.Millisecond)
	}
	if lead.rep.Commit() != last {
		t.Fatal("something was written")
	}
	if p := n.pub.Load(); p.leader != lead.id || !p.ready {
		t.Errorf("after half a second: leader %x, ready: %t", p.leader, p.ready)
	}
}

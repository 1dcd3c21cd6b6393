package checkpoint

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// alone is a member that leads in term 3, and its logs.
type alone struct {
	*workertest.Member
	t    *testing.T
	logs *tlogmachine.Machine

	mu  sync.Mutex // guards rig: it stands for the loop
	rig *machinetest.Rig
}

func newAlone(t *testing.T) *alone {
	t.Helper()
	m := &alone{Member: workertest.New(), t: t, logs: tlogmachine.New()}
	m.rig = machinetest.Open(t, store.NewMem(), m.logs)
	m.Lead(3)
	m.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		res, err := m.rig.Try(parts)
		if err != nil {
			return nil, err
		}
		return res[0], nil
	})
	return m
}

// do carries out a part that must be accepted.
func (m *alone) do(p *tlogpart.Part) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rig.Must(entry.MachineTlog, tlogpart.AppendPart(nil, p))
}

func (m *alone) add(l *tlogmachine.Log, hurry bool, n int) {
	m.t.Helper()
	p := &tlogpart.Part{Kind: tlogpart.Append, Log: l.Number, Hurry: hurry}
	for range n {
		p.Entries = tiles.AppendEntry(p.Entries, []byte("entry"))
	}
	m.do(p)
}

// covered waits for a checkpoint of a size and tells how long that took.
func covered(t *testing.T, l *tlogmachine.Log, size uint64) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		c, next := l.Newest()
		if c != nil && c.Size >= size {
			return time.Since(began)
		}
		select {
		case <-next:
		case <-time.After(wait.Limit(t)):
			t.Fatalf("no checkpoint of %d: %+v", size, c)
		}
	}
}

func signer(t *testing.T, origin string) *tiles.Signer {
	t.Helper()
	s, err := tiles.NewSigner(origin, bytes.Repeat([]byte{5}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestALogIsBegunAndSigned: the first log begins by itself, has a checkpoint of size 0 at once, and one soon after each add. A waiting
// client gets its own much sooner. At rest nothing is signed.
func TestALogIsBegunAndSigned(t *testing.T) {
	m := newAlone(t)
	key := signer(t, "log.example/one")
	demand := m.logs.Demand()
	m.Run(t, newWorker(m, m.logs, Options{First: &tlogpart.LogSpec{Name: "default"}, Key: func(string) *tiles.Signer { return key }}).Run)
	<-demand
	l := m.logs.Find("default")
	covered(t, l, 0)
	if c := l.Checkpoint(); c.Size != 0 {
		t.Errorf("the first has size %d", c.Size)
	}
	m.add(l, false, 300)
	covered(t, l, 300)
	if c, _, err := tiles.OpenCheckpoint(l.Checkpoint().Note, key.Verifier()); err != nil || c.Root != l.View().Root {
		t.Errorf("%+v, %v", c, err)
	}
	quickest := time.Hour
	for i := 0; i < 5 || i < 200 && quickest >= calm; i++ {
		m.add(l, true, 1)
		quickest = min(quickest, covered(t, l, uint64(301+i)))
	}
	if quickest >= calm { // one is enough: the machine may be busy
		t.Errorf("somebody who waits gets a checkpoint after %v at best", quickest)
	}
	m.mu.Lock()
	before := m.rig.Index
	for _, term := range m.Proposed() {
		if term != 3 {
			t.Errorf("a command in term %d", term)
		}
	}
	m.mu.Unlock()
	time.Sleep(3 * calm)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rig.Index != before {
		t.Errorf("%d commands at rest", m.rig.Index-before)
	}
}

// TestADamagedLogIsNotSigned: the store was altered, in a way its checksums cannot notice.
func TestADamagedLogIsNotSigned(t *testing.T) {
	m := newAlone(t)
	key := signer(t, "log.example/one")
	found := make(chan error, 1)
	demand := m.logs.Demand()
	m.Run(t, newWorker(m, m.logs, Options{First: &tlogpart.LogSpec{Name: "default"}, Key: func(string) *tiles.Signer { return key }, Damaged: func(err error) { found <- err }}).Run)
	<-demand
	l := m.logs.Find("default")
	m.add(l, false, 10)
	covered(t, l, 10)
	m.mu.Lock()
	frontier := []byte("tf\x00\x00\x00\x01")
	row, ok, err := m.rig.Store.Get(nil, frontier)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	row[len(row)-1] ^= 1
	b := m.rig.Store.NewBatch()
	b.Set(frontier, row)
	if err := m.rig.Store.Commit(b, m.rig.Index); err != nil {
		t.Fatal(err)
	}
	m.mu.Unlock()
	// Apply writes the frontier again with the next entry, so make the worker look before that.
	w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }, Damaged: func(err error) { found <- err }})
	if _, ok := w.sign(l); ok {
		t.Error("it was signed")
	}
	if err := <-found; err == nil {
		t.Error("nobody was told")
	}
	if _, ok := w.when(l, time.Now()); ok {
		t.Error("it would be tried again")
	}
}

// TestWithoutItsKeyALogIsLeftAlone, also if the file holds another one.
func TestWithoutItsKeyALogIsLeftAlone(t *testing.T) {
	m := newAlone(t)
	spec := tlogpart.LogSpec{Name: "default", Key: *signer(t, "log.example/one").Verifier()}
	m.do(&tlogpart.Part{Kind: tlogpart.Create, Spec: spec})
	l := m.logs.Find("default")
	for _, key := range []*tiles.Signer{nil, signer(t, "log.example/two")} {
		w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }})
		if _, ok := w.when(l, time.Now()); ok {
			t.Error("it would be signed")
		}
	}
}

// TestLeadershipGoesToWhoCanSign: a leader without the key hands over to the follower that asks, with or without waiting adds. One that has
// the key does not, unless it found the log damaged in its store. One that can sign another log hands over once a minute at most, and only
// when something waits.
func TestLeadershipGoesToWhoCanSign(t *testing.T) {
	m := newAlone(t)
	key := signer(t, "log.example/one")
	spec := tlogpart.LogSpec{Name: "default", Key: *key.Verifier()}
	m.do(&tlogpart.Part{Kind: tlogpart.Create, Spec: spec})
	ask := append([]byte{0, 0, 0, 0, 0, 0, 0, 7}, "default"...)
	with := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }})
	if names := with.waiting(); len(names) != 1 || names[0] != "default" {
		t.Errorf("waiting where the key is: %q", names)
	}
	if _, err := m.Service(leadService)(t.Context(), ask); err != nil || len(m.Handed()) != 0 {
		t.Errorf("with the key: handed over, or %v", err)
	}
	without := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return nil }})
	if names := without.waiting(); len(names) != 0 {
		t.Errorf("waiting where no key is: %q", names)
	}
	if _, err := m.Service(leadService)(t.Context(), ask); err != nil || !slices.Equal(m.Handed(), []uint64{7}) {
		t.Errorf("without the key: not handed to 7, or %v", err)
	}
	if _, err := m.Service(leadService)(t.Context(), ask); err != nil || len(m.Handed()) != 1 {
		t.Errorf("without any key it is kept, or %v", err)
	}

	other := signer(t, "log.example/two")
	m.do(&tlogpart.Part{Kind: tlogpart.Create,
		Spec: tlogpart.LogSpec{Name: "other", Key: *other.Verifier()}})
	half := newWorker(m, m.logs, Options{Key: func(log string) *tiles.Signer {
		if log == "other" {
			return other
		}
		return nil
	}})
	if name := half.idle(); name != "other" {
		t.Errorf("it could sign %q", name)
	}
	if _, err := m.Service(leadService)(t.Context(), ask); err != nil || len(m.Handed()) != 1 {
		t.Errorf("with the key of another log it is kept, or %v", err)
	}
	if _, err := m.Service(leadService)(t.Context(), ask); err == nil || len(m.Handed()) != 0 {
		t.Errorf("at once again: handed over, or %v", err)
	}
	signed, err := Sign(m.logs, m.logs.Find("default"), key)
	if err != nil {
		t.Fatal(err)
	}
	m.do(&tlogpart.Part{Kind: tlogpart.Checkpoint,
		Checkpoints: []tlogpart.Signed{signed}})
	half.handedOver = time.Time{}
	if _, err := m.Service(leadService)(t.Context(), ask); err != nil || len(m.Handed()) != 0 {
		t.Errorf("with nothing that waits: handed over, or %v", err)
	}

	newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }})
	m.logs.Find("default").SetDamage(errors.New("altered"))
	if _, err := m.Service(leadService)(t.Context(), ask); err != nil || len(m.Handed()) != 1 {
		t.Errorf("with a damaged log it is kept, or %v", err)
	}
	if _, err := m.Service(leadService)(t.Context(), []byte("short")); err == nil {
		t.Error("a torn question is answered")
	}
}

// TestABusyLogIsNotOverdue: a log that grows all the time waits at every look of a follower. The follower asks for leadership only where
// the checkpoint has not moved between two looks.
func TestABusyLogIsNotOverdue(t *testing.T) {
	var s stuck
	at := map[string]uint64{"busy": 7, "still": 3}
	size := func(name string) uint64 { return at[name] }
	both := []string{"busy", "still"}
	if got := s.look(both, size); got != "" {
		t.Errorf("at the first look %s is overdue", got)
	}
	at["busy"] = 9
	if got := s.look(both, size); got != "still" {
		t.Errorf("%q is overdue, want the log whose checkpoint stands still", got)
	}
	at["busy"], at["still"] = 11, 5
	if got := s.look(both, size); got != "" {
		t.Errorf("%s is overdue although its checkpoint has moved", got)
	}
	s.look([]string{"busy"}, size)
	if got := s.look(both, size); got != "busy" {
		t.Errorf("%q is overdue, want the one that has waited since the last look", got)
	}
}

// TestWhatNobodySignsIsReadOnly: the leader says why, and a follower what its leader says, which it asks once a second.
func TestWhatNobodySignsIsReadOnly(t *testing.T) {
	m := newAlone(t)
	key := signer(t, "log.example/one")
	spec := tlogpart.LogSpec{Name: "default", Key: *key.Verifier()}
	m.do(&tlogpart.Part{Kind: tlogpart.Create, Spec: spec})
	l := m.logs.Find("default")
	worker := func(k *tiles.Signer) *Worker {
		return newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return k }, KeyFile: func(log string) string { return "/keys/" + log }})
	}
	with, without, wrong := worker(key), worker(nil), worker(signer(t, "log.example/two"))
	end := with.newTerm(3)
	defer end()
	if why := with.ReadOnly(l); why != "" {
		t.Errorf("with the key: %s", why)
	}
	if why := without.ReadOnly(l); why != NoKey+": /keys/default is missing on the member that leads; put the log's own key there, no snapshot holds it" {
		t.Errorf("without the key: %s", why)
	}
	if why := wrong.ReadOnly(l); why != NoKey+": /keys/default on the member that leads is another key; put the log's own there and start that member again" {
		t.Errorf("with another key: %s", why)
	}

	m.Lead(0)
	asked, leader, broken := 0, without, error(nil)
	m.OnCall(func(service string, req []byte) ([]byte, error) {
		if asked++; broken != nil || service != signsService {
			return nil, broken
		}
		return leader.signs(t.Context(), req)
	})
	for range 3 {
		if why := with.ReadOnly(l); why != without.unsigned(l) { // its own key is of no use while another leads
			t.Errorf("a follower of one without the key: %q", why)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	later := func() { with.verdicts["default"].at = time.Now().Add(-signsHolds) }
	later()
	if leader = with; with.ReadOnly(l) != "" || asked != 2 {
		t.Errorf("after a change of leader it says %q, asked %d times", with.ReadOnly(l), asked)
	}
	leader = without
	later()
	if with.ReadOnly(l) == "" {
		t.Error("and back")
	}
	broken = node.ErrNoLeader
	later()
	if why := with.ReadOnly(l); why != "" {
		t.Errorf("without an answer: %s", why)
	}

	m.Lead(3)
	l.SetDamage(errors.New("altered"))
	if why := with.ReadOnly(l); why != "the log is read-only: the member that leads found it damaged in its store: altered" {
		t.Errorf("damaged: %s", why)
	}
}

// TestAMissingKeyIsToldBeforeAnAdd: the list of held logs has the log without any add, on the leader and on a follower.
func TestAMissingKeyIsToldBeforeAnAdd(t *testing.T) {
	m, l, key := begun(t, 3)
	have := (*tiles.Signer)(nil)
	w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return have }})
	defer w.newTerm(3)()
	if why := w.Holds(t.Context())["default"]; why == "" || why != w.ReadOnly(l) {
		t.Errorf("the leader tells %q, and refuses with %q", why, w.ReadOnly(l))
	}
	if _, err := w.release(t.Context(), []byte("default\nthe checkpoint")); !errors.Is(err, errNotHeld) || !strings.Contains(err.Error(), NoKey) {
		t.Errorf("a release of a log that only lacks its key: %v", err)
	}
	m.Lead(0)
	m.OnCall(func(service string, req []byte) ([]byte, error) { return m.Service(service)(t.Context(), req) })
	if why := w.Holds(t.Context())["default"]; !strings.HasPrefix(why, NoKey) {
		t.Errorf("a follower tells %q", why)
	}
	m.Lead(3)
	have = key
	if why := w.Holds(t.Context()); len(why) > 0 {
		t.Errorf("with the key there: %q", why)
	}
}

package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/entry"
	et "github.com/holdfastdb/holdfast/entry/tree"
	"github.com/holdfastdb/holdfast/machine"
	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/store"
	"github.com/holdfastdb/holdfast/tiles"
)

// alone is a member without a log that leads until stop is closed. mu stands for the apply goroutine.
type alone struct {
	t    *testing.T
	logs *tree.Machine
	st   store.Store
	stop chan struct{}

	service func(context.Context, []byte) ([]byte, error) // leadService of the last worker
	handed  []uint64                                      // to whom leadership went
	follows bool
	round   func() error                                     // Linearize; nil: at once
	call    func(service string, req []byte) ([]byte, error) // of a follower

	mu    sync.Mutex
	a     *machine.Applier
	at    uint64
	terms []uint64 // of the commands it was given
}

func newAlone(t *testing.T) *alone {
	t.Helper()
	m := &alone{t: t, logs: tree.New(), st: store.NewMem(), stop: make(chan struct{})}
	m.a = machine.NewApplier(m.st, m.logs)
	if err := m.a.Load(); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *alone) Leadership() (uint64, <-chan struct{}) {
	if m.follows {
		return 0, m.stop
	}
	return 3, m.stop
}
func (m *alone) StoppedC() <-chan struct{} { return m.stop }

func (m *alone) IDs() (cluster, member uint64) { return 1, 2 }

func (m *alone) Call(_ context.Context, service string, req []byte) ([]byte, error) {
	if m.call != nil {
		return m.call(service, req)
	}
	return nil, nil
}

func (m *alone) Handle(service string, fn func(context.Context, []byte) ([]byte, error)) {
	if service == leadService {
		m.service = fn
	}
}

func (m *alone) TransferLeader(_ context.Context, to uint64) error {
	m.handed = append(m.handed, to)
	return nil
}

func (m *alone) Linearize(context.Context) error {
	if m.round != nil {
		return m.round()
	}
	return nil
}

func (m *alone) Status() node.Status { return node.Status{Ready: true} }

func (m *alone) ProposeInTerm(_ context.Context, term uint64, _ node.Lane, parts ...entry.Part) (res *entry.Result, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terms = append(m.terms, term)
	return m.apply(parts...)
}

func (m *alone) apply(parts ...entry.Part) (res *entry.Result, err error) {
	m.at++
	data := entry.AppendPacked(entry.AppendHeader(nil, entry.Header{}), entry.AppendCommand(nil, &entry.Command{Origin: 1, Seq: 1, Term: 1, Parts: parts}))
	err = m.a.Apply(m.at, 1, data, func(_, _ uint64) bool { return true }, func(_, _ uint64, r *entry.Result) { res = r })
	return res, err
}

func (m *alone) add(l *tree.Log, hurry bool, n int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &et.Part{Kind: et.Append, Log: l.Number, Hurry: hurry}
	for range n {
		p.Entries = tiles.AppendEntry(p.Entries, []byte("entry"))
	}
	if res, err := m.apply(entry.Part{Machine: entry.MachineTree, Body: et.AppendPart(nil, p)}); err != nil || res.Rejection != nil {
		m.t.Fatal(res, err)
	}
}

// covered waits for a checkpoint of a size and tells how long that took.
func covered(t *testing.T, l *tree.Log, size uint64) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		c, next := l.Newest()
		if c != nil && c.Size >= size {
			return time.Since(began)
		}
		select {
		case <-next:
		case <-time.After(10 * time.Second):
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

// run starts a worker and returns how to end it.
func run(m *alone, opt Options) (end func()) {
	w := newWorker(m, m.logs, opt)
	var wg sync.WaitGroup
	wg.Go(w.Run)
	return func() {
		close(m.stop)
		wg.Wait()
	}
}

// TestALogIsBegunAndSigned: the first log begins by itself, has a checkpoint of size 0 at once, and one soon after each add;
// a waiting client gets its own much sooner. At rest nothing is signed.
func TestALogIsBegunAndSigned(t *testing.T) {
	m := newAlone(t)
	key := signer(t, "log.example/one")
	demand := m.logs.Demand()
	end := run(m, Options{First: &et.LogSpec{Name: "default"}, Key: func(string) *tiles.Signer { return key }})
	defer end()
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
	for i := range 5 {
		m.add(l, true, 1)
		quickest = min(quickest, covered(t, l, uint64(301+i)))
	}
	if quickest >= calm { // one of five is enough: the machine may be busy
		t.Errorf("somebody who waits gets a checkpoint after %v at best", quickest)
	}
	m.mu.Lock()
	before := m.at
	for _, term := range m.terms {
		if term != 3 {
			t.Errorf("a command in term %d", term)
		}
	}
	m.mu.Unlock()
	time.Sleep(3 * calm)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at != before {
		t.Errorf("%d commands at rest", m.at-before)
	}
}

// TestADamagedLogIsNotSigned: the store was altered, in a way its checksums cannot notice.
func TestADamagedLogIsNotSigned(t *testing.T) {
	m := newAlone(t)
	key := signer(t, "log.example/one")
	found := make(chan error, 1)
	demand := m.logs.Demand()
	end := run(m, Options{First: &et.LogSpec{Name: "default"}, Key: func(string) *tiles.Signer { return key }, Damaged: func(err error) { found <- err }})
	defer end()
	<-demand
	l := m.logs.Find("default")
	m.add(l, false, 10)
	covered(t, l, 10)
	m.mu.Lock()
	frontier := []byte("tf\x00\x00\x00\x01")
	row, ok, err := m.st.Get(nil, frontier)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	row[len(row)-1] ^= 1
	b := m.st.NewBatch()
	b.Set(frontier, row)
	if err := m.st.Commit(b, m.at); err != nil {
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
	spec := et.LogSpec{Name: "default", Key: *signer(t, "log.example/one").Verifier()}
	if res, err := m.apply(entry.Part{Machine: entry.MachineTree, Body: et.AppendPart(nil, &et.Part{Kind: et.Create, Spec: spec})}); err != nil || res.Rejection != nil {
		t.Fatal(res, err)
	}
	l := m.logs.Find("default")
	for _, key := range []*tiles.Signer{nil, signer(t, "log.example/two")} {
		w := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }})
		if _, ok := w.when(l, time.Now()); ok {
			t.Error("it would be signed")
		}
	}
}

// TestLeadershipGoesToWhoCanSign: a leader without the key hands over to the follower that asks, whether or not something waits;
// one that has the key does not, unless it found the log damaged in its store. One that can sign another log hands over once a
// minute at most, and only when something waits.
func TestLeadershipGoesToWhoCanSign(t *testing.T) {
	m := newAlone(t)
	key := signer(t, "log.example/one")
	spec := et.LogSpec{Name: "default", Key: *key.Verifier()}
	if res, err := m.apply(entry.Part{Machine: entry.MachineTree, Body: et.AppendPart(nil, &et.Part{Kind: et.Create, Spec: spec})}); err != nil || res.Rejection != nil {
		t.Fatal(res, err)
	}
	ask := append([]byte{0, 0, 0, 0, 0, 0, 0, 7}, "default"...)
	with := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }})
	if names := with.waiting(); len(names) != 1 || names[0] != "default" {
		t.Errorf("waiting where the key is: %q", names)
	}
	if _, err := m.service(t.Context(), ask); err != nil || len(m.handed) != 0 {
		t.Errorf("with the key: handed to %d, %v", m.handed, err)
	}
	without := newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return nil }})
	if names := without.waiting(); len(names) != 0 {
		t.Errorf("waiting where no key is: %q", names)
	}
	if _, err := m.service(t.Context(), ask); err != nil || len(m.handed) != 1 || m.handed[0] != 7 {
		t.Errorf("without the key: handed to %d, %v", m.handed, err)
	}
	if _, err := m.service(t.Context(), ask); err != nil || len(m.handed) != 2 {
		t.Errorf("without any key it is kept: handed to %d, %v", m.handed, err)
	}

	other := signer(t, "log.example/two")
	if res, err := m.apply(entry.Part{Machine: entry.MachineTree, Body: et.AppendPart(nil, &et.Part{Kind: et.Create,
		Spec: et.LogSpec{Name: "other", Key: *other.Verifier()}})}); err != nil || res.Rejection != nil {
		t.Fatal(res, err)
	}
	half := newWorker(m, m.logs, Options{Key: func(log string) *tiles.Signer {
		if log == "other" {
			return other
		}
		return nil
	}})
	if name := half.idle(); name != "other" {
		t.Errorf("it could sign %q", name)
	}
	m.handed = nil
	if _, err := m.service(t.Context(), ask); err != nil || len(m.handed) != 1 {
		t.Errorf("with the key of another log: handed to %d, %v", m.handed, err)
	}
	if _, err := m.service(t.Context(), ask); err == nil || len(m.handed) != 1 {
		t.Errorf("at once again: handed to %d, %v", m.handed, err)
	}
	signed, err := Sign(m.logs, m.logs.Find("default"), key)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := m.apply(entry.Part{Machine: entry.MachineTree, Body: et.AppendPart(nil, &et.Part{Kind: et.Checkpoint,
		Checkpoints: []et.Signed{signed}})}); err != nil || res.Rejection != nil {
		t.Fatal(res, err)
	}
	half.handedOver = time.Time{}
	if _, err := m.service(t.Context(), ask); err != nil || len(m.handed) != 1 {
		t.Errorf("with nothing that waits: handed to %d, %v", m.handed, err)
	}

	m.handed = nil
	newWorker(m, m.logs, Options{Key: func(string) *tiles.Signer { return key }})
	m.logs.Find("default").SetDamage(errors.New("altered"))
	if _, err := m.service(t.Context(), ask); err != nil || len(m.handed) != 1 {
		t.Errorf("with a damaged log: handed to %d, %v", m.handed, err)
	}
	if _, err := m.service(t.Context(), []byte("short")); err == nil {
		t.Error("a torn question is answered")
	}
}

// TestWhatNobodySignsIsReadOnly: the leader says why, and a follower what its leader says, which it asks once a second.
func TestWhatNobodySignsIsReadOnly(t *testing.T) {
	m := newAlone(t)
	key := signer(t, "log.example/one")
	spec := et.LogSpec{Name: "default", Key: *key.Verifier()}
	if res, err := m.apply(entry.Part{Machine: entry.MachineTree, Body: et.AppendPart(nil, &et.Part{Kind: et.Create, Spec: spec})}); err != nil || res.Rejection != nil {
		t.Fatal(res, err)
	}
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
	if why := without.ReadOnly(l); why != "the log is read-only: its key /keys/default is missing on the member that leads" {
		t.Errorf("without the key: %s", why)
	}
	if why := wrong.ReadOnly(l); why != "the log is read-only: /keys/default on the member that leads is not its key" {
		t.Errorf("with another key: %s", why)
	}

	m.follows = true
	asked, leader, broken := 0, without, error(nil)
	m.call = func(service string, req []byte) ([]byte, error) {
		if asked++; broken != nil || service != signsService {
			return nil, broken
		}
		return leader.signs(t.Context(), req)
	}
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

	m.follows = false
	l.SetDamage(errors.New("altered"))
	if why := with.ReadOnly(l); why != "the log is read-only: the member that leads found it damaged in its store: altered" {
		t.Errorf("damaged: %s", why)
	}
}

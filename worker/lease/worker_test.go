package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
	"github.com/holdfastdb/holdfast/internal/task"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	"github.com/holdfastdb/holdfast/node"
)

// fakeMember is a member without a log whose leadership and clock a test sets. It is its own kv reader.
type fakeMember struct {
	mu       sync.Mutex
	term     uint64
	changed  chan struct{}
	tick     int64
	leases   map[int64]int64
	made     map[int64]uint64 // the grant of each
	grants   uint64
	version  uint64
	news     chan struct{}
	revoked  []int64
	rounds   int
	deposed  bool   // still believes it leads, but cannot confirm it
	between  func() // happens once, after a round was confirmed and before what it was for; guarded by mu
	services map[string]func(context.Context, []byte) ([]byte, error)
	stopped  chan struct{}
}

func newFakeMember() *fakeMember {
	return &fakeMember{
		changed: make(chan struct{}), news: make(chan struct{}), leases: map[int64]int64{}, made: map[int64]uint64{},
		services: map[string]func(context.Context, []byte) ([]byte, error){}, stopped: make(chan struct{}),
	}
}

func (m *fakeMember) Handle(service string, fn func(context.Context, []byte) ([]byte, error)) {
	m.services[service] = fn
}

func (m *fakeMember) Leadership() (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term, m.changed
}

func (m *fakeMember) setTerm(term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = term
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *fakeMember) ProposeInTerm(_ context.Context, term uint64, _ node.Lane, parts ...entry.Part) (*entry.Result, error) {
	p, err := ekv.Decode(parts[0].Body)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deposed || term != m.term {
		return nil, node.ErrSuperseded
	}
	if !p.Revoke.Expired {
		return nil, errors.New("a worker revoked without the expired mark")
	}
	for _, id := range p.Revoke.IDs {
		m.revoked = append(m.revoked, id)
		delete(m.leases, id)
	}
	m.change()
	return &entry.Result{Bodies: []any{&ekv.RevokeResult{}}}, nil
}

func (m *fakeMember) LinearizeInTerm(_ context.Context, term uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rounds++
	if m.deposed || term != m.term {
		return node.ErrSuperseded
	}
	if m.between != nil {
		m.between()
		m.between = nil
	}
	return nil
}

func (m *fakeMember) Tick() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tick
}

func (m *fakeMember) Tasks() task.Runner  { return task.Goroutines{} }
func (m *fakeMember) Mono() time.Duration { return time.Duration(time.Now().UnixNano()) }

func (m *fakeMember) StoppedC() <-chan struct{} { return m.stopped }

func (m *fakeMember) change() {
	m.version++
	close(m.news)
	m.news = make(chan struct{})
}

func (m *fakeMember) grant(id, ttl int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[id] = ttl
	m.grants++
	m.made[id] = m.grants
	m.change()
}

func (m *fakeMember) Leases() []mkv.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []mkv.Lease
	for id, ttl := range m.leases {
		all = append(all, mkv.Lease{ID: id, TTL: ttl, Grant: m.made[id]})
	}
	return all
}

func (m *fakeMember) Lease(id int64) (mkv.Lease, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ttl, ok := m.leases[id]
	return mkv.Lease{ID: id, TTL: ttl, Grant: m.made[id]}, ok
}

func (m *fakeMember) LeaseChanges() (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version, m.news
}

func (m *fakeMember) gone() []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.revoked)
}

// start runs a worker until the test ends.
func start(t *testing.T, m *fakeMember) {
	w := newWorker(m, m)
	done := make(chan struct{})
	go func() { defer close(done); w.Run() }()
	t.Cleanup(func() {
		close(m.stopped)
		<-done
	})
}

func (m *fakeMember) call(t *testing.T, service string, id int64) (ekv.LeaseTime, error) {
	t.Helper()
	b, err := m.services[service](context.Background(), ekv.AppendLeaseID(nil, id))
	if err != nil {
		return ekv.LeaseTime{}, err
	}
	lt, err := ekv.DecodeLeaseTime(b)
	if err != nil {
		t.Fatal(err)
	}
	return lt, nil
}

// eventually waits for what a goroutine of the worker is to do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 5 s: %s", what)
}

func TestWorkerRevokesWhatRanOut(t *testing.T) {
	m := newFakeMember()
	m.grant(1, 10)
	m.grant(2, 100)
	m.setTerm(3)
	start(t, m)
	eventually(t, "lease 1 known", func() bool {
		lt, err := m.call(t, ekv.CallLeaseTTL, 1)
		return err == nil && lt.Granted == 10
	})
	m.mu.Lock()
	m.tick = 10_000
	m.mu.Unlock()
	m.grant(3, 100) // any news makes the worker look at the clock again
	eventually(t, "lease 1 revoked", func() bool { return slices.Equal(m.gone(), []int64{1}) })
	if lt, err := m.call(t, ekv.CallLeaseKeepAlive, 1); err != nil || lt.Granted != 0 {
		t.Errorf("renewing a lease that is gone: %+v, %v", lt, err)
	}
	if lt, err := m.call(t, ekv.CallLeaseKeepAlive, 2); err != nil || lt.Remaining != 100 {
		t.Errorf("renewing a live lease: %+v, %v", lt, err)
	}
}

// TestALeaseGrantedAgainIsAnotherOne: a client revokes a lease and grants one with its ID at once, between two looks at all leases. The
// new one has its own time, not what the old one had left.
func TestALeaseGrantedAgainIsAnotherOne(t *testing.T) {
	for _, first := range []string{ekv.CallLeaseTTL, ekv.CallLeaseKeepAlive, ""} {
		m := newFakeMember()
		m.grant(1, 10)
		m.setTerm(3)
		start(t, m)
		eventually(t, "lease 1 known", func() bool {
			lt, err := m.call(t, ekv.CallLeaseTTL, 1)
			return err == nil && lt.Granted == 10
		})
		m.mu.Lock()
		m.tick = 9_000
		delete(m.leases, 1)
		m.mu.Unlock()
		m.grant(1, 1000)
		if first != "" {
			if lt, err := m.call(t, first, 1); err != nil || lt.Granted != 1000 || lt.Remaining != 1000 {
				t.Errorf("%s: %+v, %v", first, lt, err)
			}
		}
		time.Sleep(2 * syncPause)
		m.mu.Lock()
		m.tick = 11_000
		m.mu.Unlock()
		m.grant(2, 100) // any news makes the worker look at the clock again
		time.Sleep(2 * syncPause)
		if got := m.gone(); got != nil {
			t.Errorf("revoked %v when the time of the lease before it was up", got)
		}
	}
}

func TestDeposedLeaderNeitherRevokesNorRenews(t *testing.T) {
	m := newFakeMember()
	m.grant(1, 10)
	m.setTerm(3)
	start(t, m)
	eventually(t, "lease 1 known", func() bool {
		_, err := m.call(t, ekv.CallLeaseTTL, 1)
		return err == nil
	})
	m.mu.Lock()
	m.deposed = true
	m.mu.Unlock()
	if _, err := m.call(t, ekv.CallLeaseKeepAlive, 1); err == nil {
		t.Error("a leader that could not confirm its term renewed a lease")
	}
	m.mu.Lock()
	m.tick = 60_000
	m.mu.Unlock()
	m.grant(2, 10)
	time.Sleep(100 * time.Millisecond)
	if got := m.gone(); got != nil {
		t.Errorf("a deposed leader revoked %v", got)
	}
	// The next term begins with the full time.
	m.mu.Lock()
	m.deposed = false
	m.mu.Unlock()
	m.setTerm(4)
	eventually(t, "full time in the new term", func() bool {
		lt, err := m.call(t, ekv.CallLeaseTTL, 1)
		return err == nil && lt.Remaining == 10
	})
}

// TestLeaderThatSleptSaysOfNoLeaseThatItIsGone: a leader is stopped right after a round, and wakes when the lease's time would
// be up if nobody else had given it a new one: it must ask again before it says so.
func TestLeaderThatSleptSaysOfNoLeaseThatItIsGone(t *testing.T) {
	m := newFakeMember()
	m.grant(1, 10)
	m.setTerm(3)
	start(t, m)
	eventually(t, "lease 1 known", func() bool {
		_, err := m.call(t, ekv.CallLeaseTTL, 1)
		return err == nil
	})
	m.mu.Lock()
	m.between = func() { m.tick, m.deposed = 60_000, true }
	m.mu.Unlock()
	if left, err := m.call(t, ekv.CallLeaseKeepAlive, 1); err == nil {
		t.Errorf("a deposed leader says of a lease: %+v", left)
	}
	// One that still leads may say so.
	m.mu.Lock()
	m.deposed = false
	m.mu.Unlock()
	if left, err := m.call(t, ekv.CallLeaseKeepAlive, 1); err != nil || left.Granted != 0 {
		t.Errorf("a leader says of a lease whose time is up: %+v, %v", left, err)
	}
}

func TestRenewalsShareRounds(t *testing.T) {
	m := newFakeMember()
	m.grant(1, 10)
	m.setTerm(3)
	start(t, m)
	eventually(t, "leading", func() bool {
		_, err := m.call(t, ekv.CallLeaseTTL, 1)
		return err == nil
	})
	m.mu.Lock()
	before := m.rounds
	m.mu.Unlock()
	var wg sync.WaitGroup
	for range 500 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if lt, err := m.call(t, ekv.CallLeaseKeepAlive, 1); err != nil || lt.Remaining != 10 {
				t.Errorf("renewal: %+v, %v", lt, err)
			}
		}()
	}
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.rounds - before; n > 500 {
		t.Errorf("%d rounds for 500 renewals", n)
	}
}

func TestUnknownLeaseAndFollower(t *testing.T) {
	m := newFakeMember()
	start(t, m)
	if _, err := m.call(t, ekv.CallLeaseKeepAlive, 1); !errors.Is(err, node.ErrNotLeader) {
		t.Errorf("a follower answered a renewal: %v", err)
	}
	m.setTerm(1)
	eventually(t, "leading", func() bool {
		lt, err := m.call(t, ekv.CallLeaseKeepAlive, 1)
		return err == nil && lt.Granted == 0
	})
	m.grant(5, 7)
	if lt, err := m.call(t, ekv.CallLeaseKeepAlive, 5); err != nil || lt.Remaining != 7 {
		t.Errorf("renewing a lease granted just now: %+v, %v", lt, err)
	}
}

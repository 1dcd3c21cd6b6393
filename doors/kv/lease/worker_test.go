package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// leased is a member and its kv machine, which has leases and nothing else.
type leased struct {
	*workertest.Member

	mu      sync.Mutex // guards the rest
	leases  map[int64]kvmachine.Lease
	grants  uint64
	changes []kvmachine.LeaseChange
	kept    int // of changes, the newest; the worker is told all leases if it lacks older ones
	news    chan struct{}
	revoked []int64
	told    int // leases and changes that the worker has looked at
	whole   int // times it was told all leases
	lookup  func()
}

// OnLookup is called when the worker looks up a lease.
func (m *leased) OnLookup(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookup = f
}

func newLeased() *leased {
	m := &leased{Member: workertest.New(), leases: map[int64]kvmachine.Lease{}, kept: 1000, news: make(chan struct{})}
	m.OnPropose(m.revoke)
	return m
}

// revoke carries out what the worker proposes.
func (m *leased) revoke(parts []entry.Part) (*entry.Result, error) {
	p, err := kvpart.Decode(parts[0].Body)
	if err != nil {
		return nil, err
	}
	if !p.Revoke.Expired {
		return nil, errors.New("a worker revoked without the expired mark")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range p.Revoke.IDs {
		m.revoked = append(m.revoked, id)
		m.end(id)
	}
	return &entry.Result{Bodies: []entry.Body{{Machine: entry.MachineKV, Value: &kvpart.RevokeResult{}}}}, nil
}

// change tells the worker; the caller holds mu.
func (m *leased) change(c kvmachine.LeaseChange) {
	m.changes = append(m.changes, c)
	close(m.news)
	m.news = make(chan struct{})
}

// end removes a lease; the caller holds mu.
func (m *leased) end(id int64) {
	m.change(kvmachine.LeaseChange{Lease: m.leases[id], Gone: true})
	delete(m.leases, id)
}

// grant grants a lease; one with its ID that there is already is revoked first.
func (m *leased) grant(id, ttl int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.leases[id]; ok {
		m.end(id)
	}
	m.grants++
	m.leases[id] = kvmachine.Lease{ID: id, TTL: ttl, Grant: m.grants}
	m.change(kvmachine.LeaseChange{Lease: m.leases[id]})
}

func (m *leased) Lease(id int64) (kvmachine.Lease, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lookup != nil {
		m.lookup()
	}
	l, ok := m.leases[id]
	return l, ok
}

func (m *leased) LeaseChanges(since uint64) (changes []kvmachine.LeaseChange, version uint64, whole bool, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	version = uint64(len(m.changes)) + 1
	if whole = since == 0 || version-since > uint64(m.kept); whole {
		m.whole++
		for _, l := range m.leases {
			changes = append(changes, kvmachine.LeaseChange{Lease: l})
		}
	} else {
		changes = slices.Clone(m.changes[since-1:])
	}
	m.told += len(changes)
	return changes, version, whole, m.news
}

func (m *leased) gone() []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.revoked)
}

// ask calls a service of the worker as a door does.
func (m *leased) ask(t *testing.T, service string, id int64) (kvpart.LeaseTime, error) {
	t.Helper()
	b, err := m.Service(service)(context.Background(), kvpart.AppendLeaseID(nil, id))
	if err != nil {
		return kvpart.LeaseTime{}, err
	}
	lt, err := kvpart.DecodeLeaseTime(b)
	if err != nil {
		t.Fatal(err)
	}
	return lt, nil
}

// start runs a worker until the test ends.
func start(t *testing.T, m *leased) { m.Run(t, newWorker(m, m).Run) }

func TestWorkerRevokesWhatRanOut(t *testing.T) {
	m := newLeased()
	m.grant(1, 10)
	m.grant(2, 100)
	m.Lead(3)
	start(t, m)
	wait.Until(t, "lease 1 known", func() bool {
		lt, err := m.ask(t, kvpart.CallLeaseTTL, 1)
		return err == nil && lt.Granted == 10
	})
	m.SetTick(10_000)
	m.grant(3, 100) // any news makes the worker look at the clock again
	wait.Until(t, "lease 1 revoked", func() bool { return slices.Equal(m.gone(), []int64{1}) })
	if lt, err := m.ask(t, kvpart.CallLeaseKeepAlive, 1); err != nil || lt.Granted != 0 {
		t.Errorf("renewing a lease that is gone: %+v, %v", lt, err)
	}
	if lt, err := m.ask(t, kvpart.CallLeaseKeepAlive, 2); err != nil || lt.Remaining != 100 {
		t.Errorf("renewing a live lease: %+v, %v", lt, err)
	}
}

// TestALeaseGrantedAgainIsAnotherOne: a client revokes a lease and grants one with its ID at once, before the worker has heard of either. The
// new one has its own time, not what the old one had left.
func TestALeaseGrantedAgainIsAnotherOne(t *testing.T) {
	for _, first := range []string{kvpart.CallLeaseTTL, kvpart.CallLeaseKeepAlive, ""} {
		m := newLeased()
		m.grant(1, 10)
		m.Lead(3)
		start(t, m)
		wait.Until(t, "lease 1 known", func() bool {
			lt, err := m.ask(t, kvpart.CallLeaseTTL, 1)
			return err == nil && lt.Granted == 10
		})
		m.SetTick(9_000)
		m.grant(1, 1000)
		if first != "" {
			if lt, err := m.ask(t, first, 1); err != nil || lt.Granted != 1000 || lt.Remaining != 1000 {
				t.Errorf("%s: %+v, %v", first, lt, err)
			}
		}
		time.Sleep(2 * hearPause)
		m.SetTick(11_000)
		m.grant(2, 100) // any news makes the worker look at the clock again
		time.Sleep(2 * hearPause)
		if got := m.gone(); got != nil {
			t.Errorf("revoked %v when the time of the lease before it was up", got)
		}
	}
}

func TestDeposedLeaderNeitherRevokesNorRenews(t *testing.T) {
	m := newLeased()
	m.grant(1, 10)
	m.Lead(3)
	start(t, m)
	wait.Until(t, "lease 1 known", func() bool {
		_, err := m.ask(t, kvpart.CallLeaseTTL, 1)
		return err == nil
	})
	m.Depose(true)
	if _, err := m.ask(t, kvpart.CallLeaseKeepAlive, 1); err == nil {
		t.Error("a leader that could not confirm its term renewed a lease")
	}
	m.SetTick(60_000)
	m.grant(2, 10)
	time.Sleep(100 * time.Millisecond)
	if got := m.gone(); got != nil {
		t.Errorf("a deposed leader revoked %v", got)
	}
	// The next term begins with the full time.
	m.Depose(false)
	m.Lead(4)
	wait.Until(t, "full time in the new term", func() bool {
		lt, err := m.ask(t, kvpart.CallLeaseTTL, 1)
		return err == nil && lt.Remaining == 10
	})
}

// TestLeaderThatSleptSaysOfNoLeaseThatItIsGone: a leader is stopped right after a round, and wakes when the lease would have expired
// without a new leader's renewal. It must ask again before it says so.
func TestLeaderThatSleptSaysOfNoLeaseThatItIsGone(t *testing.T) {
	m := newLeased()
	m.grant(1, 10)
	m.Lead(3)
	start(t, m)
	wait.Until(t, "lease 1 known", func() bool {
		_, err := m.ask(t, kvpart.CallLeaseTTL, 1)
		return err == nil
	})
	m.OnRound(func() error {
		m.SetTick(60_000)
		m.Depose(true)
		return nil
	})
	if left, err := m.ask(t, kvpart.CallLeaseKeepAlive, 1); err == nil {
		t.Errorf("a deposed leader says of a lease: %+v", left)
	}
	// One that still leads may say so.
	m.OnRound(nil)
	m.Depose(false)
	if left, err := m.ask(t, kvpart.CallLeaseKeepAlive, 1); err != nil || left.Granted != 0 {
		t.Errorf("a leader says of a lease whose time is up: %+v, %v", left, err)
	}
}

// TestAMemberThatIsAloneRenewsAtOnce, and no other does: not one that shares its cluster, that follows, or that was deposed.
func TestAMemberThatIsAloneRenewsAtOnce(t *testing.T) {
	m := newLeased()
	m.grant(1, 10)
	w := newWorker(m, m)
	if _, ok := w.RenewAtOnce(1); ok {
		t.Error("a follower renews")
	}
	m.Lead(3)
	m.Run(t, w.Run)
	wait.Until(t, "lease 1 known", func() bool {
		_, err := m.ask(t, kvpart.CallLeaseTTL, 1)
		return err == nil
	})
	if _, ok := w.RenewAtOnce(1); ok {
		t.Error("a member that has to ask others renews")
	}
	m.Alone(true)
	m.SetTick(7_000)
	rounds := m.Rounds()
	if ttl, ok := w.RenewAtOnce(1); !ok || ttl != 10 {
		t.Errorf("renewed: %d s, %v", ttl, ok)
	}
	if lt, err := m.ask(t, kvpart.CallLeaseTTL, 1); err != nil || lt.Remaining != 10 {
		t.Errorf("after it was renewed: %+v, %v", lt, err)
	}
	if ttl, ok := w.RenewAtOnce(2); !ok || ttl != 0 {
		t.Errorf("a lease that is not there: %d s, %v", ttl, ok)
	}
	m.grant(2, 20) // the worker has not heard of it
	if ttl, ok := w.RenewAtOnce(2); !ok || ttl != 20 {
		t.Errorf("a new lease: %d s, %v", ttl, ok)
	}
	m.SetTick(17_000)
	if ttl, ok := w.RenewAtOnce(1); !ok || ttl != 0 {
		t.Errorf("a lease whose time is up: %d s, %v", ttl, ok)
	}
	if n := m.Rounds() - rounds; n != 0 {
		t.Errorf("%d rounds", n)
	}
	m.Depose(true)
	if _, ok := w.RenewAtOnce(2); ok {
		t.Error("a deposed leader renews")
	}
}

// TestAMemberThatIsNoLongerAloneSaysOfNoLeaseThatItIsGone: as the leader that slept, between the look at its place and the one at the lease.
func TestAMemberThatIsNoLongerAloneSaysOfNoLeaseThatItIsGone(t *testing.T) {
	m := newLeased()
	m.grant(1, 10)
	m.Lead(3)
	m.Alone(true)
	w := newWorker(m, m)
	m.Run(t, w.Run)
	wait.Until(t, "lease 1 known", func() bool {
		_, err := m.ask(t, kvpart.CallLeaseTTL, 1)
		return err == nil
	})
	m.SetTick(60_000)
	m.OnLookup(func() { m.Depose(true) })
	if ttl, ok := w.RenewAtOnce(1); ok {
		t.Errorf("a deposed leader says of a lease: %d s", ttl)
	}
	m.OnLookup(nil)
	m.Depose(false)
	if ttl, ok := w.RenewAtOnce(1); !ok || ttl != 0 {
		t.Errorf("a leader says of a lease whose time is up: %d s, %v", ttl, ok)
	}
}

func TestRenewalsShareRounds(t *testing.T) {
	m := newLeased()
	m.grant(1, 10)
	m.Lead(3)
	start(t, m)
	wait.Until(t, "leading", func() bool {
		_, err := m.ask(t, kvpart.CallLeaseTTL, 1)
		return err == nil
	})
	before := m.Rounds()
	var wg sync.WaitGroup
	for range 500 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if lt, err := m.ask(t, kvpart.CallLeaseKeepAlive, 1); err != nil || lt.Remaining != 10 {
				t.Errorf("renewal: %+v, %v", lt, err)
			}
		}()
	}
	wg.Wait()
	if n := m.Rounds() - before; n > 500 {
		t.Errorf("%d rounds for 500 renewals", n)
	}
}

// TestAGrantCostsTheSameBesideManyLeases: of a hundred thousand leases the worker looks at each once in a term, and afterwards at what has
// changed, however many there are.
func TestAGrantCostsTheSameBesideManyLeases(t *testing.T) {
	const leases, more = 100_000, 50
	m := newLeased()
	m.mu.Lock()
	for id := range int64(leases) {
		m.grants++
		m.leases[id+1] = kvmachine.Lease{ID: id + 1, TTL: 1000, Grant: m.grants}
	}
	m.mu.Unlock()
	m.Lead(3)
	start(t, m)
	known := func(id int64) func() bool {
		return func() bool {
			lt, err := m.ask(t, kvpart.CallLeaseTTL, id)
			return err == nil && lt.Granted == 1
		}
	}
	count := func() (told, whole int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.told, m.whole
	}
	wait.Until(t, "it has heard of all", func() bool { told, _ := count(); return told == leases })
	for id := int64(leases + 1); id <= leases+more; id++ {
		m.grant(id, 1)
		wait.Until(t, "it has heard of one more", func() bool { told, _ := count(); return told >= int(id) })
		if !known(id)() {
			t.Fatalf("lease %d is not known", id)
		}
	}
	if told, whole := count(); told != leases+more || whole != 1 {
		t.Errorf("%d leases and %d grants: it has looked at %d, and at all leases %d times", leases, more, told, whole)
	}
	m.SetTick(2000)
	m.grant(leases+more+1, 1000) // any news makes the worker look at the clock again
	wait.Until(t, "those that ran out are revoked", func() bool { return len(m.gone()) == more })
}

// TestATermBeginsWithAllLeases: what the worker heard in an earlier term is forgotten with that term's deadlines.
func TestATermBeginsWithAllLeases(t *testing.T) {
	m := newLeased()
	m.grant(1, 10)
	start(t, m)
	for term := range uint64(3) {
		m.Lead(term + 1)
		wait.Until(t, "it has read all leases", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.whole == int(term)+1 })
	}
	m.SetTick(10_000)
	m.grant(2, 100) // any news makes the worker look at the clock again
	wait.Until(t, "the lease is revoked", func() bool { return slices.Equal(m.gone(), []int64{1}) })
}

// TestAWorkerThatMissedChangesReadsAllLeases: what it was not told of is gone, or new, all the same.
func TestAWorkerThatMissedChangesReadsAllLeases(t *testing.T) {
	m := newLeased()
	m.kept = 3
	for id := range int64(10) {
		m.grant(id+1, 10)
	}
	m.Lead(3)
	start(t, m)
	wait.Until(t, "it leads", func() bool { _, err := m.ask(t, kvpart.CallLeaseTTL, 1); return err == nil })
	m.mu.Lock() // all at once
	for id := range int64(5) {
		m.end(id + 1)
	}
	m.mu.Unlock()
	m.SetTick(5_000)
	for id := int64(11); id <= 15; id++ {
		m.grant(id, 10)
	}
	wait.Until(t, "it has read all leases again", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.whole >= 2 })
	m.SetTick(10_000)
	m.grant(100, 1000) // any news makes the worker look at the clock again
	wait.Until(t, "the old ones are revoked", func() bool { return len(m.gone()) == 5 })
	if gone := m.gone(); slices.Min(gone) != 6 || slices.Max(gone) != 10 {
		t.Errorf("revoked %v", gone)
	}
}

func TestUnknownLeaseAndFollower(t *testing.T) {
	m := newLeased()
	start(t, m)
	if _, err := m.ask(t, kvpart.CallLeaseKeepAlive, 1); !errors.Is(err, node.ErrNotLeader) {
		t.Errorf("a follower answered a renewal: %v", err)
	}
	m.Lead(1)
	wait.Until(t, "leading", func() bool {
		lt, err := m.ask(t, kvpart.CallLeaseKeepAlive, 1)
		return err == nil && lt.Granted == 0
	})
	m.grant(5, 7)
	if lt, err := m.ask(t, kvpart.CallLeaseKeepAlive, 5); err != nil || lt.Remaining != 7 {
		t.Errorf("renewing a lease granted just now: %+v, %v", lt, err)
	}
}

// TestALeaseThatIsNotAppliedHereYet: a member that forwarded a grant may have applied it before the leader has, and its client asks at once.
func TestALeaseThatIsNotAppliedHereYet(t *testing.T) {
	m := newLeased()
	start(t, m)
	m.Lead(1)
	wait.Until(t, "leading", func() bool {
		lt, err := m.ask(t, kvpart.CallLeaseTTL, 1)
		return err == nil && lt.Granted == 0
	})
	m.OnRound(func() error {
		m.grant(5, 7)
		return nil
	})
	if lt, err := m.ask(t, kvpart.CallLeaseTTL, 5); err != nil || lt.Granted != 7 || lt.Remaining != 7 {
		t.Errorf("a lease that another member has applied: %+v, %v", lt, err)
	}
}

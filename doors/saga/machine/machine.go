// Package machine is the deterministic machine behind global transactions. It has their definitions, branches, progress and next due time,
// and the subscribers of topics. A transaction has a number of its own. Its gid is a name that may be used again once it is forgotten, and
// no row is found by the beginning of a gid.
//
// It makes no calls and decides nothing about services. doors/saga/advance decides that, by commands that name the status they expect.
//
// It is not the door either: it knows neither HTTP nor DTM's words for errors.
//
// Transactions live in the store. Memory holds a bounded cache of open ones for Apply (slot.go) and a bounded filter of used gids
// (gids.go). It also holds a ring of recently set timers for the worker (timers.go). So a million open transactions cost next to nothing.
// Apply changes heads in memory and writes each changed one once per entry, in Finish. Readers (reader.go, list.go) see only published
// entries.
//
// Transactions go by a clock of the machine's own: the cluster's tick and what Elapse has added to it. The tick stands still while no
// member runs. Leases need that, because their holders could not renew them. A message that is due at noon has to go out at once when the
// cluster comes back after noon.
package machine

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// RetentionMs is for how long a transaction that has ended is kept unless a Retain or Options say otherwise: DTM's FinishedDataExpire.
const RetentionMs = 86_400_000

// Options bound the machine's memory. Zero fields take the defaults.
type Options struct {
	// CacheBytes bounds what Apply keeps of open transactions. Default 8 MiB.
	CacheBytes int
	// FilterBytes bounds the filter that recognises new gids without a read, about 3.2 bytes for each open or kept transaction. It grows as
	// they come. Default 8 MiB, for about a million.
	FilterBytes int
	// RecentTimers is how many of the newest timers Recent can go back. Default 16,384, of 16 bytes each.
	RecentTimers int
	// RetentionMs is for how long a transaction that has ended is kept until a Retain says otherwise, in milliseconds of the machine's clock.
	// Default RetentionMs. Every member must have the same: it is part of what Apply does.
	RetentionMs int64
}

// Machine is the saga machine. Check, Do, Finish, Publish and Load belong to the apply goroutine; the methods of reader.go, list.go,
// timers.go and watch.go may be called from anywhere.
type Machine struct {
	opt Options
	st  store.Store // set by Load; safe for concurrent use
	applying
	gate *machine.Gate // the applier's, from Load: closed while an entry becomes visible
	published
	timers  ring
	watches watches
	// cacheMost is the most that the cache keeps after an entry, in bytes.
	cacheMost atomic.Int64
}

// applying is the state of Check, Do and Finish for one entry, with memory kept from entry to entry. Apply goroutine only.
type applying struct {
	now      counters
	changed  bool // now differs from its row
	cache    cache
	gids     gidFilter
	dirty    []*slot // changed by this entry, in order of their first change
	notes    []note  // the news for watchers of this entry's transactions
	set      []Timer // timers that this entry leaves
	topics   []*topicSlot
	oldest   int64  // no row of the retention space has an earlier tick
	retired  []byte // and none is below this key
	at       int64  // the clock at the last entry
	part     sagapart.Part
	plan     plan
	key, row []byte // scratch for building rows
	branches []byte // scratch: the branches of a plan, encoded
	defined  []byte // scratch: the row of a plan, plan.defined
}

// published is what readers see beside the store.
type published struct {
	held    atomic.Bool
	elapsed atomic.Int64
	kept    atomic.Int64 // the retention, in ms
	cached  atomic.Int64 // bytes of the cache after the last entry
	counts  [lastCount]atomic.Int64
}

// New returns a machine that is usable after Load.
func New(opt Options) *Machine {
	if opt.CacheBytes <= 0 {
		opt.CacheBytes = 8 << 20
	}
	if opt.FilterBytes <= 0 {
		opt.FilterBytes = 8 << 20
	}
	if opt.RecentTimers <= 0 {
		opt.RecentTimers = 16_384
	}
	if opt.RetentionMs <= 0 {
		opt.RetentionMs = RetentionMs
	}
	m := &Machine{opt: opt, gate: new(machine.Gate)}
	m.BoundCache(int64(opt.CacheBytes))
	return m
}

// Spec is what others must know of this machine.
var Spec = machine.Spec{ID: sagapart.Machine, Name: "saga", Level: sagapart.Level, LastLevel: sagapart.RetainLevel, PartLevel: sagapart.PartLevel, DescribePart: sagapart.Describe, DescribeRow: DescribeRow,
	Uncounted: sagapart.EncodeElapse, Restore: restoreRow, FromClient: sagapart.FromClient, Census: func() machine.Census { return new(census) }}

// Spec implements machine.Machine.
func (m *Machine) Spec() *machine.Spec { return &Spec }

// Load implements machine.Machine. It reads the counters and one row of the retention space, never a transaction: its cost does not grow
// with them.
func (m *Machine) Load(st store.Store, gate *machine.Gate) error {
	now := counters{next: 1}
	row, ok, err := st.Get(nil, countersKey)
	if err != nil {
		return fmt.Errorf("load counters: %w", err)
	}
	if ok {
		if now, err = decodeCounters(row); err != nil {
			return err
		}
	}
	oldest, err := oldestRetired(st, retiredSpace)
	if err != nil {
		return err
	}

	if m.st != st || m.gate != gate { // readers look at them without a lock; they stay the same over a snapshot install
		m.st, m.gate = st, gate
	}
	m.applying = applying{now: now, oldest: oldest, retired: retiredSpace, at: math.MinInt64}
	m.cache.reset(int(m.cacheMost.Load()))
	m.gids.reset(m.opt.FilterBytes, now.transactions())
	m.timers.reset(m.opt.RecentTimers)
	m.show()
	return nil
}

// Finish implements machine.Finisher: it forgets a piece of the expired transactions, and writes each changed one once, the topics and the
// counters.
func (m *Machine) Finish(st *entry.Stamp, b store.Batch) error {
	m.plan = plan{}
	m.at = m.clock(st)
	if err := m.forget(st, b); err != nil {
		return err
	}
	m.writeHeads(b)
	m.retire(st, b)
	m.writeTopics(b)
	if err := m.gids.walk(m.st, m.now.transactions()); err != nil {
		return err
	}
	if m.changed {
		m.row = appendCounters(m.row[:0], &m.now)
		b.Set(countersKey, m.row)
		m.changed = false
	}
	return nil
}

// Unfinished implements machine.Finisher: it reports whether transactions are left that may be forgotten.
func (m *Machine) Unfinished() bool { return m.oldest <= m.at }

// Publish implements machine.Machine.
func (m *Machine) Publish(*entry.Stamp) {
	later := m.now.elapsed != m.elapsed.Load()
	m.show()
	m.timers.push(m.set)
	if later {
		m.timers.stir()
	}
	m.watches.tell(m.notes)
	m.settle()
}

// show makes the entry what readers see beside the store; the gate is closed.
func (m *Machine) show() {
	m.held.Store(m.now.held)
	m.elapsed.Store(m.now.elapsed)
	m.kept.Store(m.retention())
	for i := range m.now.counts {
		m.counts[i].Store(m.now.counts[i])
	}
}

// maxIdle is the capacity kept from one entry to the next: one large entry must not hold its memory for ever.
const (
	maxIdle      = 1 << 13
	maxIdleBytes = 1 << 20
)

// settle forgets what belonged to the entry only.
func (m *Machine) settle() {
	for _, s := range m.dirty {
		s.settle()
		if s.exists && !s.status.Final() {
			m.cache.resize(s)
		} else {
			m.cache.drop(s) // a later request comes only from a client that repeats itself
		}
	}
	if cap(m.dirty) > maxIdle {
		m.dirty, m.notes, m.set = nil, nil, nil
	}
	clear(m.dirty)
	clear(m.notes)
	clear(m.topics)
	m.dirty, m.notes, m.set, m.topics = m.dirty[:0], m.notes[:0], m.set[:0], m.topics[:0]
	if cap(m.row) > maxIdleBytes || cap(m.branches) > maxIdleBytes {
		m.row, m.branches = nil, nil
	}
	m.part = sagapart.Part{} // its payloads are the entry's
	m.cache.most = int(m.cacheMost.Load())
	m.cache.shrink()
	m.cached.Store(int64(m.cache.bytes))
}

// BoundCache sets how many bytes Apply keeps of open transactions, from the next entry on. Any goroutine.
func (m *Machine) BoundCache(bytes int64) { m.cacheMost.Store(max(bytes, 1)) }

// CacheBytes returns how many bytes Apply keeps of open transactions. Any goroutine.
func (m *Machine) CacheBytes() int64 { return m.cached.Load() }

// Held reports whether no call may go out: the state comes from a restored snapshot, and no operator has said Resume. Any goroutine.
func (m *Machine) Held() bool { return m.held.Load() }

// clock is the machine's clock at an entry, in milliseconds.
func (m *Machine) clock(st *entry.Stamp) int64 { return after(st.TickMs, m.now.elapsed) }

// after adds a time that is not negative, and stays below every int64 that means something else.
func after(at, ms int64) int64 { return at + min(ms, math.MaxInt64-1-at) }

// Elapsed is by how many milliseconds the machine's clock is ahead of the cluster's tick. Any goroutine.
func (m *Machine) Elapsed() int64 { return m.elapsed.Load() }

// Retention is for how many milliseconds a transaction that ends now is kept. Any goroutine.
func (m *Machine) Retention() int64 { return m.kept.Load() }

// Counts returns how many transactions and topics there are. Any goroutine.
func (m *Machine) Counts() Counts {
	n := func(i int) int64 { return m.counts[i].Load() }
	return Counts{Prepared: n(int(sagapart.Prepared)), Submitted: n(int(sagapart.Submitted)), Succeed: n(int(sagapart.Succeed)),
		Aborting: n(int(sagapart.Aborting)), Failed: n(int(sagapart.Failed)), Topics: n(countTopics)}
}

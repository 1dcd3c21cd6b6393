// Package machine is the deterministic key-value machine with the semantics of etcd v3: revisions and their history, Txns, leases with
// attached keys, compaction, alarms. It is pure state and knows neither time, network nor permissions. Leases expire by a worker's command;
// the door judges quotas and request limits. Apply works on the entry's own writes laid over the store (entrywrites.go), so that later
// commands of an entry see the earlier ones. The rows are written once per entry, in Finish.
//
// Readers (reader.go) see only published entries.
package machine

import (
	"fmt"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// Options bound the machine's memory. Zero fields take the defaults.
type Options struct {
	// CacheBytes bounds the memory for keys seen lately: their meta and a small value, which a put needs. A sixteenth of it names the
	// newest versions with long values. Default 64 MiB.
	CacheBytes int
	// HotBytes bounds the versions of keys that are kept for readers, those that are read most. Default 1 MiB.
	HotBytes int
	// FilterBytes bounds the filter of keys that exist, about 1.6 bytes each (see keyFilter). Default 4 MiB.
	FilterBytes int
	// RecentBytes bounds the ring of recent events that watches read (see Recent). Default 8 MiB.
	RecentBytes int
	// TxnResultBytes bounds what the ranges and previous values of one applied command may return. Default 16 MiB.
	TxnResultBytes int64
	// PastBytes bounds the changes that reads in the past gather, half of it for repeated reads of the same interval. Default 4 MiB.
	PastBytes int
	// BlockBytes bounds what is known of how many keys lie where (see blocks), about 70 bytes for every 128 keys. Default 4 MiB.
	BlockBytes int
}

// Machine is the kv machine. Check, Do, Finish, Publish and Load belong to the apply goroutine; the readers in
// reader.go may be called from anywhere.
type Machine struct {
	opt Options
	st  store.Store // set by Load; safe for concurrent use
	applying
	gate *machine.Gate // the applier's, from Load: closed while an entry becomes visible
	published
	lists pastLists
	stats Stats
	// Options that may change (memory.go), and the cache's size after the last entry. Any goroutine.
	cacheMost, latestMost, hotMost, recentMost, cacheHeld atomic.Int64
}

// applying is the state of Check, Do and Finish for one entry, with memory kept from entry to entry. Apply goroutine only.
type applying struct {
	now        sums           // with the entry's effects so far
	dirty      bool           // now differs from the row in the store
	entry      entryWrites    // the keys written by this entry
	cache      metaCache      // newest metas, this entry's included
	filter     keyFilter      // keys that exist
	plan       plan           // the one between Check and Do
	open       bool           // plan's writes are in entry but not carried out yet
	decoder    kvpart.Decoder // of parts
	leaseLog   []leaseWrite   // grants and revokes of this entry, in order
	leaseNow   map[int64]int  // lease → its newest place in leaseLog
	alarmLog   []alarmWrite
	events     []Event // of this entry, built in Finish
	births     []birth // of this entry, the newest state of a key against the store's; found in Finish
	overflow   bool    // this entry has more events than the feed can hold
	key, row   []byte  // scratch for building rows
	tally      tally   // this entry's effects, for stats
	fewDeletes int     // of one command with slots in the cache; set once, tests lower it
	noted      func()  // of tests that read while Publish is at work; nil
	// compactedNs is the wall time of the compaction whose history is being dropped, 0 if there is none or it began before Load.
	compactedNs int64
}

// published is what readers see. It is written by the apply goroutine while the gate is closed, and read by it at any time.
type published struct {
	pub       sums
	leases    map[int64]granted
	grants    uint64 // counts leases this process has learned of
	leaseNews leaseChanges
	alarms    []kvpart.AlarmState
	feed      feed
	blocks    blocks
	hot       atomic.Pointer[hotRows] // of the store it was loaded for
	latest    latest

	// Copies of pub for readers that do not lock.
	pubRev, pubCompacted, pubHistory, pubInUse, pubEdge atomic.Int64

	// Channels that readers wait on; nil without waiting readers. Guarded by the gate's lock.
	revChanged, leaseChanged chan struct{}
}

// New returns a machine that is usable after Load.
func New(opt Options) *Machine {
	if opt.CacheBytes <= 0 {
		opt.CacheBytes = 64 << 20
	}
	if opt.HotBytes <= 0 {
		opt.HotBytes = 1 << 20
	}
	if opt.FilterBytes <= 0 {
		opt.FilterBytes = 4 << 20
	}
	if opt.RecentBytes <= 0 {
		opt.RecentBytes = 8 << 20
	}
	if opt.TxnResultBytes <= 0 {
		opt.TxnResultBytes = 16 << 20
	}
	if opt.PastBytes <= 0 {
		opt.PastBytes = 4 << 20
	}
	if opt.BlockBytes <= 0 {
		opt.BlockBytes = 4 << 20
	}
	m := &Machine{opt: opt, gate: new(machine.Gate)}
	m.fewDeletes = usualFewDeletes
	m.lists.setUp(opt.PastBytes / 2)
	m.blocks.setUp(usualBounds(opt.BlockBytes))
	m.latest.setUp(opt.CacheBytes / latestPart)
	m.opt.CacheBytes -= opt.CacheBytes / latestPart
	m.cacheMost.Store(int64(m.opt.CacheBytes))
	m.latestMost.Store(int64(opt.CacheBytes / latestPart))
	m.hotMost.Store(int64(m.opt.HotBytes))
	m.recentMost.Store(int64(m.opt.RecentBytes))
	return m
}

// Spec is what others must know of this machine.
var Spec = machine.Spec{ID: entry.MachineKV, Name: "kv", LastLevel: kvpart.ByRangeLevel, PartLevel: kvpart.PartLevel, DescribePart: kvpart.Describe, DescribeRow: DescribeRow, Restore: restoreRow,
	FromClient: kvpart.FromClient, Census: func() machine.Census { return new(census) }}

// Spec implements machine.Machine.
func (m *Machine) Spec() *machine.Spec { return &Spec }

// Load implements machine.Machine. It reads the counters, leases and alarms, never the keys: its cost does not grow with the data.
func (m *Machine) Load(st store.Store, gate *machine.Gate) error {
	now := freshSums
	row, ok, err := st.Get(nil, sumsKey)
	if err != nil {
		return fmt.Errorf("load counters: %w", err)
	}
	if ok {
		if now, err = decodeSums(row); err != nil {
			return err
		}
	}
	leases, err := loadLeases(st, &m.grants)
	if err != nil {
		return err
	}
	alarms, err := loadAlarms(st)
	if err != nil {
		return err
	}

	if m.st != st || m.gate != gate { // readers look at them without a lock; they stay the same over a snapshot install
		m.st, m.gate = st, gate
	}
	m.now, m.dirty = now, false
	m.entry.reset()
	m.latest.clear() // before, as in Publish
	m.renewHot()
	m.cache.reset(int(m.cacheMost.Load()))
	m.filter.reset(m.opt.FilterBytes, now.keys)
	m.open = false
	m.compactedNs = 0
	m.leaseLog, m.leaseNow, m.alarmLog, m.events = nil, nil, nil, nil
	m.leases, m.alarms = leases, alarms
	m.leaseNews.reset()
	m.feed.reset(now.rev, int(m.recentMost.Load()))
	m.lists.reset()
	m.births = nil
	m.blocks.reset(now.keys)
	m.wake(&m.leaseChanged)
	m.wake(&m.revChanged)
	m.show()
	return nil
}

// Keep implements machine.Keeper.
func (m *Machine) Keep(n int) { m.entry.data = n }

// Do implements machine.Machine. Everything that could go wrong went wrong in Check: it only makes the plan's effects count. Its rows
// follow in Finish, once per key however often the entry writes it; those of a sweep are written here.
func (m *Machine) Do(at *entry.Stamp, p any, b store.Batch, wanted bool) (any, error) {
	pl := p.(*plan)
	m.open = false
	m.now.rev = pl.rev
	m.dirty = m.dirty || len(m.entry.writes) > pl.start || pl.rest != nil
	m.tally.countOps(pl)
	if pl.rest != nil {
		n, err := m.sweep(pl.rest, b)
		if err != nil {
			return nil, err
		}
		pl.deleted[0] += int32(n)
	}
	switch part := pl.part; {
	case part.Compact != nil:
		m.now.compacted = part.Compact.Revision
		m.stats.compacted(at)
		if m.compactedNs == 0 {
			m.compactedNs = at.WallNs
		}
		m.dirty = true
	case part.Grant != nil:
		m.logLease(leaseWrite{id: part.Grant.ID, ttl: part.Grant.TTL})
		m.stats.granted(part.Grant.TTL)
	case part.Revoke != nil:
		m.stats.Revoked.Add(uint64(len(pl.revoked)))
		for _, id := range pl.revoked {
			m.logLease(leaseWrite{id: id, revoked: true})
		}
	case part.Alarm != nil:
		m.alarmLog = append(m.alarmLog, pl.alarms...)
	}
	if !wanted {
		return nil, nil
	}
	return m.result(pl)
}

// Finish implements machine.Finisher: it writes the entry's rows, a piece of a scrub that is under way, and the counters.
func (m *Machine) Finish(at *entry.Stamp, b store.Batch) error {
	m.dropPlan()
	m.writeRows(b)
	m.sortBirths()
	m.writeLeases(b)
	m.writeAlarms(b)
	if err := m.scrub(b); err != nil {
		return err
	}
	if m.compactedNs != 0 && !m.Unfinished() {
		m.stats.scrubbedAll(m.compactedNs, at.WallNs)
		m.compactedNs = 0
	}
	if err := m.filter.walk(m.st); err != nil {
		return err
	}
	if m.dirty {
		m.row = appendSums(m.row[:0], &m.now)
		b.Set(sumsKey, m.row)
		m.dirty = false
	}
	// An entry that changes more keys than the feed can hold (one delete of everything) would only fill memory.
	if m.overflow = m.entry.eventBytes() > int(m.recentMost.Load()); m.overflow {
		m.events = nil
	} else {
		m.events = m.entry.appendEvents(m.events[:0])
	}
	return nil
}

// Publish implements machine.Machine.
func (m *Machine) Publish(*entry.Stamp) {
	if len(m.leaseLog) > 0 {
		m.publishLeases()
	}
	if len(m.alarmLog) > 0 {
		m.publishAlarms()
	}
	if m.now.rev != m.pub.rev {
		if m.overflow {
			m.feed.reset(m.now.rev, int(m.recentMost.Load()))
		} else {
			m.feed.limit = int(m.recentMost.Load())
			m.feed.append(m.events, m.now.rev)
		}
		m.wake(&m.revChanged)
	}
	// In this order: a reader that has begun after its row was made invalid keeps what it finds. If it still found the old version, it would keep that.
	m.noteLatest()
	if m.noted != nil {
		m.noted()
	}
	m.forgetChanged()
	for _, s := range m.entry.sweeps {
		m.blocks.sweep(s)
	}
	m.publishBirths()
	m.show()
	m.publishTally()
	m.entry.reset()
	m.cache.shrink(int(m.cacheMost.Load()))
	m.latest.bound(int(m.latestMost.Load()))
	m.cacheHeld.Store(int64(m.cache.packed.bytes() + m.latest.bytes()))
}

// noteLatest notes where the newest versions of the entry's keys are. The store has them by now, and no reader knows of their revision yet.
func (m *Machine) noteLatest() {
	if len(m.entry.sweeps) > 0 { // deletes without named keys; the entry's writes may be among them
		m.latest.clear()
		return
	}
	for i := range m.entry.writes {
		if w := &m.entry.writes[i]; int(w.slot.last) == i+1 {
			m.latest.note(w.slot.key, &w.new)
		}
	}
}

// forgetChanged makes the readers' copies of the entry's keys invalid. The store has the changes by now, and no reader knows of their
// revision yet. Earlier, a reader could keep the old row again; later, a reader with the new revision could meet the old row.
func (m *Machine) forgetChanged() {
	hot := m.hot.Load()
	if len(m.entry.writes) > hot.places || len(m.entry.sweeps) > 0 {
		hot.forgetAll()
		return
	}
	for i := range m.entry.writes {
		if w := &m.entry.writes[i]; int(w.slot.last) == i+1 {
			hot.forget(w.slot.key)
		}
	}
}

// show makes now what readers see; the gate is closed.
func (m *Machine) show() {
	m.pub = m.now
	m.pubRev.Store(m.now.rev)
	m.pubCompacted.Store(m.now.compacted)
	m.pubHistory.Store(m.now.history)
	m.pubInUse.Store(m.now.inUse)
	m.pubEdge.Store(m.now.edge)
	m.stats.Keys.Store(m.now.keys)
}

// wake closes a channel readers wait on; the caller holds the gate's lock, or the gate is closed.
func (m *Machine) wake(ch *chan struct{}) {
	if *ch != nil {
		close(*ch)
		*ch = nil
	}
}

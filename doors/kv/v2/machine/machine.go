// Package machine is the deterministic machine behind etcd's v2 keys API. It has a tree of directories and keys with an index of its own,
// nodes with a TTL, and the last 1,000 events for watches. It is a namespace of its own beside doors/kv/machine, as in etcd 3.4. It is pure
// state and does not know HTTP. A worker's command decides when expired nodes are removed (doors/kv/v2/expire), judged against the tick of
// the entry that carries it.
//
// The tree lives in the store. Memory holds a bounded cache of nodes for Apply (tree.go) and a bounded ring of recent events for readers
// (feed.go). Events dropped from the ring are read from the store again. Apply changes nodes in memory and writes each changed one once per
// entry, in Finish. Readers (reader.go) see only published entries.
package machine

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// HistoryEvents is how many events a watch can go back.
const HistoryEvents = 1000

// freshIndex is the index of an empty tree. A fresh etcd 3.4 of one member answers 3, having used up the others on notes about itself. The
// same start spares clients a difference.
const freshIndex = 3

// Options bound the machine's memory. Zero fields take the defaults.
type Options struct {
	// CacheBytes bounds what Apply keeps of the tree. Default 8 MiB.
	CacheBytes int
	// RecentBytes bounds the ring of recent events that watches read. Default 4 MiB.
	RecentBytes int
}

// Machine is the v2 machine. Check, Do, Finish, Publish and Load belong to the apply goroutine; the methods of
// reader.go, feed.go and deadline.go may be called from anywhere.
type Machine struct {
	opt Options
	st  store.Store // set by Load; safe for concurrent use
	applying
	gate *machine.Gate // the applier's, from Load: closed while an entry becomes visible; a reader that needs an iterator takes it under the lock
	published
	stats Stats
	// cacheMost is how many bytes of the tree Apply may keep, cacheHeld how many it kept after the last entry. Any goroutine.
	cacheMost, cacheHeld atomic.Int64
}

// applying is the state of Check, Do and Finish for one entry, with memory kept from entry to entry. Apply goroutine only.
type applying struct {
	index    uint64 // of the last change, this entry's included
	base     uint64 // index before this entry
	root     slot   // "/": always there, never changed
	cache    cache
	dirty    []*slot  // changed by this entry, in order of their first change
	events   []*Event // of this entry
	blocks   []uint64 // last index of each history row in the store, oldest first
	part     v2part.Part
	plan     plan
	path     []byte // scratch: the path of an in-order node
	key, row []byte // scratch for building rows
	cursor   []byte // no deadline row is below this key; replaced, never modified
	back     bool   // cursor has gone back to a row of this entry
	next     int64  // the earliest deadline may have moved down to this; never: it did not
}

// published is what readers see. It is written by the apply goroutine while the gate is closed.
type published struct {
	pubIndex  atomic.Uint64
	pubTick   atomic.Int64 // of the last entry: deadlines to come are not before it
	pubCursor []byte       // as cursor; NextDeadline moves it up
	feed      feed
	changed   chan struct{} // closed at the next change; nil without waiting readers
	sooner    chan struct{} // closed when a node has got a deadline before soonest; nil without waiting readers
	soonest   int64
}

// New returns a machine that is usable after Load.
func New(opt Options) *Machine {
	if opt.CacheBytes <= 0 {
		opt.CacheBytes = 8 << 20
	}
	if opt.RecentBytes <= 0 {
		opt.RecentBytes = 4 << 20
	}
	m := &Machine{opt: opt, gate: new(machine.Gate)}
	m.cacheMost.Store(int64(opt.CacheBytes))
	return m
}

// Spec is what others must know of this machine.
var Spec = machine.Spec{ID: entry.MachineEtcd2, Name: "etcd2", DescribePart: v2part.Describe, DescribeRow: DescribeRow, Restore: restoreRow,
	FromClient: v2part.FromClient, Census: func() machine.Census { return new(census) }}

// Spec implements machine.Machine.
func (m *Machine) Spec() *machine.Spec { return &Spec }

// Load implements machine.Machine. It reads the index and the history, never the tree: its cost does not grow with it.
func (m *Machine) Load(st store.Store, gate *machine.Gate) error {
	index := uint64(freshIndex)
	row, ok, err := st.Get(nil, indexKey)
	if err != nil {
		return fmt.Errorf("load index: %w", err)
	}
	if ok {
		if index, err = decodeIndex(row); err != nil {
			return err
		}
	}
	events, blocks, err := loadHistory(st, m.opt.RecentBytes)
	if err != nil {
		return err
	}

	if m.st != st || m.gate != gate { // readers look at them without a lock; they stay the same over a snapshot install
		m.st, m.gate = st, gate
	}
	m.index, m.base = index, index
	m.root = slot{path: "/", node: node{exists: true, dir: true}}
	m.cache.reset(int(m.cacheMost.Load()))
	m.dirty, m.events, m.blocks = nil, nil, blocks
	m.cursor, m.next = []byte{letter, spaceDeadline}, never
	m.pubTick.Store(0)
	m.pubCursor = m.cursor
	m.feed.reset(m.opt.RecentBytes, index)
	m.feed.append(events, index)
	m.wake(&m.changed)
	m.wake(&m.sooner)
	m.show()
	return nil
}

// Finish implements machine.Finisher: it writes each changed node once, the entry's history row, and the index.
func (m *Machine) Finish(_ *entry.Stamp, b store.Batch) error {
	for _, s := range m.dirty {
		m.writeNode(b, s)
	}
	if m.index != m.base {
		m.writeHistory(b)
		m.row = appendIndex(m.row[:0], m.index)
		b.Set(indexKey, m.row)
	}
	return nil
}

// Unfinished implements machine.Finisher: no work is carried from one entry to the next.
func (m *Machine) Unfinished() bool { return false }

// Publish implements machine.Machine.
func (m *Machine) Publish(st *entry.Stamp) {
	m.pubTick.Store(st.TickMs)
	if m.index != m.base {
		m.feed.append(m.events, m.index)
		m.wake(&m.changed)
	}
	if m.next < m.soonest {
		m.soonest = m.next
		m.wake(&m.sooner)
	}
	if m.back || bytes.Compare(m.cursor, m.pubCursor) > 0 {
		m.pubCursor, m.back = m.cursor, false
	}
	m.show()
	m.settle()
}

// show makes the entry what readers see; the gate is closed.
func (m *Machine) show() {
	m.pubIndex.Store(m.index)
}

// settle forgets what belonged to the entry only.
func (m *Machine) settle() {
	m.base, m.next = m.index, never
	for _, s := range m.dirty {
		s.dirty = false
		s.stored = stored{exists: s.node.exists, deadline: s.node.deadline}
	}
	if cap(m.dirty) > maxIdle {
		m.dirty, m.events = nil, nil
	}
	clear(m.dirty)
	clear(m.events)
	m.dirty, m.events = m.dirty[:0], m.events[:0]
	m.cache.rotate(int(m.cacheMost.Load()))
	m.cacheHeld.Store(int64(m.cache.bytes + m.cache.aged))
}

// maxIdle is the capacity kept from one entry to the next: one large expiry must not hold its memory for ever.
const maxIdle = 1 << 13

// wake closes a channel readers wait on; the caller holds the gate's lock, or the gate is closed.
func (m *Machine) wake(ch *chan struct{}) {
	if *ch != nil {
		close(*ch)
		*ch = nil
	}
}

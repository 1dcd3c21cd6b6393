package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/google/btree"
)

// Mem is a Store in memory for simulation. It has no background work, flushes only when Flush is called, and loses everything since on
// Crash. It holds all keys in memory and is not meant for production.
type Mem struct {
	mu      sync.Mutex
	cur     *memTree // the readers' tree; replaced as a whole by Install
	durable *btree.BTreeG[pair]
	applied uint64
	flushes int64

	superseded uint64
	closed     bool
}

// memTree is one store's life between two Installs. Views and iterators remember theirs to notice that it is over.
type memTree struct {
	tree     *btree.BTreeG[pair] // guarded by Mem.mu
	replaced bool                // guarded by Mem.mu
}

// pair is one key with its value. Neither is ever modified once it is in a tree: clones share them.
type pair struct{ key, value []byte }

func pairLess(a, b pair) bool { return bytes.Compare(a.key, b.key) < 0 }

func newTree() *btree.BTreeG[pair] { return btree.NewG(16, pairLess) }

// NewMem returns an empty store whose applied index is 0.
func NewMem() *Mem {
	t := newTree()
	return &Mem{cur: &memTree{tree: t}, durable: t.Clone()}
}

// Crash returns the store as a restart would find it: everything after the last Flush (or Install) is lost. The crashed
// store, its Views and its iterators answer ErrClosed from then on.
func (m *Mem) Crash() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	next := &Mem{cur: &memTree{tree: m.durable.Clone()}, durable: m.durable}
	next.applied = appliedIn(next.cur.tree)
	return next
}

func appliedIn(t *btree.BTreeG[pair]) uint64 {
	p, ok := t.Get(pair{key: AppliedKey})
	if !ok {
		return 0
	}
	return binary.BigEndian.Uint64(p.value)
}

// check reports why t cannot be read any more; the caller holds mu.
func (m *Mem) check(t *memTree) error {
	switch {
	case m.closed:
		return ErrClosed
	case t.replaced:
		return ErrReplaced
	}
	return nil
}

// Get implements Reader.
func (m *Mem) Get(dst, key []byte) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(m.cur); err != nil {
		return dst, false, err
	}
	p, ok := m.cur.tree.Get(pair{key: key})
	return append(dst, p.value...), ok, nil
}

// NewIter implements Reader.
func (m *Mem) NewIter(lower, upper []byte) (Iter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(m.cur); err != nil {
		return nil, err
	}
	return newMemIter(m, m.cur, m.cur.tree.Clone(), lower, upper), nil
}

// NewAhead implements Store: a simulation has one goroutine.
func (m *Mem) NewAhead(lower, upper []byte) (Iter, error) { return m.NewIter(lower, upper) }

// NewView implements Store.
func (m *Mem) NewView() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memView{m: m, origin: m.cur, tree: m.cur.tree.Clone()}
}

// NewBatch implements Store.
func (m *Mem) NewBatch() Batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memBatch{origin: m.cur}
}

// Commit implements Store.
func (m *Mem) Commit(b Batch, applied uint64) error {
	mb := b.(*memBatch)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(mb.origin); err != nil {
		return err
	}
	if applied < m.applied {
		return fmt.Errorf("commit batch: applied index goes back from %d to %d", m.applied, applied)
	}
	// Trees keep what they are given, so the strings are copied once, all together.
	if err := decodeOps(bytes.Clone(mb.ops), m.apply); err != nil {
		return err
	}
	m.cur.tree.ReplaceOrInsert(pair{AppliedKey, binary.BigEndian.AppendUint64(nil, applied)})
	m.applied = applied
	m.superseded += uint64(mb.overwrote)
	return nil
}

// Superseded implements Store. Ranges that are deleted are not counted.
func (m *Mem) Superseded() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.superseded
}

func (m *Mem) apply(kind byte, key, value []byte) error {
	t := m.cur.tree
	switch kind {
	case opSet:
		t.ReplaceOrInsert(pair{key, value})
	case opDelete:
		t.Delete(pair{key: key})
	case opDeleteRange:
		var gone []pair
		t.AscendRange(pair{key: key}, pair{key: value}, func(p pair) bool {
			gone = append(gone, p)
			return true
		})
		for _, p := range gone {
			t.Delete(p)
		}
	}
	return nil
}

// Applied implements Store.
func (m *Mem) Applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// DurableApplied implements Store.
func (m *Mem) DurableApplied() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return appliedIn(m.durable), nil
}

// Flush implements Store.
func (m *Mem) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.durable = m.cur.tree.Clone()
	m.flushes++
	return nil
}

// Rest implements Store: there are no blocks.
func (m *Mem) Rest() {}

// BoundCache implements Store: there is none.
func (m *Mem) BoundCache(int64) {}

// Incoming implements Store.
func (m *Mem) Incoming() (Incoming, error) { return &memIncoming{tree: newTree()}, nil }

// Install implements Store. The switch is durable when it returns, and atomic: a crash finds the old store or the new one.
func (m *Mem) Install(in Incoming) error {
	mi := in.(*memIncoming)
	if !mi.finished {
		return errors.New("install store: incoming is not finished")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.cur.replaced = true
	m.cur = &memTree{tree: mi.tree}
	m.durable = mi.tree.Clone()
	m.applied = appliedIn(mi.tree)
	return nil
}

// SeparateValues implements Store: in memory all values are apart.
func (m *Mem) SeparateValues() error { return nil }

// Metrics implements Store. There is no disk, so only Flushes is told.
func (m *Mem) Metrics() Metrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Metrics{Flushes: m.flushes}
}

// Close implements Store. Like the real store it does not flush.
func (m *Mem) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// memView is a View: a clone of the tree, which costs nothing until one side is written to.
type memView struct {
	m      *Mem
	origin *memTree
	tree   *btree.BTreeG[pair] // guarded by m.mu
}

func (v *memView) Get(dst, key []byte) ([]byte, bool, error) {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if err := v.m.check(v.origin); err != nil {
		return dst, false, err
	}
	p, ok := v.tree.Get(pair{key: key})
	return append(dst, p.value...), ok, nil
}

func (v *memView) NewIter(lower, upper []byte) (Iter, error) {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if err := v.m.check(v.origin); err != nil {
		return nil, err
	}
	return newMemIter(v.m, v.origin, v.tree.Clone(), lower, upper), nil
}

func (v *memView) Close() error { return nil }

// memIncoming builds a replacement tree. It is owned by one goroutine.
type memIncoming struct {
	tree     *btree.BTreeG[pair]
	last     []byte
	finished bool
}

func (in *memIncoming) Set(key, value []byte) error {
	if err := checkIncomingKey(in.last, key); err != nil {
		return err
	}
	in.last = bytes.Clone(key)
	in.tree.ReplaceOrInsert(pair{in.last, bytes.Clone(value)})
	return nil
}

func (in *memIncoming) Finish(applied uint64) error {
	in.tree.ReplaceOrInsert(pair{AppliedKey, binary.BigEndian.AppendUint64(nil, applied)})
	in.finished = true
	return nil
}

func (in *memIncoming) Abort() error { return nil }

// checkIncomingKey refuses what a snapshot may not hold: keys out of order, and the store's own key. The rows of the node,
// which begin with 0 too, travel with a snapshot.
func checkIncomingKey(last, key []byte) error {
	if len(key) == 0 || bytes.Equal(key, AppliedKey) {
		return fmt.Errorf("incoming store: key %q belongs to the store itself", key)
	}
	if last != nil && bytes.Compare(last, key) >= 0 {
		return fmt.Errorf("incoming store: key %q after %q", key, last)
	}
	return nil
}

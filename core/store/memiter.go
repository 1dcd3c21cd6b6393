package store

import (
	"bytes"

	"github.com/google/btree"
)

// memIterRun is the number of pairs an iterator takes from the tree at a time. The tree has no cursors, so every run costs one descent from
// the root.
const memIterRun = 32

// memIter walks a clone that is never written. It is owned by one goroutine; the tree itself needs no lock.
type memIter struct {
	m            *Mem
	origin       *memTree
	tree         *btree.BTreeG[pair]
	lower, upper []byte

	run     []pair // consecutive pairs in the direction of travel
	at      int    // index in run; valid only while 0 <= at < len(run)
	forward bool
	err     error
}

func newMemIter(m *Mem, origin *memTree, tree *btree.BTreeG[pair], lower, upper []byte) *memIter {
	return &memIter{m: m, origin: origin, tree: tree, lower: bytes.Clone(lower), upper: bytes.Clone(upper)}
}

// alive notices that the store was replaced or closed since the last move.
func (it *memIter) alive() bool {
	if it.err == nil {
		it.m.mu.Lock()
		it.err = it.m.check(it.origin)
		it.m.mu.Unlock()
	}
	if it.err != nil {
		it.run = it.run[:0]
	}
	return it.err == nil
}

// ascend fills run with pairs from key on; after excludes key itself.
func (it *memIter) ascend(key []byte, after bool) bool {
	if bytes.Compare(key, it.lower) < 0 {
		key, after = it.lower, false
	}
	it.run, it.at, it.forward = it.run[:0], 0, true
	it.tree.AscendGreaterOrEqual(pair{key: key}, func(p pair) bool {
		if it.upper != nil && bytes.Compare(p.key, it.upper) >= 0 {
			return false
		}
		if after && bytes.Equal(p.key, key) {
			return true
		}
		it.run = append(it.run, p)
		return len(it.run) < memIterRun
	})
	return len(it.run) > 0
}

// descend fills run with pairs before key, all pairs if key is nil.
func (it *memIter) descend(key []byte) bool {
	if key == nil || it.upper != nil && bytes.Compare(key, it.upper) > 0 {
		key = it.upper
	}
	it.run, it.at, it.forward = it.run[:0], 0, false
	visit := func(p pair) bool {
		if key != nil && bytes.Compare(p.key, key) >= 0 {
			return true
		}
		if bytes.Compare(p.key, it.lower) < 0 {
			return false
		}
		it.run = append(it.run, p)
		return len(it.run) < memIterRun
	}
	if key == nil {
		it.tree.Descend(visit)
	} else {
		it.tree.DescendLessOrEqual(pair{key: key}, visit)
	}
	return len(it.run) > 0
}

func (it *memIter) First() bool            { return it.alive() && it.ascend(it.lower, false) }
func (it *memIter) Last() bool             { return it.alive() && it.descend(nil) }
func (it *memIter) SeekGE(key []byte) bool { return it.alive() && it.ascend(key, false) }

func (it *memIter) SeekLT(key []byte) bool {
	if key == nil {
		key = []byte{} // nothing is before the empty key; nil would mean no bound
	}
	return it.alive() && it.descend(key)
}

func (it *memIter) Next() bool {
	if !it.alive() || !it.Valid() {
		return false
	}
	if it.forward && it.at+1 < len(it.run) {
		it.at++
		return true
	}
	return it.ascend(it.run[it.at].key, true)
}

func (it *memIter) Prev() bool {
	if !it.alive() || !it.Valid() {
		return false
	}
	if !it.forward && it.at+1 < len(it.run) {
		it.at++
		return true
	}
	return it.descend(it.run[it.at].key)
}

func (it *memIter) Valid() bool            { return it.at < len(it.run) }
func (it *memIter) Key() []byte            { return it.run[it.at].key }
func (it *memIter) Value() ([]byte, error) { return it.run[it.at].value, nil }
func (it *memIter) Error() error           { return it.err }
func (it *memIter) Close() error           { return it.err }

// Loads implements Iter.
func (it *memIter) Loads() Loads { return Loads{} }

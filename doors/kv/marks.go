package kv

import (
	"cmp"
	"slices"
	"sync"
)

// marks tell which index of the log must be archived for a revision to be archived. An archive session hears of an event when its own entry
// is archived, even if later entries are not. The zero marks are ready. Any goroutine.
type marks struct {
	mu    sync.Mutex
	known int64  // guarded by mu: every revision up to here is archived
	list  []mark // guarded by mu: ascending in both; those that were not archived when it was looked at last
}

// mark: all revisions up to revision are in entries up to index.
type mark struct {
	revision int64
	index    uint64
}

// maxMarks bounds what is kept while an archive is away. Beyond it every other mark goes: a revision waits for a little more than its own entry
// then.
const maxMarks = 1 << 12

// add notes a mark.
func (m *marks) add(now mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.revision <= m.known {
		return
	}
	if k := len(m.list); k > 0 && now.revision <= m.list[k-1].revision {
		return // the existing mark is at least as close
	}
	for k := len(m.list); k > 0 && m.list[k-1].index >= now.index; k-- { // two were made at once, and this one says more
		m.list = m.list[:k-1]
	}
	if len(m.list) == maxMarks {
		for i := range maxMarks / 2 {
			m.list[i] = m.list[2*i+1]
		}
		m.list = m.list[:maxMarks/2]
	}
	m.list = append(m.list, now)
}

// of is the index that has to be archived for revision to be, 0 if it is, archived being what is archived now. ok is false for a revision
// beyond all marks.
func (m *marks) of(revision int64, archived uint64) (index uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(archived)
	if revision <= m.known {
		return 0, true
	}
	i, _ := slices.BinarySearchFunc(m.list, revision, func(at mark, revision int64) int { return cmp.Compare(at.revision, revision) })
	if i == len(m.list) {
		return 0, false
	}
	return m.list[i].index, true
}

// upTo is a revision up to which all are archived, archived being what is archived now; 0: none is known.
func (m *marks) upTo(archived uint64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(archived)
	return m.known
}

// settle drops the marks that are archived. The caller holds mu.
func (m *marks) settle(archived uint64) {
	k := 0
	for ; k < len(m.list) && m.list[k].index <= archived; k++ {
		m.known = m.list[k].revision
	}
	m.list = slices.Delete(m.list, 0, k)
}

// markNow notes what is current. The revision is looked at first: its entry is then in the index.
func (d *Door) markNow() mark {
	revision, _ := d.kv.Revision()
	now := mark{revision: revision, index: d.node.ReadIndex()}
	d.marks.add(now)
	return now
}

// archivedIndexOf is the index that has to be archived for a revision to be, 0 if it is.
func (d *Door) archivedIndexOf(revision int64) uint64 {
	if index, ok := d.marks.of(revision, d.node.ArchivedIndex()); ok {
		return index
	}
	return d.markNow().index
}

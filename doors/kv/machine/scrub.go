package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
)

// How many revision rows one entry looks at. A Compact only moves the compacted revision, which refuses older reads at once. The rows
// behind it are dropped piece by piece by that entry and later ones. Compacting a million revisions costs an entry with client writes a
// millisecond, an entry without a few, and none of them a second. The pieces are part of the state, the same on every member. Doing it in
// the background was the rejected design, because members would then hold different rows.
const (
	scrubRowsBusy = 256
	scrubRowsIdle = 2048
)

// Unfinished implements machine.Finisher.
func (m *Machine) Unfinished() bool { return m.now.edge != m.now.compacted }

// Scrubbed returns the revision of the last compaction whose history is dropped for good; -1 = none. It reaches the compacted
// revision some entries later.
func (m *Machine) Scrubbed() int64 { return m.pubEdge.Load() }

// scrub carries on dropping history below the compacted revision. Walking the changes in order, it drops a version when its replacing
// change lies at or below the target. A deletion is dropped when it lies below. A watch resumed exactly at the target must still see a
// deletion there.
func (m *Machine) scrub(b store.Batch) error {
	s := &m.now
	if s.target == s.edge { // nothing under way
		if s.compacted == s.edge {
			return nil
		}
		s.target = s.compacted
		s.cursorRev, s.cursorSub = max(s.edge, 0), 0
		m.dirty = true
		// Rows of this entry are not in the store yet, so the walk cannot meet them. If the target reaches among them, the walk begins with
		// the next entry.
		if s.target > m.pub.rev {
			return nil
		}
	}
	m.dirty = true
	it, err := m.st.NewIter(appendByRevKey(nil, s.cursorRev, s.cursorSub), appendByRevKey(nil, s.target+1, 0))
	if err != nil {
		return fmt.Errorf("scrub history: %w", err)
	}
	defer it.Close()
	n, most := 0, scrubRowsIdle
	if len(m.entry.writes)+len(m.entry.sweeps) > 0 {
		most = scrubRowsBusy
	}
	for ok := it.First(); ok; ok = it.Next() {
		rev, sub, err := splitByRevKey(it.Key())
		if err != nil {
			return err
		}
		if n == most {
			s.cursorRev, s.cursorSub = rev, sub
			return nil
		}
		n++
		row, err := it.Value()
		if err != nil {
			return fmt.Errorf("scrub history: %w", err)
		}
		c, err := decodeChange(row)
		if err != nil {
			return err
		}
		if c.prev.mod != 0 && s.drops(rev, c.prev.mod) {
			m.key = appendHistoryKey(m.key[:0], c.key, c.prev.mod, c.prev.sub)
			b.Delete(m.key)
			s.history -= int64(len(c.key)) + int64(c.prev.valLen)
			m.tally.scrubbed++
		}
		if c.deleted && rev < s.target {
			m.key = appendHistoryKey(m.key[:0], c.key, rev, sub)
			b.Delete(m.key)
			s.history -= int64(len(c.key))
			m.tally.scrubbed++
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("scrub history: %w", err)
	}
	// One range deletion for the whole scrub: many small ones would slow down every read that crosses them.
	if from := max(s.edge, 0); from < s.target {
		b.DeleteRange(appendByRevKey(nil, from, 0), appendByRevKey(nil, s.target, 0))
	}
	s.edge = s.target
	s.cursorRev, s.cursorSub = 0, 0
	return nil
}

// drops reports whether the version of revision prev is dropped that a change at rev replaced. A version may be replaced within its own
// revision, by a Txn that puts and deletes one key. It stays while that revision is the target, since a watch resumed there must see all of
// it. The next scrub finds it at its edge, where everything else is done already.
func (s *sums) drops(rev, prev int64) bool {
	if own := prev == rev; rev == s.edge || rev == s.target {
		return own == (rev == s.edge)
	}
	return true
}

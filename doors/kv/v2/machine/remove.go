package machine

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
)

// fewRows is the largest subtree whose rows are deleted one by one. A range deletion is one operation at any size. But every later read of
// the neighbourhood has to consider it until it is compacted away.
const fewRows = 256

// remove takes a node, and of a directory everything below it, out of the tree. The rows below go at once, by b: they have
// no slots, and making some would take memory for the whole subtree.
func (m *Machine) remove(e *Event, s *slot, b store.Batch) error {
	if s.node.dir {
		if s.node.created <= m.base { // else there is nothing of it in the store
			if err := m.removeRows(e, s, b); err != nil {
				return err
			}
		}
		below := s.path + "/"
		for _, d := range m.dirty {
			if strings.HasPrefix(d.path, below) {
				if d.node.exists && !d.stored.exists {
					e.gone([]byte(d.path))
				}
				m.cache.bytes -= len(d.node.value)
				d.node, d.stored = node{}, stored{} // its rows are gone with the subtree's
			}
		}
	}
	slices.Sort(e.Gone)
	m.change(s, node{})
	return nil
}

// removeRows deletes the rows below a directory, with the deadlines of its nodes. That may include rows this entry has deleted before; the
// written rows still depend only on the log.
func (m *Machine) removeRows(e *Event, s *slot, b store.Batch) error {
	lower, upper := subtreeBounds([]byte(s.path))
	it, err := m.st.NewIter(lower, upper)
	if err != nil {
		return fmt.Errorf("read subtree: %w", err)
	}
	defer it.Close()
	var few [][]byte
	var path []byte
	rows := 0
	for ok := it.First(); ok; ok = it.Next() {
		rows++
		if rows <= fewRows {
			few = append(few, bytes.Clone(it.Key()))
		}
		if path, err = decodePath(path[:0], it.Key()[2:]); err != nil {
			return err
		}
		e.gone(path)
		row, err := it.Value()
		if err != nil {
			return fmt.Errorf("read subtree: %w", err)
		}
		n, err := decodeNode(row)
		if err != nil {
			return err
		}
		if n.deadline != 0 {
			m.key = append(appendDeadlineKey(m.key[:0], n.deadline, []byte("/")), it.Key()[2:]...)
			b.Delete(m.key)
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read subtree: %w", err)
	}
	if rows > fewRows {
		b.DeleteRange(lower, upper)
		return nil
	}
	for _, k := range few {
		b.Delete(k)
		b.Overwrote(len(k) + 64)
	}
	return nil
}

// empty reports whether a directory has no nodes, hidden ones included.
func (m *Machine) empty(s *slot) (bool, error) {
	below := s.path + "/"
	for _, d := range m.dirty {
		if d.node.exists && strings.HasPrefix(d.path, below) {
			return false, nil
		}
	}
	if s.node.created > m.base {
		return true, nil
	}
	it, err := m.rows(m.st, []byte(s.path))
	if err != nil {
		return false, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.SkipSubtree() {
		// A child this entry has touched was looked at above.
		if c := m.cache.get(it.path); c == nil || !c.dirty {
			return false, nil
		}
	}
	return true, it.Error()
}

// expire removes nodes whose deadline has come, earliest first, and returns how many it removed itself (a directory
// counts once).
func (m *Machine) expire(st *entry.Stamp, limit int, b store.Batch) (int, error) {
	due, all, err := m.due(st.TickMs, limit)
	if err != nil {
		return 0, err
	}
	removed := 0
	for i := range due {
		s, _, at, err := m.walk(due[i].path)
		if err != nil {
			return removed, err
		}
		// This entry may have removed it, or given it more time.
		if at != len(due[i].path) || !s.node.exists || s.node.deadline != due[i].deadline {
			continue
		}
		m.index++
		e := &Event{Action: Expire, HasPrev: true, Node: Node{Modified: m.index}, Prev: s.node.view(nil, st.TickMs)}
		if err := m.removed(e, s, b); err != nil {
			return removed, err
		}
		m.events = append(m.events, e)
		removed++
	}
	m.stats.expired(removed)
	switch {
	case all:
		m.cursor = appendDeadlineKey(nil, st.TickMs, []byte("/"))
	case len(due) > 0:
		last := &due[len(due)-1]
		m.cursor = appendDeadlineKey(nil, last.deadline, last.path)
	}
	return removed, nil
}

// dueNode is a row of the space of deadlines.
type dueNode struct {
	deadline int64
	path     []byte
}

// due lists up to limit deadline rows up to tick, as the store has them; all tells that there are no more. It starts where the previous
// call stopped. In front of that the store has only recently deleted rows, and an iterator would step over each of them.
func (m *Machine) due(tick int64, limit int) (due []dueNode, all bool, err error) {
	m.gate.RLock()
	lower := m.pubCursor // at or above cursor: NextDeadline may have moved it up
	m.gate.RUnlock()
	it, err := m.st.NewIter(lower, appendDeadlineKey(nil, tick+1, []byte("/")))
	if err != nil {
		return nil, false, fmt.Errorf("read deadlines: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if len(due) == limit {
			return due, false, nil
		}
		deadline, path, err := splitDeadlineKey(it.Key())
		if err != nil {
			return nil, false, err
		}
		due = append(due, dueNode{deadline, path})
	}
	return due, true, it.Error()
}

package machine

import (
	"bytes"
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
)

// node is one node of the tree. The root exists always and has no row.
type node struct {
	exists, dir       bool
	created, modified uint64
	// writes counts how often the row was written since the node was created, up to hot.
	writes uint32
	// deadline is the cluster tick in ms at which the node expires, 0 = never. expiration is the same as Unix time in ns by the leader's
	// clock, for people.
	deadline, expiration int64
	value                []byte // never modified: events share it
}

// hot is the number of writes from which a listing does not step over a row but seeks past it (see rowIter).
const hot = 32

// stored is a node as the store has it, as opposed to its state in the entry being applied.
type stored struct {
	exists   bool
	deadline int64
}

// slot is what Apply knows of one path. Only the apply goroutine touches it.
type slot struct {
	path string
	// parent is the created index of the directory it was looked up in. A directory that was removed and made again has another one, so
	// cached nodes below the old one are recognised as stale. Removing a directory costs nothing in the cache.
	parent uint64
	node   node
	stored stored
	dirty  bool // it is in Machine.dirty
}

// slotOverhead is a slot's memory beside path and value.
const slotOverhead = 200

func (s *slot) bytes() int { return slotOverhead + len(s.path) + len(s.node.value) }

// cache maps paths to slots, so that a write to a node seen lately reads nothing from the store. It forgets by generations: when the young
// half is full it becomes the old one, and the previous old half is dropped.
type cache struct {
	young, old map[string]*slot
	half       int
	bytes      int // of young
	aged       int // bytes of old
}

func (c *cache) reset(limit int) {
	c.half, c.bytes, c.aged = max(limit/2, 1), 0, 0
	c.young, c.old = map[string]*slot{}, nil
}

func (c *cache) get(path []byte) *slot {
	if s := c.young[string(path)]; s != nil {
		return s
	}
	s := c.old[string(path)]
	if s != nil {
		c.young[s.path] = s
		c.bytes += s.bytes()
	}
	return s
}

func (c *cache) add(path []byte) *slot {
	s := &slot{path: string(path)}
	c.young[s.path] = s
	c.bytes += s.bytes()
	return s
}

// rotate drops the old generation if the young one is full, and both if one entry met more than the cache is for. Only between entries: an
// entry's changes must find their slots. limit is the cache's bound from now on.
func (c *cache) rotate(limit int) {
	c.half = max(limit/2, 1)
	switch {
	case c.bytes > 2*c.half:
		c.reset(2 * c.half)
	case c.bytes >= c.half:
		c.old, c.aged, c.young, c.bytes = c.young, c.bytes, map[string]*slot{}, 0
	case c.aged > 2*c.half: // it has become smaller
		c.old, c.aged = nil, 0
	}
}

// child returns the slot of path, a direct child of parent, which is a directory that exists.
func (m *Machine) child(parent *slot, path []byte) (*slot, error) {
	s := m.cache.get(path)
	if s != nil && s.parent == parent.node.created {
		return s, nil
	}
	if s == nil {
		s = m.cache.add(path)
	}
	s.parent = parent.node.created
	if parent.node.created > m.base {
		// The directory is of this very entry: the store may still show children of one it replaces, but they are gone.
		m.cache.bytes -= len(s.node.value)
		s.node = node{}
		if !s.dirty {
			s.stored = stored{}
		}
		return s, nil
	}
	m.key = appendNodeKey(m.key[:0], path)
	row, ok, err := m.st.Get(m.row[:0], m.key)
	if err != nil {
		return nil, fmt.Errorf("read node: %w", err)
	}
	m.row = row[:0]
	m.cache.bytes -= len(s.node.value)
	s.node, s.stored = node{}, stored{}
	if ok {
		if s.node, err = decodeNode(row); err != nil {
			return nil, err
		}
		s.node.value = bytes.Clone(s.node.value)
		s.stored = stored{exists: true, deadline: s.node.deadline}
		m.cache.bytes += len(s.node.value)
	}
	return s, nil
}

// walk follows path from the root for as long as there are directories. It returns the last slot it looked at and where in path that ends.
// That is the whole path, or the first component that does not exist or is a key. parent is the directory that slot lies in; nil for the
// root.
func (m *Machine) walk(path []byte) (s, parent *slot, at int, err error) {
	s = &m.root
	if len(path) == 1 {
		return s, nil, 1, nil
	}
	for at < len(path) && s.node.exists && s.node.dir {
		at = componentEnd(path, at+1)
		parent = s
		if s, err = m.child(s, path[:at]); err != nil {
			return nil, nil, 0, err
		}
	}
	return s, parent, at, nil
}

// componentEnd returns where the component that begins at from ends.
func componentEnd(path []byte, from int) int {
	if i := bytes.IndexByte(path[from:], '/'); i >= 0 {
		return from + i
	}
	return len(path)
}

// change makes n the node of s.
func (m *Machine) change(s *slot, n node) {
	m.cache.bytes += len(n.value) - len(s.node.value)
	s.node = n
	if !s.dirty {
		s.dirty = true
		m.dirty = append(m.dirty, s)
	}
	if n.deadline != 0 && n.deadline < m.next {
		m.next = n.deadline
	}
}

// writeNode writes a node as the entry leaves it. It reports the size of the replaced row, so that the store can drop it soon: until then
// every listing of the directory passes it.
func (m *Machine) writeNode(b store.Batch, s *slot) {
	path := []byte(s.path)
	m.key = appendNodeKey(m.key[:0], path)
	switch {
	case s.node.exists:
		m.row = appendNode(m.row[:0], &s.node)
		b.Set(m.key, m.row)
	case s.stored.exists:
		b.Delete(m.key)
	}
	if s.stored.exists {
		b.Overwrote(len(m.key) + len(m.row) + 16)
	}
	if s.stored.deadline == s.node.deadline {
		return
	}
	if s.stored.deadline != 0 {
		m.key = appendDeadlineKey(m.key[:0], s.stored.deadline, path)
		b.Delete(m.key)
		b.Overwrote(len(m.key) + 16)
	}
	if s.node.deadline != 0 {
		m.key = appendDeadlineKey(m.key[:0], s.node.deadline, path)
		b.Set(m.key, nil)
		if bytes.Compare(m.key, m.cursor) < 0 { // it expires in the millisecond in which it was set
			m.cursor, m.back = bytes.Clone(m.key), true
		}
	}
}

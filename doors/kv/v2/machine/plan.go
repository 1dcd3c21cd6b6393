package machine

import (
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// plan is what Check hands to Do: where in the tree the part acts. Check changes nothing but the cache.
type plan struct {
	part *v2part.Part
	path []byte // of the node; of an in-order one with its name
	last *slot  // the last slot the walk met: the node itself, or the first directory that is missing
	dir  *slot  // the directory last lies in
	at   int    // where in path last ends
}

// Check implements machine.Machine.
func (m *Machine) Check(_ *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	p := &m.part
	if err := p.Decode(body); err != nil {
		if errors.Is(err, v2part.ErrKind) || errors.Is(err, v2part.ErrFlags) {
			return nil, nil, err
		}
		return nil, m.refuse(v2part.MalformedPart, err.Error()), nil
	}
	pl := &m.plan
	*pl = plan{part: p, path: p.Path}
	if p.Kind == v2part.Expire {
		return pl, nil, nil
	}
	if p.Kind == v2part.InOrder {
		m.path = appendInOrder(m.path[:0], p.Path, m.index+1)
		pl.path = m.path
	}
	rej, err := m.judge(pl)
	if err != nil || rej != nil {
		if rej != nil {
			m.stats.count(p.Kind, false)
		}
		return nil, rej, err
	}
	return pl, nil, nil
}

// Readable implements machine.Machine.
func (m *Machine) Readable(body []byte) error {
	var p v2part.Part
	if err := p.Decode(body); errors.Is(err, v2part.ErrKind) || errors.Is(err, v2part.ErrFlags) {
		return err
	}
	return nil // malformed in another way: Check rejects it
}

// appendInOrder appends the path of the node that gets index below dir: its name is the index, 20 digits long.
func appendInOrder(dst, dir []byte, index uint64) []byte {
	dst = append(dst, dir...)
	if len(dir) > 1 {
		dst = append(dst, '/')
	}
	return fmt.Appendf(dst, "%020d", index)
}

func (m *Machine) refuse(code entry.Code, cause string) *entry.Rejection {
	return (&v2part.Refusal{Code: code, Cause: cause, Index: m.index}).Rejection()
}

// judge finds everything that can be wrong with a part, in etcd's order: which of two errors a client hears is part of the
// API.
func (m *Machine) judge(pl *plan) (*entry.Rejection, error) {
	p := pl.part
	if len(pl.path) == 1 && p.Kind != v2part.CompareAndDelete {
		return m.refuse(v2part.RootReadOnly, "/"), nil
	}
	var err error
	if pl.last, pl.dir, pl.at, err = m.walk(pl.path); err != nil {
		return nil, err
	}
	s, whole := pl.last, pl.at == len(pl.path)
	if s.node.exists && !whole { // the walk stops before the end of the path only at a key
		return m.refuse(v2part.NotDir, s.path), nil
	}
	switch p.Kind {
	case v2part.Set:
		switch {
		case !s.node.exists && p.Refresh:
			return m.refuse(v2part.KeyNotFound, s.path), nil
		case s.node.exists && s.node.dir:
			return m.refuse(v2part.NotFile, s.path), nil
		}
		return nil, nil
	case v2part.Create, v2part.InOrder:
		if s.node.exists {
			return m.refuse(v2part.NodeExists, s.path), nil
		}
		return nil, nil
	}
	if !s.node.exists {
		return m.refuse(v2part.KeyNotFound, s.path), nil
	}
	switch p.Kind {
	case v2part.Update:
		if s.node.dir && len(p.Value) > 0 {
			return m.refuse(v2part.NotFile, s.path), nil
		}
	case v2part.CompareAndSwap, v2part.CompareAndDelete:
		if s.node.dir {
			return m.refuse(v2part.NotFile, visible(s.path)), nil
		}
		if cause := mismatch(p, &s.node); cause != "" {
			return m.refuse(v2part.TestFailed, cause), nil
		}
	case v2part.Delete:
		if !s.node.dir || p.Recursive {
			return nil, nil
		}
		if !p.Dir {
			return m.refuse(v2part.NotFile, s.path), nil
		}
		empty, err := m.empty(s)
		if err == nil && !empty {
			return m.refuse(v2part.DirNotEmpty, s.path), nil
		}
		return nil, err
	}
	return nil, nil
}

// visible is a path as it appears in a cause that etcd makes of the path itself. etcd cuts its own prefix off, and nothing is left of the
// root.
func visible(path string) string {
	if path == "/" {
		return ""
	}
	return path
}

// mismatch says in etcd's words what a comparison did not find; "" if it found all.
func mismatch(p *v2part.Part, n *node) string {
	value := len(p.PrevValue) > 0 && string(p.PrevValue) != string(n.value)
	index := p.PrevIndex != 0 && p.PrevIndex != n.modified
	switch {
	case value && index:
		return fmt.Sprintf("[%s != %s] [%d != %d]", p.PrevValue, n.value, p.PrevIndex, n.modified)
	case value:
		return fmt.Sprintf("[%s != %s]", p.PrevValue, n.value)
	case index:
		return fmt.Sprintf("[%d != %d]", p.PrevIndex, n.modified)
	}
	return ""
}

// Do implements machine.Machine. Its result is the *Event; of an Expire, how many nodes it removed (int).
func (m *Machine) Do(st *entry.Stamp, p any, b store.Batch, wanted bool) (any, error) {
	pl := p.(*plan)
	if pl.part.Kind == v2part.Expire {
		n, err := m.expire(st, int(pl.part.Limit), b)
		return n, err
	}
	e, err := m.carryOut(st, pl, b)
	if err != nil {
		return nil, err
	}
	m.stats.count(pl.part.Kind, true)
	m.events = append(m.events, e)
	if !wanted {
		return nil, nil
	}
	return e, nil
}

// minExpiration is the earliest time a node may expire at, 2000-01-01. etcd takes an earlier time for nonsense and lets the node stay. A
// TTL whose nanoseconds do not fit an int64 ends there too.
const minExpiration = 946_684_800_000_000_000

// deadline computes when a node's time is up: in ticks, which count, and in wall time, which is shown. Both are 0 if it
// stays.
func (m *Machine) deadline(st *entry.Stamp, p *v2part.Part) (tick, wall int64) {
	if !p.HasTTL {
		return 0, 0
	}
	wall = st.WallNs + p.TTL // may wrap around, as etcd's does
	if wall < minExpiration {
		return 0, 0
	}
	ms := max(p.TTL/1e6, 0) // a negative TTL ends now: Expire does not look further back
	if ms > never-1-st.TickMs {
		return 0, 0
	}
	return max(st.TickMs+ms, 1), wall // 0 would mean that it stays
}

// carryOut does what judge let pass and returns the event.
func (m *Machine) carryOut(st *entry.Stamp, pl *plan, b store.Batch) (*Event, error) {
	p, s := pl.part, pl.last
	m.index++
	e := &Event{Node: Node{Modified: m.index}}
	if s.node.exists {
		e.HasPrev, e.Prev = true, s.node.view(nil, st.TickMs)
	}
	switch p.Kind {
	case v2part.Set, v2part.Create, v2part.InOrder:
		e.Action = Create
		if p.Kind == v2part.Set {
			e.Action = Set
		}
		if err := m.make(st, pl); err != nil {
			return nil, err
		}
		s = pl.last
	case v2part.Update, v2part.CompareAndSwap:
		e.Action = Update
		if p.Kind == v2part.CompareAndSwap {
			e.Action = CompareAndSwap
		}
		n := s.node
		n.deadline, n.expiration = m.deadline(st, p)
		n.writes = min(n.writes+1, hot)
		if !n.dir { // of a directory etcd changes the TTL and leaves the index
			n.modified = m.index
			if !p.Refresh {
				n.value = clone(p.Value)
			}
		}
		m.change(s, n)
	case v2part.Delete, v2part.CompareAndDelete:
		e.Action = Delete
		if p.Kind == v2part.CompareAndDelete {
			e.Action = CompareAndDelete
		}
		if err := m.removed(e, s, b); err != nil {
			return nil, err
		}
		return e, nil
	}
	e.Refresh = p.Refresh && e.Action != Create
	e.Node = s.node.view([]byte(s.path), st.TickMs)
	e.Node.Modified = m.index
	e.Prev.Path = e.Node.Path
	return e, nil
}

// make makes the node of a plan, with the directories that are missing above it.
func (m *Machine) make(st *entry.Stamp, pl *plan) error {
	for pl.at < len(pl.path) {
		m.change(pl.last, node{exists: true, dir: true, created: m.index, modified: m.index})
		pl.dir = pl.last
		pl.at = componentEnd(pl.path, pl.at+1)
		var err error
		if pl.last, err = m.child(pl.dir, pl.path[:pl.at]); err != nil {
			return err
		}
	}
	old := &pl.last.node
	n := node{exists: true, dir: pl.part.Dir, created: m.index, modified: m.index}
	if old.exists {
		n.writes = min(old.writes+1, hot)
	}
	n.deadline, n.expiration = m.deadline(st, pl.part)
	switch {
	case n.dir:
	case pl.part.Kind == v2part.Set && pl.part.Refresh:
		n.value = old.value
	default:
		n.value = clone(pl.part.Value)
	}
	m.change(pl.last, n)
	return nil
}

// removed removes s and completes the event that says so.
func (m *Machine) removed(e *Event, s *slot, b store.Batch) error {
	e.Node.Path, e.Node.Dir, e.Node.Created = []byte(s.path), s.node.dir, s.node.created
	e.Prev.Path = e.Node.Path
	return m.remove(e, s, b)
}

// clone copies a value out of the entry's memory.
func clone(v []byte) []byte { return append([]byte(nil), v...) }

package machine

import (
	"fmt"
	"strings"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// slot is what Apply knows of one transaction, with the effects of the entry being applied. Only the apply goroutine touches it.
type slot struct {
	gid    string
	number uint64
	exists bool // false: no transaction has the gid
	head
	names names // of its branches, while they may be asked for
	named bool  // names are all there are

	fresh   bool   // begun by this entry
	defined []byte // and prepared by it: the definition's row
	dirty   bool   // changed by this entry, and in its list
	rewrite bool   // the head differs from its row
	timed   bool   // this entry has set the timer
	stored  int64  // the tick of its timer row, Never: it has none

	used  bool // since the cache's hand passed
	place int  // in the cache's ring
	size  int  // in bytes, as the cache has counted it
}

// slotBytes is about what a slot takes beside its texts and branches, its places in the map and the ring included.
const slotBytes = 400

func (s *slot) bytes() int {
	return slotBytes + len(s.gid) + len(s.result) + len(s.reason) + 24*cap(s.head.branches) + s.names.bytes()
}

// settle ends what belonged to the entry.
func (s *slot) settle() {
	s.defined = nil
	s.fresh, s.dirty, s.rewrite, s.timed, s.stored = false, false, false, false, s.due
	if s.status != sagapart.Prepared {
		s.names, s.named = names{}, false // no branch can join any more
	}
}

// cache holds the transactions seen lately by gid, so that what follows a Begin reads nothing from the store. It is exact by construction:
// every change goes through a slot, and a slot that is dropped is read from the store again. It forgets by the clock algorithm, as
// doors/kv/machine's does.
type cache struct {
	slots map[string]*slot
	ring  []*slot // every slot once
	hand  int
	bytes int
	most  int
}

func (c *cache) reset(most int) { *c = cache{slots: map[string]*slot{}, most: most} }

// get returns the slot of a gid, or nil.
func (c *cache) get(gid string) *slot {
	s := c.slots[gid]
	if s != nil {
		s.used = true
	}
	return s
}

// add puts in a slot of a gid that the cache does not have.
func (c *cache) add(s *slot) {
	s.used, s.place, s.size = true, len(c.ring), s.bytes()
	c.slots[s.gid] = s
	c.ring = append(c.ring, s)
	c.bytes += s.size
}

// resize counts a slot anew.
func (c *cache) resize(s *slot) {
	n := s.bytes()
	c.bytes += n - s.size
	s.size = n
}

// drop takes a slot out; the last of the ring takes its place.
func (c *cache) drop(s *slot) {
	last := len(c.ring) - 1
	moved := c.ring[last]
	c.ring[s.place], moved.place = moved, s.place
	c.ring[last] = nil
	c.ring = c.ring[:last]
	delete(c.slots, s.gid)
	c.bytes -= s.size
}

// handSteps is how many slots the hand passes at most before it drops one, used or not.
const handSteps = 8

// shrink drops slots until the cache has its size again, or all of them after an entry that alone met more than it is for. Only between
// entries: an entry's changes must find their slots.
func (c *cache) shrink() {
	if c.bytes > 2*c.most {
		c.reset(c.most)
		return
	}
	for c.bytes > c.most {
		for range handSteps {
			if c.hand++; c.hand >= len(c.ring) {
				c.hand = 0
			}
			s := c.ring[c.hand]
			if !s.used {
				break
			}
			s.used = false
		}
		c.drop(c.ring[min(c.hand, len(c.ring)-1)])
	}
}

// find returns the slot of a gid, whether a transaction has it or not.
func (m *Machine) find(gid string) (*slot, error) {
	if s := m.cache.get(gid); s != nil {
		return s, nil
	}
	s := &slot{gid: strings.Clone(gid), stored: Never} // its own memory: the caller's text may share that of a whole part
	if m.gids.absent(gid) {
		m.cache.add(s)
		return s, nil
	}
	m.key = appendGidKey(m.key[:0], gid)
	row, ok, err := m.st.Get(m.row[:0], m.key)
	if err != nil {
		return nil, fmt.Errorf("read gid: %w", err)
	}
	m.row = row[:0]
	if ok {
		if s.number, err = decodeNumber(row); err != nil {
			return nil, err
		}
		if err := m.readHead(s); err != nil {
			return nil, err
		}
		s.exists, s.stored = true, s.due
	}
	m.cache.add(s)
	return s, nil
}

// readHead reads the head of a slot's number: its row, or what its definition began with.
func (m *Machine) readHead(s *slot) error {
	row, ok, err := m.st.Get(m.row[:0], appendHeadKey(m.key[:0], s.number))
	if err == nil && !ok {
		row, ok, err = m.st.Get(m.row[:0], appendDefinitionKey(m.key[:0], s.number))
		if err == nil && ok {
			if row, _, err = splitDefinition(row); err != nil {
				return err
			}
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("read transaction %d: %w", s.number, err)
	case !ok:
		return fmt.Errorf("transaction %d of gid %q has no definition: %w", s.number, s.gid, errCorrupt)
	}
	s.head, err = decodeHead(row)
	m.row = m.row[:0]
	return err
}

// name is what tells a branch from the others of its transaction.
type name struct{ id, op string }

// names are those of a transaction's branches, in their order. Many have an index beside them.
type names struct {
	list  []name
	index map[name]int32 // nil while there are few
	text  int            // bytes
}

// fewNames are compared one by one.
const fewNames = 16

func (n *names) bytes() int {
	each := 32
	if n.index != nil {
		each = 80
	}
	return each*cap(n.list) + n.text
}

// place returns the place of a name, -1 if it is not there.
func (n *names) place(id, op string) int {
	if n.index != nil {
		if i, ok := n.index[name{id, op}]; ok {
			return int(i)
		}
		return -1
	}
	for i := range n.list {
		if n.list[i].id == id && n.list[i].op == op {
			return i
		}
	}
	return -1
}

// add appends a name, which takes memory of its own if it is to be kept.
func (n *names) add(id, op string, keep bool) {
	if keep {
		id, op = strings.Clone(id), strings.Clone(op)
		n.text += len(id) + len(op)
	}
	n.list = append(n.list, name{id, op})
	switch {
	case n.index != nil:
		n.index[name{id, op}] = int32(len(n.list) - 1)
	case len(n.list) > fewNames:
		n.index = make(map[name]int32, 2*fewNames)
		for i := range n.list {
			n.index[n.list[i]] = int32(i)
		}
	}
}

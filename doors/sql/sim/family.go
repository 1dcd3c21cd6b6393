package sim

import (
	"bytes"
	"encoding/binary"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/sim"
)

// A child's row names its parent, as a foreign key does: whoever writes a child keeps the parent's key with a shared lock, and whoever removes a parent locks
// that before it looks for children. The parent stays where there are some, or takes them with it (RESTRICT, CASCADE).

const (
	parentCount = 6
	childCount  = 24
	byParent    = 1 // the index of children: parent and child
)

// bear makes sure that there is a child of some parent, and that the parent is there.
func (t *transaction) bear() error {
	r := t.b.r
	parent, child := number(r.IntN(parentCount)), number(r.IntN(childCount))
	c, err := t.lock(children, 0, child, lock.Exclusive)
	if err != nil || c.exists {
		return err
	}
	if t.b.orphans { // a build that is broken on purpose
		tab, err := t.use(parents, lock.IntentShared)
		if err != nil {
			return err
		}
		if _, exists, err := t.x.Newest(tab.ID, 0, parent); err != nil || !exists {
			return err
		}
	} else if p, err := t.lock(parents, 0, parent, lock.Shared); err != nil || !p.exists {
		return err
	}
	if r.IntN(4) == 0 {
		t.think()
	}
	e, err := t.lock(children, byParent, append(bytes.Clone(parent), child...), lock.Exclusive)
	if err != nil {
		return err
	}
	t.b.w.Count(Children, 1)
	if err := c.put(parent); err != nil {
		return err
	}
	return e.put(nil)
}

// settleDown makes sure that there is a parent.
func (t *transaction) settleDown() error {
	p, err := t.lock(parents, 0, number(t.b.r.IntN(parentCount)), lock.Exclusive)
	if err != nil || p.exists {
		return err
	}
	return p.put(number(t.n))
}

// leave removes a parent: alone if it has no children, and else with them, or not at all.
func (t *transaction) leave() error {
	key := number(t.b.r.IntN(parentCount))
	p, err := t.lock(parents, 0, key, lock.Exclusive)
	if err != nil || !p.exists {
		return err
	}
	tab, err := t.use(children, lock.IntentExclusive)
	if err != nil {
		return err
	}
	it, err := t.x.ScanNewest(tab.ID, byParent, key, nil)
	if err != nil {
		return err
	}
	var entries [][]byte
	for ok := it.First(); ok; ok = it.Next() {
		if e := it.Key()[sqlmachine.PrefixBytes:]; bytes.HasPrefix(e, key) {
			entries = append(entries, bytes.Clone(e))
		}
	}
	err = it.Error()
	if e := it.Close(); err == nil {
		err = e
	}
	if err != nil || len(entries) > 0 && t.b.r.IntN(2) == 0 {
		return err
	}
	for _, entry := range entries {
		c, err := t.lock(children, 0, entry[len(key):], lock.Exclusive)
		if err != nil {
			return err
		}
		e, err := t.lock(children, byParent, entry, lock.Exclusive)
		if err != nil {
			return err
		}
		if !e.exists { // the child has gone since the index was read
			continue
		}
		t.b.w.Count(Cascades, 1)
		if err := c.delete(); err != nil {
			return err
		}
		if err := e.delete(); err != nil {
			return err
		}
	}
	return p.delete()
}

// visit reads a child and its parent with locks.
func (t *transaction) visit() error {
	child := t.b.r.IntN(childCount)
	c, err := t.lock(children, 0, number(child), lock.Shared)
	if err != nil || !c.exists {
		return err
	}
	parent := bytes.Clone(c.value)
	p, err := t.lock(parents, 0, parent, lock.Shared)
	if err != nil {
		return err
	}
	if !p.exists {
		t.claim(func() { t.b.w.Fail(Orphan, "%s: %s finds child %d, and no parent %x", t.h.Name(), t, child, parent) })
	}
	return nil
}

// checkFamilies checks that each child has its parent, and its entry.
func (b *book) checkFamilies(h *sim.Member) {
	there, entries := map[string]bool{}, map[string]bool{}
	for _, p := range b.read(h, parents, 0) {
		there[string(p.key)] = true
	}
	for _, p := range b.read(h, children, byParent) {
		entries[string(p.key)] = true
	}
	rows := b.read(h, children, 0)
	for _, p := range rows {
		child := binary.BigEndian.Uint32(p.key)
		if !there[string(p.value)] {
			b.w.Fail(Orphan, "child %d is there in the end, and no parent %x", child, p.value)
		}
		if !entries[string(p.value)+string(p.key)] {
			b.w.Fail(TwoOfAKey, "child %d has no entry in the index", child)
		}
	}
	if len(entries) != len(rows) {
		b.w.Fail(TwoOfAKey, "%d children have %d entries in the index", len(rows), len(entries))
	}
}

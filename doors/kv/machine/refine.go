package machine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/core/store"
)

// ErrMiscounted: there are fewer rows than keys are known of. Counts of this member are wrong until it has begun anew.
var ErrMiscounted = errors.New("fewer keys than are counted")

// cut is a block that is being divided. While its rows are walked without a lock, entries are applied. Their changes to it are in the
// journal, and are added to the pieces when the walk is over.
type cut struct {
	from, to string // the block's fence, and the next one
	last     bool   // there is no next one
	keys     int64  // when the walk began
	target   int64  // keys to a piece
	journal  []birth
	bytes    int  // of keys in the journal
	spoilt   bool // there was too much for it

	most, mostBytes int // of the journal

	fences []string // found by the walk
	counts []int64  // keys in front of each fence, from the previous one on
}

// birth is a key that came into existence (1) or went (-1).
type birth struct {
	key []byte
	d   int64
}

// add keeps a change of a key if it is in the block.
func (c *cut) add(key []byte, d int64) {
	if c.spoilt || string(key) < c.from || !c.last && string(key) >= c.to {
		return
	}
	c.bytes += len(key)
	if len(c.journal) >= c.most || c.bytes > c.mostBytes {
		c.spoilt, c.journal = true, nil
		return
	}
	c.journal = append(c.journal, birth{bytes.Clone(key), d})
}

// RefineWanted returns a channel that has something in it if there may be something for Refine to do.
func (m *Machine) RefineWanted() <-chan struct{} {
	m.gate.RLock()
	defer m.gate.RUnlock()
	return m.blocks.wanted
}

// Refine does a piece of the work of dividing large blocks of keys, so that counts walk less. It reads at most about n rows, without a
// lock. It reports whether there is more to do. One goroutine at a time may call it, beside everything else; store.ErrClosed ends it.
func (m *Machine) Refine(n int) (more bool, err error) {
	c, it, more, err := m.beginCut()
	if c == nil || err != nil {
		return more, err
	}
	err = c.walk(it, n)
	if closed := it.Close(); err == nil && closed != nil {
		err = fmt.Errorf("refine counts: %w", closed)
	}
	return m.endCut(c, err)
}

// beginCut picks a block, and opens the iterator and the journal at one moment.
func (m *Machine) beginCut() (c *cut, it store.Iter, more bool, err error) {
	m.gate.Lock()
	defer m.gate.Unlock()
	b := &m.blocks
	if b.coarsen() {
		return nil, nil, true, nil
	}
	p, ok := b.pick()
	if !ok {
		return nil, nil, false, nil
	}
	c = &cut{from: b.fence(p), keys: b.count(p), target: b.target,
		most: b.bounds.journal, mostBytes: b.bounds.journalBytes}
	upper := []byte{letter, spaceCurrent + 1}
	if next := b.after(p); b.behind(next) {
		c.last = true
	} else {
		c.to = b.fence(next)
		upper = append([]byte{letter, spaceCurrent}, c.to...)
	}
	if it, err = m.st.NewIter(append([]byte{letter, spaceCurrent}, c.from...), upper); err != nil {
		b.note(c.from)
		if errors.Is(err, store.ErrReplaced) {
			return nil, nil, true, nil
		}
		return nil, nil, false, fmt.Errorf("refine counts: %w", err)
	}
	b.cut = c
	return c, it, true, nil
}

// pick returns a large block, if there is one.
func (b *blocks) pick() (place, bool) {
	for {
		for len(b.over) > 0 {
			f := b.over[0]
			b.over = b.over[1:]
			if p := locate(b, f); b.fence(p) == f && b.large(b.count(p)) {
				return p, true
			}
		}
		if !b.lost {
			b.over = nil
			return place{}, false
		}
		b.over, b.lost = nil, false
		for _, g := range b.groups {
			for i, n := range g.counts {
				if b.large(n) {
					b.note(g.fences[i])
				}
			}
		}
	}
}

// walk goes through the first rows of the block, at most about n. It sets a fence every so many keys, until the rest is small.
func (c *cut) walk(it store.Iter, n int) error {
	const mostBytes = 64 << 10 // of fences; keys may be long
	bytes := 0
	var last []byte
	have, rest := int64(0), c.keys
	for ok := it.First(); ; ok = it.Next() {
		if !ok {
			if err := it.Error(); err != nil {
				return fmt.Errorf("refine counts: %w", err)
			}
			return fmt.Errorf("refine counts: %d keys of %d from %q on: %w", c.keys-rest, c.keys, c.from, ErrMiscounted)
		}
		key := it.Key()[2:]
		if have == c.target {
			f := separator(last, key)
			c.fences, c.counts = append(c.fences, f), append(c.counts, have)
			have = 0
			if bytes += len(f); rest <= c.target*3/2 || c.keys-rest >= int64(n) || bytes > mostBytes {
				return nil
			}
		}
		last = append(last[:0], key...)
		have++
		rest--
	}
}

// separator is the shortest key that is above a and not above b, which is.
func separator(a, b []byte) string {
	n := 0
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return string(b[:n+1])
}

// endCut installs the result of a walk. The block still has its fences; its count is the old one plus the journal.
func (m *Machine) endCut(c *cut, failed error) (more bool, err error) {
	m.gate.Lock()
	defer m.gate.Unlock()
	b := &m.blocks
	if b.cut != c { // a Load
		return true, nil
	}
	b.cut = nil
	switch {
	case errors.Is(failed, ErrMiscounted):
		return false, failed
	case failed != nil || c.spoilt:
		b.note(c.from)
		if errors.Is(failed, store.ErrReplaced) {
			failed = nil
		}
		return failed == nil, failed
	}
	p := locate(b, c.from)
	rest := c.keys
	for _, n := range c.counts {
		rest -= n
	}
	counts := append(c.counts, rest)
	for _, e := range c.journal {
		i, exact := slices.BinarySearch(c.fences, string(e.key))
		if exact {
			i++
		}
		counts[i] += e.d
	}
	b.divide(p, c.fences, counts)
	b.near = place{}
	for i, n := range counts {
		if b.large(n) {
			if i == 0 {
				b.note(c.from)
			} else {
				b.note(c.fences[i-1])
			}
		}
	}
	return true, nil
}

// gather notes that an entry leaves a key in existence that was not, or the other way round.
func (m *Machine) gather(key []byte, d int64) { m.births = append(m.births, birth{key, d}) }

// sortBirths sorts the keys of an entry that creates or deletes very many in no order. Sorted, each is found next to its predecessor, and
// the gate is closed a fifth of the time.
func (m *Machine) sortBirths() {
	const many = 1024
	if len(m.births) >= many {
		slices.SortFunc(m.births, func(a, b birth) int { return bytes.Compare(a.key, b.key) })
	}
}

// publishBirths adds the entry's created and deleted keys to the blocks.
func (m *Machine) publishBirths() {
	for i := range m.births {
		m.blocks.add(m.births[i].key, m.births[i].d)
	}
	if cap(m.births) > maxIdleWrites {
		m.births = nil
	}
	clear(m.births)
	m.births = m.births[:0]
}

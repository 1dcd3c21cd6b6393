package sim

import (
	"bytes"
	"encoding/binary"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
)

const listCount = 4

// known is what clients had been told by a moment.
type known struct {
	lists  [listCount]int // how long each list is at least
	opened bool           // there are accounts
	turns  uint64         // how often the wheel was turned at least
}

// point is a moment in the order of all transactions: of a transaction as a whole, or of a snapshot that it has read.
type point struct{ by *transaction }

// seen is how long a list was at a point.
type seen struct {
	at           *point
	list, length int
}

// shown is a list as a transaction has read it, or left it.
type shown struct {
	at    *point
	list  int
	value []byte
	known int // how long it was at least, by what clients had been told
}

const idBytes = 4

// append appends the transaction to a list.
func (t *transaction) append() error {
	list := t.b.r.IntN(listCount)
	before := t.b.known.lists[list]
	c, err := t.lock(lists, 0, number(list), lock.Exclusive)
	if err != nil {
		return err
	}
	if t.own[list] != nil {
		return nil // once is enough
	}
	value := binary.BigEndian.AppendUint32(bytes.Clone(c.value), uint32(t.n))
	if err := c.put(value); err != nil {
		return err
	}
	t.own[list] = &shown{t.point, list, value, before + 1}
	return nil
}

// readLocked reads a list with a lock. What it has read holds if the transaction takes effect.
func (t *transaction) readLocked() error {
	list := t.b.r.IntN(listCount)
	before := t.b.known.lists[list]
	c, err := t.lock(lists, 0, number(list), lock.Shared)
	if err != nil {
		return err
	}
	if own := t.own[list]; own != nil {
		if !bytes.Equal(own.value, c.value) {
			t.b.w.Fail(ListBroken, "%s: %s reads list %d as %x and has written %x", t.h.Name(), t, list, c.value, own.value)
		}
		return nil
	}
	t.claim(func() { t.b.show(&shown{t.point, list, c.value, before}) })
	return nil
}

// readLists reads all lists from a snapshot, but for those that it has appended to.
func (t *transaction) readLists() error {
	s, err := t.look(lists, false)
	if err != nil {
		return err
	}
	for i := range listCount {
		value, _, err := t.x.Get(table(t.h, lists).ID, 0, number(i))
		if err != nil {
			return err
		}
		if t.own[i] == nil {
			t.b.show(&shown{s.point, i, value, s.known.lists[i]})
		}
	}
	return nil
}

// show judges a list that is known to have been so: it has everything that clients had been told, and of two lists one is the beginning of the other.
func (b *book) show(s *shown) {
	n := len(s.value) / idBytes
	if n < s.known {
		b.w.Fail(StaleRead, "%s: %s has list %d with %d numbers, and there were %d before", s.at.by.h.Name(), s.at.by, s.list, n, s.known)
	}
	longest := &b.longest[s.list]
	if common := min(len(*longest), len(s.value)); !bytes.Equal((*longest)[:common], s.value[:common]) {
		b.w.Fail(ListBroken, "%s: %s has list %d as %x, and it was seen as %x", s.at.by.h.Name(), s.at.by, s.list, s.value, *longest)
	}
	if len(s.value) > len(*longest) {
		*longest = s.value
	}
	b.known.lists[s.list] = max(b.known.lists[s.list], n)
	b.seen = append(b.seen, seen{s.at, s.list, n})
}

// circle looks for points that no order can explain. finals are the lists in the end, by who has appended to them. It returns the points of circles
// and those behind them, or none.
func circle(finals [listCount][]*point, all []seen) []*point {
	after, open := map[*point][]*point{}, map[*point]int{}
	var points []*point // in the order in which they are met
	add := func(p *point) {
		if _, ok := open[p]; !ok {
			open[p] = 0
			points = append(points, p)
		}
	}
	before := func(p, q *point) {
		add(p)
		add(q)
		if p != q {
			after[p] = append(after[p], q)
			open[q]++
		}
	}
	for _, list := range finals {
		for i := 1; i < len(list); i++ {
			before(list[i-1], list[i])
		}
	}
	for _, s := range all {
		if s.length > 0 {
			before(finals[s.list][s.length-1], s.at)
		}
		if s.length < len(finals[s.list]) {
			before(s.at, finals[s.list][s.length])
		}
	}
	var next []*point
	for _, p := range points {
		if open[p] == 0 {
			next = append(next, p)
		}
	}
	for len(next) > 0 {
		p := next[0]
		next = next[1:]
		for _, q := range after[p] {
			if open[q]--; open[q] == 0 {
				next = append(next, q)
			}
		}
		delete(open, p)
	}
	var left []*point
	for _, p := range points {
		if _, ok := open[p]; ok {
			left = append(left, p)
		}
	}
	return left
}

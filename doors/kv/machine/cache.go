package machine

import "bytes"

// slot is what Apply knows of one key: the newest meta, with the effects of the entry being applied. It lasts as long as the entry: its
// final state is packed (packedSlots). Only the apply goroutine touches it.
type slot struct {
	key []byte // the record's, or of its own
	meta
	last int32  // 1 + index of the newest write of this key in the entry; 0 = none
	at   uint32 // its record, 0 = none
	n    int32  // its number in the cache
	// kept is the value the store has, if it has one of at most laterBytes: the put that replaces it moves it into history.
	kept []byte
	lent bool // it is one of the entry's runs, not of the cache
}

// metaCache knows the newest meta and small value of keys, so that a put of a key seen lately reads nothing from the store. It is exact by
// construction: every change of a key goes through its slot, and a forgotten key is read from the store again.
//
// Keys that the entry being applied has asked for have a slot; shrink packs them.
type metaCache struct {
	packed packedSlots
	most   int      // bytes of packed
	pieces [][]slot // the entry's slots: pieces, because they must not move
	taken  int      // how many there are
	// long are the slots of keys that are too long to be packed: they are read from the store for every entry.
	long map[string]*slot
}

// cachePiece is how many slots are allocated at a time, idlePieces how many pieces stay for the next entry.
const (
	cachePiece = 64
	idlePieces = 16
)

func (c *metaCache) reset(bytes int) {
	*c = metaCache{most: min(max(bytes, 1), mostPacked)}
	c.packed.reset(c.most)
}

// numbered returns one of the entry's slots.
func (c *metaCache) numbered(n int) *slot { return &c.pieces[n/cachePiece][n%cachePiece] }

// take returns an unused slot.
func (c *metaCache) take(m meta, kept []byte) *slot {
	n := c.taken
	if n == len(c.pieces)*cachePiece {
		c.pieces = append(c.pieces, make([]slot, cachePiece))
	}
	c.taken++
	s := c.numbered(n)
	*s = slot{meta: m, n: int32(n), kept: append(s.kept[:0], kept...)}
	return s
}

// get returns the slot of key, or nil.
func (c *metaCache) get(key []byte) *slot {
	at := c.packed.find(key)
	if at == 0 {
		return c.long[string(key)]
	}
	r := c.packed.record(at)
	if n, ok := lent(r); ok {
		return c.numbered(n)
	}
	m, kept := load(r)
	s := c.take(m, kept)
	s.key, s.at = recordKeyOf(r), at
	lend(r, s.n)
	return s
}

// add makes a slot from the store's row; value is that of m if m exists. The cache had none of key.
func (c *metaCache) add(key []byte, m meta, value []byte) *slot {
	if !m.later() {
		value = nil
	}
	s := c.take(m, value)
	c.record(s, key)
	return s
}

// record makes a record of a slot that has none.
func (c *metaCache) record(s *slot, key []byte) {
	if len(key) <= c.packed.longest() {
		s.at = c.packed.add(key, len(s.kept))
		r := c.packed.record(s.at)
		s.key = recordKeyOf(r)
		lend(r, s.n)
		return
	}
	s.key, s.at = bytes.Clone(key), 0
	if c.long == nil {
		c.long = map[string]*slot{}
	}
	c.long[string(key)] = s
}

// keep sets the store's value of s; m is its newest version now. s was asked for by this entry, so it is here.
func (c *metaCache) keep(s *slot, m *meta, value []byte) {
	if s.lent {
		return // gone with the entry
	}
	s.kept = s.kept[:0]
	if m.later() {
		s.kept = append(s.kept, value...)
	}
}

// only forgets all but the slots that writes of the entry have.
func (c *metaCache) only(writes []write) {
	pieces, taken := c.pieces, c.taken
	c.reset(c.most)
	c.pieces, c.taken = pieces, taken // until the entry is over; some of them may be unused
	for n := range taken {
		c.numbered(n).at = 0
	}
	for i := range writes {
		if s := writes[i].slot; !s.lent && int(s.last) == i+1 {
			c.record(s, s.key)
		}
	}
}

// shrink ends an entry: it packs the slots and forgets until the cache has its size, which is most bytes from now on. It forgets everything
// after an entry that alone met more keys than the cache is for. It also does so if the table of numbers fits a much larger cache. No
// caller may hold a slot any more.
func (c *metaCache) shrink(most int) {
	c.most = min(max(most, 1), mostPacked)
	for n := range c.taken {
		if s := c.numbered(n); s.at != 0 {
			c.packed.update(s.at, &s.meta, s.kept)
		}
	}
	c.taken, c.long = 0, nil
	if len(c.pieces) > idlePieces { // its slots may be many, and their values
		c.pieces = append([][]slot(nil), c.pieces[:idlePieces]...)
	}
	if c.packed.bytes() > 2*c.most || len(c.packed.table) > tableLeast && 8*len(c.packed.table) > c.most/2 {
		c.packed.reset(c.most)
	}
	for c.packed.bytes() > c.most && len(c.packed.order) > 0 {
		c.packed.forget()
	}
}

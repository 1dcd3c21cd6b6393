package kv

// slot is what Apply knows of one key: the newest meta, with the effects of the entry being applied. Slots are shared
// between the cache and the entry's writes; only the apply goroutine touches them.
type slot struct {
	key string
	meta
	last int32 // 1 + index of the newest write of this key in the entry; 0 = none
	used bool  // since the cache's hand passed
	lent bool  // it is not in the cache but in the entry's runs, until the entry is published
	// kept is the value the store has, if it has one of at most laterBytes: the put that replaces it moves it into history.
	kept []byte
}

// slotBytes is about what a slot takes beside its key and value, its places in the map and the ring included.
const slotBytes = 150

// metaCache maps keys to their newest meta and small value, so that a put of a key seen lately reads nothing from the store. It
// is exact by construction: every change of a key goes through its slot, and a slot that is dropped is read from the store
// again.
//
// It forgets by the clock algorithm (Corbató 1968): a hand goes round the slots and drops those not used since it passed last.
// An LRU list was rejected: it costs two pointers a key and a write on every hit. Two generations of which the older is dropped
// were what it had: a key that is used has to be put into the younger, so a working set of two thirds of the cache was half
// dropped each time it was gone through.
type metaCache struct {
	slots map[string]*slot
	ring  []*slot // every slot once; new ones at the end
	hand  int     // place in ring
	bytes int
	most  int
}

func (c *metaCache) reset(bytes int) {
	*c = metaCache{slots: map[string]*slot{}, most: max(bytes, 1)}
}

// get returns the slot of key, or nil.
func (c *metaCache) get(key []byte) *slot {
	s := c.slots[string(key)]
	if s != nil {
		s.used = true
	}
	return s
}

// add makes a slot of what the store has; value is that of m if m exists. The cache had none of key.
func (c *metaCache) add(key []byte, m meta, value []byte) *slot {
	s := &slot{key: string(key), meta: m, used: true}
	if m.later() {
		s.kept = append(s.kept, value...)
	}
	c.slots[s.key] = s
	c.ring = append(c.ring, s)
	c.bytes += s.size()
	return s
}

func (s *slot) size() int { return slotBytes + len(s.key) + len(s.kept) }

// keep makes value what the store has of s, whose newest version is m now. s was asked for by this entry, so it is here.
func (c *metaCache) keep(s *slot, m *meta, value []byte) {
	if s.lent {
		return // gone with the entry
	}
	c.bytes -= s.size()
	s.kept = s.kept[:0]
	if m.later() {
		s.kept = append(s.kept, value...)
	}
	c.bytes += s.size()
}

// only drops every slot but those that writes of the entry have.
func (c *metaCache) only(writes []write) {
	c.reset(c.most)
	for i := range writes {
		if s := writes[i].slot; !s.lent && int(s.last) == i+1 {
			c.slots[s.key] = s
			c.ring = append(c.ring, s)
			c.bytes += s.size()
		}
	}
}

// handSteps is how many slots the hand passes at most before it drops one, used or not: when all were used since, a whole
// turn would make one entry wait for all the others' accesses.
const handSteps = 8

// shrink drops slots until the cache has its size again, or all of them after an entry that alone met more keys than it is
// for: the map would keep its size for ever. Only between entries: an entry's writes must find their slots.
func (c *metaCache) shrink() {
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
		c.drop(c.hand)
	}
}

// drop forgets the slot at place i; the last one takes its place.
func (c *metaCache) drop(i int) {
	s, last := c.ring[i], len(c.ring)-1
	c.bytes -= s.size()
	delete(c.slots, s.key)
	c.ring[i], c.ring[last] = c.ring[last], nil
	c.ring = c.ring[:last]
}

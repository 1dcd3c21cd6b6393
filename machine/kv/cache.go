package kv

// slot is what Apply knows of one key: the newest meta, with the effects of the entry being applied. Slots are shared
// between the cache and the entry's writes; only the apply goroutine touches them.
type slot struct {
	key string
	meta
	last int32 // 1 + index of the newest write of this key in the entry; 0 = none
	// kept is the value the store has, if it has one of at most laterBytes: the put that replaces it moves it into history.
	kept []byte
}

// slotBytes is about what a slot takes beside its key and value, its place in a map included.
const slotBytes = 150

// metaCache maps keys to their newest meta and small value, so that a put of a key seen lately reads nothing from the store. It
// is exact by construction: every change of a key goes through its slot, and a slot that is dropped is read from the store
// again. It forgets by generations: when the young half is full it becomes the old one and what was not asked for since is
// gone. An LRU list was rejected: it costs two pointers a key and a write on every hit.
type metaCache struct {
	young, old map[string]*slot
	bytes      int // of young
	half       int
}

func (c *metaCache) reset(bytes int) {
	c.half = max(bytes/2, 1)
	c.young, c.old, c.bytes = map[string]*slot{}, nil, 0
}

// get returns the slot of key, or nil.
func (c *metaCache) get(key []byte) *slot {
	if s := c.young[string(key)]; s != nil {
		return s
	}
	s := c.old[string(key)]
	if s != nil {
		c.insert(s)
	}
	return s
}

// add makes a slot of what the store has; value is that of m if m exists.
func (c *metaCache) add(key []byte, m meta, value []byte) *slot {
	s := &slot{key: string(key), meta: m}
	if m.later() {
		s.kept = append(s.kept, value...)
	}
	c.insert(s)
	return s
}

func (c *metaCache) insert(s *slot) {
	c.young[s.key] = s
	c.bytes += slotBytes + len(s.key) + len(s.kept)
}

// keep makes value what the store has of s, whose newest version is m now. s was asked for by this entry, so it is in young.
func (c *metaCache) keep(s *slot, m *meta, value []byte) {
	before := len(s.kept)
	s.kept = s.kept[:0]
	if m.later() {
		s.kept = append(s.kept, value...)
	}
	c.bytes += len(s.kept) - before
}

// rotate drops the old generation if the young one is full, and both after an entry that alone met more keys than the cache
// is for. Only between entries: an entry's writes must find their slots.
func (c *metaCache) rotate() {
	switch {
	case c.bytes > 2*c.half:
		c.reset(2 * c.half)
	case c.bytes >= c.half:
		c.old, c.young, c.bytes = c.young, make(map[string]*slot, len(c.young)/4), 0
	}
}

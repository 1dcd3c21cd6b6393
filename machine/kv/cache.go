package kv

// slot is what Apply knows of one key: the newest meta, with the effects of the entry being applied. Slots are shared
// between the cache and the entry's writes; only the apply goroutine touches them.
type slot struct {
	key string
	meta
	last int32 // 1 + index of the newest write of this key in the entry; 0 = none
}

// metaCache maps keys to their newest meta, so that a put of a key seen lately reads nothing from the store. It is exact
// by construction: every change of a key goes through its slot, and a slot that is dropped is read from the store again. It
// forgets by generations: when the young half is full it becomes the old one and what was not asked for since is gone. An
// LRU list was rejected: it costs two pointers a key and a write on every hit.
type metaCache struct {
	young, old map[string]*slot
	half       int
}

func (c *metaCache) reset(keys int) {
	c.half = max(keys/2, 1)
	c.young, c.old = map[string]*slot{}, nil
}

// get returns the slot of key, or nil.
func (c *metaCache) get(key []byte) *slot {
	if s := c.young[string(key)]; s != nil {
		return s
	}
	s := c.old[string(key)]
	if s != nil {
		c.young[s.key] = s
	}
	return s
}

func (c *metaCache) add(key []byte, m meta) *slot {
	s := &slot{key: string(key), meta: m}
	c.young[s.key] = s
	return s
}

// rotate drops the old generation if the young one is full, and both after an entry that alone met more keys than the cache
// is for. Only between entries: an entry's writes must find their slots.
func (c *metaCache) rotate() {
	switch n := len(c.young); {
	case n > 2*c.half:
		c.reset(2 * c.half)
	case n >= c.half:
		c.old, c.young = c.young, make(map[string]*slot, c.half/4)
	}
}

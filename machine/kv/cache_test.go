package kv

import (
	"fmt"
	"testing"
)

// missesOf asks the cache for every key in turn, times over, and returns how many it did not have in the last turn.
func missesOf(c *metaCache, keys, times int) (missed int) {
	for range times {
		missed = 0
		for i := range keys {
			key := fmt.Appendf(nil, "%08d", i)
			if c.get(key) == nil {
				missed++
				c.add(key, meta{}, nil)
			}
			c.shrink()
		}
	}
	return missed
}

// What fits is kept, and what is asked for again is kept longer than what was asked for once.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	const each = slotBytes + 8
	var c metaCache
	c.reset(1000 * each)
	if n := missesOf(&c, 1000, 2); n != 0 {
		t.Errorf("%d misses in the second turn through what fits", n)
	}
	if n := missesOf(&c, 5000, 1); n < 4000 {
		t.Errorf("%d misses in a turn through five times of what fits", n)
	}

	c.reset(1000 * each)
	missed := 0
	for i := range 100_000 {
		once, often := fmt.Appendf(nil, "o%07d", i), fmt.Appendf(nil, "%08d", i%100)
		for _, key := range [][]byte{once, often} {
			if c.get(key) == nil {
				if i >= 100 && key[0] != 'o' {
					missed++
				}
				c.add(key, meta{}, nil)
			}
		}
		c.shrink()
		if c.bytes > c.most || len(c.slots) != len(c.ring) {
			t.Fatalf("%d bytes of %d, %d slots, %d in the ring", c.bytes, c.most, len(c.slots), len(c.ring))
		}
	}
	if missed > 100 {
		t.Errorf("%d misses of 100 keys in use between 100,000 used once", missed)
	}
}

// What the cache counts is what it holds, with values coming and going.
func TestCacheCountsBytes(t *testing.T) {
	var c metaCache
	c.reset(50 * slotBytes)
	small, large := meta{version: 1, valLen: 100}, meta{version: 2, valLen: laterBytes + 1}
	for i := range 10_000 {
		key := fmt.Appendf(nil, "%d", i%97)
		s := c.get(key)
		if s == nil {
			s = c.add(key, small, make([]byte, 100))
		}
		switch i % 3 {
		case 0:
			c.keep(s, &large, make([]byte, laterBytes+1))
		case 1:
			c.keep(s, &small, make([]byte, 100))
		default:
			c.keep(s, &meta{}, nil)
		}
		c.shrink()
		sum := 0
		for _, s := range c.ring {
			if c.slots[s.key] != s {
				t.Fatalf("%q is in the ring and not in the map", s.key)
			}
			sum += s.size()
		}
		if sum != c.bytes || sum > c.most {
			t.Fatalf("%d bytes counted, %d held, %d allowed", c.bytes, sum, c.most)
		}
	}
}

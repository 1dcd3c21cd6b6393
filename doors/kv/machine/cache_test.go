package machine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// slotBytes is about what a key takes in the cache beside itself and its value, its place in the table included.
const slotBytes = recordHead + 16

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
			c.shrink(c.most)
		}
	}
	return missed
}

// Keys that fit are kept, and keys asked for again are kept longer than others.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	const each = slotBytes + 8
	var c metaCache
	c.reset(1200 * each)
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
		c.shrink(c.most)
	}
	if missed > 100 {
		t.Errorf("%d misses of 100 keys in use between 100,000 used once", missed)
	}
	if c.packed.keys < 700 {
		t.Errorf("%d keys of a thousand", c.packed.keys)
	}
}

// A working set of all of the cache that is gone through again and again is not lost at once when one key more comes.
func TestCacheGivesUpLittleAtATime(t *testing.T) {
	var c metaCache
	c.reset(1 << 20)
	n := 0
	for ; c.packed.bytes() < 1<<20-c.packed.chunkBytes; n++ {
		missesOf(&c, n, 0)
		c.add(fmt.Appendf(nil, "%08d", n), meta{}, nil)
		c.shrink(c.most)
	}
	missesOf(&c, n, 1)
	for i := range 100 {
		c.add(fmt.Appendf(nil, "o%07d", i), meta{}, nil)
		c.shrink(c.most)
	}
	if missed := missesOf(&c, n, 1); missed > n/4 {
		t.Errorf("%d of %d keys in use are gone", missed, n)
	}
}

// known is what the test knows of a key.
type knownKey struct {
	m    meta
	kept []byte
}

// TestCacheTells: the cache's entry of a key is the last one given. Entries ask for keys, change them, and forget others in the middle,
// with values that come and go. Keys of all lengths, so that some are too long to be packed.
func TestCacheTells(t *testing.T) {
	for _, most := range []int{1, 6 << 10, 64 << 10, 1 << 20} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			r := rand.New(rand.NewPCG(18, uint64(most)))
			var c metaCache
			c.reset(most)
			knows := map[string]knownKey{}
			found := 0
			for entry := range 10_000 {
				var writes []write
				for range 1 + r.IntN(6) {
					key := fmt.Appendf(nil, "%d", r.IntN(2000))
					if r.IntN(10) == 0 {
						key = append(key, bytes.Repeat([]byte("x"), r.IntN(2000))...)
						key = fmt.Appendf(key[:len(key):len(key)], "/%d", r.IntN(3))
					}
					k := knows[string(key)]
					s := c.get(key)
					if s != nil {
						found++
						if string(s.key) != string(key) || s.meta != k.m || string(s.kept) != string(k.kept) {
							t.Fatalf("entry %d: %q is %+v with %q, the cache says %+v with %q", entry, key, k.m, k.kept, s.meta, s.kept)
						}
					} else {
						s = c.add(key, k.m, k.kept)
					}
					if c.get(key) != s {
						t.Fatalf("entry %d: %q has two slots", entry, key)
					}
					if r.IntN(2) == 0 {
						continue // it was only asked for
					}
					k = knownKey{m: meta{create: r.Int64(), mod: r.Int64(), lease: r.Int64(), sub: r.Uint32()}}
					if r.IntN(5) > 0 {
						k.m.version = 1 + r.Int64N(10)
						k.m.valLen = r.Uint32N(2 * laterBytes)
						if k.m.later() {
							k.kept = bytes.Repeat([]byte{byte(r.IntN(256))}, int(k.m.valLen))
						}
					}
					writes = append(writes, write{slot: s})
					s.meta, s.last = k.m, int32(len(writes))
					c.keep(s, &k.m, k.kept)
					knows[string(key)] = k
				}
				if r.IntN(1000) == 0 {
					c.only(writes)
					for i := range writes {
						if s := writes[i].slot; c.get(s.key) != s {
							t.Fatalf("entry %d: the slot of %q is lost", entry, s.key)
						}
					}
				}
				for i := range writes {
					writes[i].slot.last = 0
				}
				c.shrink(c.most)
				if entry%100 == 0 {
					checkPacked(t, &c.packed)
				}
				if b := c.packed.bytes(); b > max(most, 8*tableLeast+c.packed.chunkBytes) {
					t.Fatalf("entry %d: it takes %d bytes of %d", entry, b, most)
				}
			}
			if most > 10<<10 && found < 3000 {
				t.Errorf("only %d keys were found", found)
			}
		})
	}
}

// checkPacked fails if the table and the records do not agree.
func checkPacked(t *testing.T, p *packedSlots) {
	t.Helper()
	living := 0
	for _, number := range p.order {
		at := number*p.units + 1
		for c := p.chunks[number]; len(c) > 0; {
			r := p.record(at)
			if r[recordFlags]&recordDead == 0 {
				living++
				if got := p.find(recordKeyOf(r)); got != at {
					t.Fatalf("the record of %q is at %d, the table says %d", recordKeyOf(r), at, got)
				}
			}
			at += uint32(len(r) / recordUnit)
			c = c[len(r):]
		}
	}
	taken := 0
	for _, e := range p.table {
		if e != 0 {
			taken++
		}
	}
	if living != p.keys || taken != p.keys {
		t.Fatalf("%d keys, %d records, %d places of the table", p.keys, living, taken)
	}
}

// BenchmarkCachePut is what the cache costs a put of one of many keys.
func BenchmarkCachePut(b *testing.B) {
	for _, keys := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			var c metaCache
			c.reset(1 << 30)
			value := make([]byte, 100)
			m := meta{version: 1, valLen: 100}
			r := rand.New(rand.NewPCG(1, 1))
			var key []byte
			for b.Loop() {
				key = fmt.Appendf(key[:0], "key/%08d", r.IntN(keys))
				s := c.get(key)
				if s == nil {
					s = c.add(key, m, value)
				}
				c.keep(s, &m, value)
				c.shrink(c.most)
			}
		})
	}
}

package kv

import (
	"fmt"

	"github.com/holdfastdb/holdfast/store"
)

// keyFilter recognizes most keys that do not exist, so that the first put of a key reads nothing: looking for it in the store's
// memtables and tables was a sixth of what three members spent on a put. It is a blocked Bloom filter (Putze, Sanders, Singler
// 2007: all bits of a key in one cache line), in layers that double, since a Bloom filter cannot grow. Deleted keys stay in it,
// which costs a needless read at worst.
//
// It only saves reads: members may differ in what theirs holds and still decide the same. Apply goroutine only.
type keyFilter struct {
	layers []filterLayer // oldest first; new keys go to the last
	most   int           // bytes of all layers at most
	bytes  int
	// Keys that were in the store at Load come in piece by piece with the entries, so that a start does not take longer the
	// more keys there are. Until that walk is over, a key that is not in the filter may exist.
	whole  bool
	cursor []byte // store key where the walk goes on
}

// filterLayer is a Bloom filter of blocks.
type filterLayer struct {
	blocks [][8]uint64
	room   int // keys it can still take
}

const (
	filterFirst = 1 << 16 // keys of the first layer
	// filterBlockKeys a block of 512 bits are 12.8 bits a key; with filterProbes about one absent key in 150 is read in vain.
	filterBlockKeys = 40
	filterProbes    = 6
	// filterWalk is how many stored keys one entry adds.
	filterWalk = 256
)

// reset begins anew; keys is how many exist in the store.
func (f *keyFilter) reset(most int, keys int64) {
	*f = keyFilter{most: most, whole: keys == 0, cursor: []byte{letter, spaceCurrent}}
}

// absent reports whether key certainly does not exist.
func (f *keyFilter) absent(key []byte) bool {
	return f.whole && !f.holds(filterHash(key))
}

func (f *keyFilter) holds(h uint64) bool {
	for i := len(f.layers) - 1; i >= 0; i-- {
		if f.layers[i].holds(h) {
			return true
		}
	}
	return false
}

// add notes that key exists from now on.
func (f *keyFilter) add(key []byte) {
	if f.cursor == nil && !f.whole { // given up
		return
	}
	h := filterHash(key)
	if f.holds(h) {
		return
	}
	if n := len(f.layers); n == 0 || f.layers[n-1].room == 0 {
		blocks := (filterFirst << n) / filterBlockKeys
		if f.bytes += blocks * 64; f.bytes > f.most {
			*f = keyFilter{} // more keys than the budget is for: every first put reads the store again
			return
		}
		f.layers = append(f.layers, filterLayer{blocks: make([][8]uint64, blocks), room: filterFirst << n})
	}
	f.layers[len(f.layers)-1].add(h)
}

// walk adds some of the keys that were in the store at Load. A key that came since was added when it was written, and one
// that is gone by now need not be in it, so the walk may read the store as it is.
func (f *keyFilter) walk(st store.Store) error {
	if f.whole || f.cursor == nil {
		return nil
	}
	it, err := st.NewIter(f.cursor, []byte{letter, spaceCurrent + 1})
	if err != nil {
		return fmt.Errorf("walk keys: %w", err)
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > filterWalk {
			f.cursor = append(f.cursor[:0], it.Key()...)
			return nil
		}
		if f.add(it.Key()[2:]); f.cursor == nil {
			return nil
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("walk keys: %w", err)
	}
	f.whole, f.cursor = true, nil
	return nil
}

// place spreads h over the blocks, and its bits over one of them.
func (l *filterLayer) place(h uint64) (block *[8]uint64, bits uint64) {
	return &l.blocks[(h>>32)*uint64(len(l.blocks))>>32], h * 0x9E3779B97F4A7C15 >> (64 - 9*filterProbes)
}

func (l *filterLayer) holds(h uint64) bool {
	block, bits := l.place(h)
	for range filterProbes {
		if block[bits>>6&7]&(1<<(bits&63)) == 0 {
			return false
		}
		bits >>= 9
	}
	return true
}

func (l *filterLayer) add(h uint64) {
	block, bits := l.place(h)
	for range filterProbes {
		block[bits>>6&7] |= 1 << (bits & 63)
		bits >>= 9
	}
	l.room--
}

// filterHash is FNV-1a with the finalizer of MurmurHash3 behind it, because the blocks are chosen by the upper bits.
// It has no secret: keys made to collide cost reads, as without the filter.
func filterHash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Package bloom recognizes most keys that were never added, so that a search for a new key need not read the store. It is a blocked Bloom
// filter (Putze, Sanders, Singler 2007: all bits of a key in one cache line). It has layers that double, since a Bloom filter cannot grow.
// It holds keys of one process and is never stored. Its user decides which keys to add, in what order the store is walked, and when to
// begin anew.
//
// A key cannot be taken out. It only saves reads: members may differ in what theirs holds and still decide the same.
package bloom

const (
	// First is how many keys the first layer takes; each further one takes twice as many as its predecessor.
	First = 1 << 16
	// blockKeys a block of 512 bits are 12.8 bits a key; with probes about one absent key in 150 is read in vain.
	blockKeys = 40
	probes    = 6
)

// Filter is a set of keys that forgets none and takes some for there that are not. The zero Filter is empty and may not grow. It belongs to
// one goroutine.
type Filter struct {
	layers []layer // oldest first; new keys go to the last
	most   int     // bytes of all layers at most
	bytes  int
	keys   int
}

// layer is a Bloom filter of blocks.
type layer struct {
	blocks [][8]uint64
	room   int // keys it can still take
}

// New returns an empty filter of at most some bytes, about 1.6 for each key. They are taken as keys come.
func New(most int) Filter { return Filter{most: most} }

// Len is how many keys were added, without those that seemed to be there already.
func (f *Filter) Len() int { return f.keys }

// Bytes is the filter's size.
func (f *Filter) Bytes() int { return f.bytes }

// Capacity is how many keys a filter of some bytes takes.
func Capacity(most int) (keys int) {
	for layer := First; ; layer *= 2 {
		if most -= size(layer); most < 0 {
			return keys
		}
		keys += layer
	}
}

// size is the bytes of a layer for so many keys.
func size(keys int) int { return keys / blockKeys * 64 }

// Holds reports whether a key may have been added; false: it was not.
func Holds[K ~string | ~[]byte](f *Filter, key K) bool { return f.holds(hash(key)) }

// Add adds a key. It reports false, and the filter is of no use any more, if that would take more than its bytes.
func Add[K ~string | ~[]byte](f *Filter, key K) bool {
	h := hash(key)
	if f.holds(h) {
		return true
	}
	if n := len(f.layers); n == 0 || f.layers[n-1].room == 0 {
		keys := First << n
		if f.bytes+size(keys) > f.most {
			return false
		}
		f.bytes += size(keys)
		f.layers = append(f.layers, layer{blocks: make([][8]uint64, keys/blockKeys), room: keys})
	}
	f.keys++
	f.layers[len(f.layers)-1].add(h)
	return true
}

func (f *Filter) holds(h uint64) bool {
	for i := len(f.layers) - 1; i >= 0; i-- {
		if f.layers[i].holds(h) {
			return true
		}
	}
	return false
}

// place spreads h over the blocks, and its bits over one of them.
func (l *layer) place(h uint64) (block *[8]uint64, bits uint64) {
	return &l.blocks[(h>>32)*uint64(len(l.blocks))>>32], h * 0x9E3779B97F4A7C15 >> (64 - 9*probes)
}

func (l *layer) holds(h uint64) bool {
	block, bits := l.place(h)
	for range probes {
		if block[bits>>6&7]&(1<<(bits&63)) == 0 {
			return false
		}
		bits >>= 9
	}
	return true
}

func (l *layer) add(h uint64) {
	block, bits := l.place(h)
	for range probes {
		block[bits>>6&7] |= 1 << (bits & 63)
		bits >>= 9
	}
	l.room--
}

// hash is FNV-1a with the finalizer of MurmurHash3 behind it, because the blocks are chosen by the upper bits. It has no secret: keys made to
// collide cost reads, as without the filter.
func hash[K ~string | ~[]byte](key K) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

package machine

import (
	"hash/maphash"
	"sync/atomic"
)

// latest knows at which revision keys with long values (above inlineBytes) were last written. A reader then finds such a version in history
// by one lookup. Through the key's current row it takes two. Over a million keys of 1 KB the first was a sixth of the cost of a get.
//
// It may forget, but its answer is exact, and no goroutine takes a lock. A word has only a hash of the key and the last bits of the
// revision. Each entry changes the words of all its keys, in their order. It does so after the store has the change, before hotRows are
// made invalid, and before any reader hears of the revision. So a reader that knows of revision R meets a word of R or later. The word says
// that no key of this hash was changed after the change it names. If history has a version of the reader's key at that revision, it is the
// newest. If not, the word is of another key, or a later change was compacted; the reader then uses the current row.
//
// The rejected design was to let readers add the versions they find in current rows. A change that leaves no word could then come before
// the reader's word, which would stay.
type latest struct {
	seed  maphash.Seed
	most  int // words, a power of two, or none
	taken int // words that are not free; apply goroutine only
	table atomic.Pointer[latestTable]
}

// latestTable is divided into buckets by the upper bits of hashes. It is written by the apply goroutine. Readers that still have one that has been
// replaced find in it what was so when they began.
type latestTable struct {
	shift uint // of a hash, to the number of its bucket
	words []atomic.Uint64
}

// A word is a hash, a place in a revision and the last bits of the revision; 0 = free. Of a key whose last change was so many revisions ago that the bits
// say another one, nothing is found there.
const (
	latestHashBits = 30
	latestSubBits  = 7 // a Txn has 128 operations at most, unless it is told otherwise
	latestRevBits  = 64 - latestHashBits - latestSubBits
	latestSubs     = 1<<latestSubBits - 1
	latestRevs     = 1<<latestRevBits - 1
)

func latestWord(hash uint32, rev int64, sub uint32) uint64 {
	return uint64(hash)<<(latestSubBits+latestRevBits) | uint64(sub)<<latestRevBits | uint64(rev)&latestRevs
}

func latestHash(word uint64) uint32 { return uint32(word >> (latestSubBits + latestRevBits)) }

// latestAge is the number of revisions from the one that word names to rev.
func latestAge(word uint64, rev int64) int64 { return (rev - int64(word)) & latestRevs }

const (
	// latestPart is the part of Options.CacheBytes that it may have.
	latestPart = 16
	// latestBucket is how many words a bucket has: one line of a processor's cache.
	latestBucket = 8
	// latestLeast is how many words the smallest table has, a power of two.
	latestLeast = 8 * latestBucket
)

// setUp bounds the memory. Before anything else.
func (l *latest) setUp(bytes int) {
	l.seed = maphash.MakeSeed()
	l.most = latestWords(bytes)
}

// latestWords is how many words fit into so many bytes, 0 or a power of two.
func latestWords(bytes int) (most int) {
	for n := latestLeast; 8*n <= bytes; n *= 2 {
		most = n
	}
	return most
}

// bound sets the memory anew; a table that is larger is forgotten. Apply goroutine only.
func (l *latest) bound(bytes int) {
	if 8*l.most <= bytes && bytes < 16*l.most { // as it is
		return
	}
	l.most = latestWords(bytes)
	if t := l.table.Load(); t != nil && len(t.words) > l.most {
		l.clear()
	}
}

// bytes is its size. Apply goroutine only.
func (l *latest) bytes() int {
	if t := l.table.Load(); t != nil {
		return 8 * len(t.words)
	}
	return 0
}

func (l *latest) hash(key []byte) uint32 {
	return uint32(maphash.Bytes(l.seed, key) >> (64 - latestHashBits))
}

// find returns which version of key may be the newest, for a reader who knows of the revision now; 0: nothing is known. Any goroutine.
func (l *latest) find(key []byte, now int64) (rev int64, sub uint32) {
	if t := l.table.Load(); t != nil {
		return t.find(l.hash(key), now)
	}
	return 0, 0
}

// note records an entry's change of key. Apply goroutine only, when the store has the entry and before readers hear of its revision.
func (l *latest) note(key []byte, m *meta) {
	switch t := l.table.Load(); {
	case l.most == 0:
	case m.exists() && m.valLen > inlineBytes && m.sub <= latestSubs:
		l.set(l.hash(key), m.mod, m.sub)
	case t != nil:
		l.drop(t, l.hash(key))
	}
}

// clear forgets all keys. Apply goroutine only.
func (l *latest) clear() {
	l.table.Store(nil)
	l.taken = 0
}

func newLatestTable(words int) *latestTable {
	t := &latestTable{shift: latestHashBits, words: make([]atomic.Uint64, words)}
	for n := words / latestBucket; n > 1; n /= 2 {
		t.shift--
	}
	return t
}

func (t *latestTable) bucket(hash uint32) []atomic.Uint64 {
	from := int(hash>>t.shift) * latestBucket
	return t.words[from : from+latestBucket]
}

func (t *latestTable) find(hash uint32, now int64) (rev int64, sub uint32) {
	b := t.bucket(hash)
	for i := range b {
		if w := b[i].Load(); w != 0 && latestHash(w) == hash {
			// A revision that is newer than now becomes one of long ago, where the key has no version.
			return max(now-latestAge(w, now), 0), uint32(w>>latestRevBits) & latestSubs
		}
	}
	return 0, 0
}

// set makes a version the newest of a hash.
func (l *latest) set(hash uint32, rev int64, sub uint32) {
	t := l.table.Load()
	if t == nil {
		t = newLatestTable(latestLeast)
		l.table.Store(t)
	}
	word := latestWord(hash, rev, sub)
	if word == 0 { // it would be free
		l.drop(t, hash)
		return
	}
	b := t.bucket(hash)
	free, oldest := -1, 0
	for i := range b {
		switch w := b[i].Load(); {
		case w == 0:
			free = i
		case latestHash(w) == hash:
			b[i].Store(word)
			return
		case latestAge(w, rev) > latestAge(b[oldest].Load(), rev):
			oldest = i
		}
	}
	switch {
	case free < 0 && len(t.words) < l.most && 2*l.taken > len(t.words):
		l.grow(t)
		l.set(hash, rev, sub)
	case free < 0:
		b[oldest].Store(word)
	default:
		b[free].Store(word)
		l.taken++
	}
}

// drop forgets a hash.
func (l *latest) drop(t *latestTable, hash uint32) {
	b := t.bucket(hash)
	for i := range b {
		if w := b[i].Load(); w != 0 && latestHash(w) == hash {
			b[i].Store(0)
			l.taken--
			return
		}
	}
}

// grow makes the table twice as large. The words of a bucket go into two, in order; a million take milliseconds.
func (l *latest) grow(old *latestTable) {
	t := newLatestTable(2 * len(old.words))
	for i := range old.words {
		w := old.words[i].Load()
		if w == 0 {
			continue
		}
		b := t.bucket(latestHash(w))
		for j := range b {
			if b[j].Load() == 0 {
				b[j].Store(w)
				break
			}
		}
	}
	l.table.Store(t)
}

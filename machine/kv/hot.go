package kv

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// hotRows keeps the current rows of keys that readers ask for again and again, so that such a read looks into none of the store's
// memtables and tables: behind one flushed table that was a twelfth of what a read cost in all.
//
// It is exact. A row is valid as long as the count of its place is what it was before the row was read from the store, and Publish
// raises the count of every key the entry changed: after the store has the change, before any reader hears of its revision. So a row
// that a reader finds valid after it learned of revision R is the key's row at R, or a later one, which its own revision tells.
//
// A place holds one key, and keys that share one displace each other. A key is only taken in when it is the second to ask at its place
// in a row: reads that go once over many keys copy nothing. The rejected design was to let readers use metaCache: it belongs to
// the apply goroutine, and a lock around it would be taken by every read and every put.
type hotRows struct {
	places []hotPlace // a power of two, or none
	seed   maphash.Seed
}

type hotPlace struct {
	changed atomic.Uint64 // counts changes of keys at this place; raised by the apply goroutine
	asked   atomic.Uint64 // hash of the key last looked up in the store
	row     atomic.Pointer[hotRow]
}

// hotRow is immutable.
type hotRow struct {
	changed uint64 // of its place, before the store was read
	key     string
	meta
	value []byte
}

const (
	hotBytes     = 1 << 10 // of a key with its value, at most
	hotPlaceSize = 24 + 128 + hotBytes
	mostHot      = 4096
	// Of CacheBytes, one part of so many is for readers. An eighth was too much: 100,000 keys of 64 bytes, which etcd's load tool puts in
	// turn, fitted the rest no more, and each put read its predecessor from the store.
	hotShare = 64
)

// newHotRows returns a cache that takes at most some bytes.
func newHotRows(most int) *hotRows {
	n := min(most/hotPlaceSize, mostHot)
	if n < 1 {
		return new(hotRows)
	}
	return &hotRows{places: make([]hotPlace, 1<<(bits.Len(uint(n))-1)), seed: maphash.MakeSeed()}
}

// bytes is what it takes when full.
func (h *hotRows) bytes() int { return len(h.places) * hotPlaceSize }

// hotLook is a lookup that may end in keep.
type hotLook struct {
	place   *hotPlace
	changed uint64
	hash    uint64
}

// look returns the row of key, nil if it is not here; then the caller reads the store and may keep what it finds. Any goroutine.
func (h *hotRows) look(key []byte) (*hotRow, hotLook) {
	if len(h.places) == 0 {
		return nil, hotLook{}
	}
	l := hotLook{hash: maphash.Bytes(h.seed, key)}
	l.place = &h.places[l.hash&uint64(len(h.places)-1)]
	l.changed = l.place.changed.Load()
	if row := l.place.row.Load(); row != nil && row.changed == l.changed && row.key == string(key) {
		return row, l
	}
	return nil, l
}

// keep takes in what the store had of key after look had missed it. Any goroutine; value stays as it is.
func (l *hotLook) keep(key []byte, m *meta, value []byte) {
	if l.place == nil || len(key)+len(value) > hotBytes {
		return
	}
	if l.place.asked.Load() != l.hash {
		l.place.asked.Store(l.hash)
		return
	}
	l.place.row.Store(&hotRow{changed: l.changed, key: string(key), meta: *m, value: value})
}

// forgetAll is forget for all keys, after an entry that changed more of them than there are places. Apply goroutine only.
func (h *hotRows) forgetAll() {
	for i := range h.places {
		h.places[i].changed.Add(1)
	}
}

// forget makes what is kept of key invalid, and what is being read of it. Apply goroutine only.
func (h *hotRows) forget(key []byte) {
	if len(h.places) > 0 {
		h.places[maphash.Bytes(h.seed, key)&uint64(len(h.places)-1)].changed.Add(1)
	}
}

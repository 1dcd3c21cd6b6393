package machine

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// hotRows keeps the current versions of frequently read keys with their values. Such a read looks into none of the store's memtables and
// tables. Behind one flushed table that look was a twelfth of the cost of reading a small row. For a value of 10 KB, which is looked up
// twice and copied, it was more than a third.
//
// It is exact. A row is valid while the count of its place is the same as before the row was read from the store. Publish raises the count
// of every key the entry changed: after the store has the change, before any reader hears of its revision. So a row that is valid after a
// reader learned of revision R is the key's row at R. Or it is a later one by its own revision.
//
// A place holds one key, and keys that share one displace each other. A key is only kept when it is the second at its place to be asked for
// in a row. So a single pass over many keys keeps nothing. Answers pass a row's value to the transport without a copy. No goroutine may
// write to it, and a dropped row stays until its last answer is sent. The rejected design was to let readers use metaCache. That belongs to
// the apply goroutine, and every read and every put would take a lock around it.
type hotRows struct {
	places int // a power of two, or none
	pieces []atomic.Pointer[hotPiece]
	seed   maphash.Seed
	most   atomic.Int64  // bytes that rows may have
	held   atomic.Int64  // bytes that rows have
	hand   atomic.Uint64 // the place where who needs room looks next
}

// hotPiece is a part of the places. It is made when a reader first looks there, so an unread piece takes no memory and no writes. forget
// skips a missing piece: a reader that makes it reads the store afterwards, with the entry's changes.
type hotPiece [hotPieceLen]hotPlace

type hotPlace struct {
	changed atomic.Uint64 // counts changes of keys at this place; raised by the apply goroutine
	asked   atomic.Uint64 // hash of the key last looked up in the store
	row     atomic.Pointer[hotRow]
	used    atomic.Bool // row was asked for since the hand went by
}

// hotRow is immutable.
type hotRow struct {
	changed uint64 // of its place, before the store was read
	key     string
	meta
	value []byte
}

const (
	hotPlaceSize = 32
	hotPieceLen  = 256
	hotRowSize   = 128 // beside key and value
	// hotPlaceEvery is how many bytes there are for each place, hotPlaces the most of them. Values are larger or smaller than that: rarely
	// read keys should share a place.
	hotPlaceEvery = 2 << 10
	hotPlaces     = 16 << 10
	// hotLargest is the part of all that one row may have.
	hotLargest = 8
)

// newHotRows returns a cache that takes at most some bytes.
func newHotRows(most int) *hotRows {
	n := min(most/hotPlaceEvery, hotPlaces)
	if n < 1 {
		return new(hotRows)
	}
	n = 1 << (bits.Len(uint(n)) - 1)
	h := &hotRows{places: n, pieces: make([]atomic.Pointer[hotPiece], max(n/hotPieceLen, 1)), seed: maphash.MakeSeed()}
	h.bound(int64(most))
	return h
}

// bound sets how many bytes it takes, places included, and drops rows that are beyond. Any goroutine.
func (h *hotRows) bound(bytes int64) {
	h.most.Store(max(bytes-int64(h.places*hotPlaceSize), 0))
	h.fit()
}

// largest is how many bytes one row may have.
func (h *hotRows) largest() int { return int(h.most.Load()) / hotLargest }

// find returns the place of a hash, nil if its piece was not made yet.
func (h *hotRows) find(hash uint64) *hotPlace {
	i := hash & uint64(h.places-1)
	if piece := h.pieces[i/hotPieceLen].Load(); piece != nil {
		return &piece[i%hotPieceLen]
	}
	return nil
}

// place is find for who needs the place.
func (h *hotRows) place(hash uint64) *hotPlace {
	p := h.find(hash)
	for p == nil {
		h.pieces[hash&uint64(h.places-1)/hotPieceLen].CompareAndSwap(nil, new(hotPiece))
		p = h.find(hash)
	}
	return p
}

// bytes is what r takes.
func (r *hotRow) bytes() int64 { return hotRowSize + int64(len(r.key)+cap(r.value)) }

// hotLook is a lookup that may end in keep.
type hotLook struct {
	rows    *hotRows
	place   *hotPlace
	changed uint64
	hash    uint64
}

// look returns the row of key, nil if it is not here; then the caller reads the store and may keep what it finds. Any goroutine.
func (h *hotRows) look(key []byte) (*hotRow, hotLook) {
	if h.places == 0 {
		return nil, hotLook{}
	}
	l := hotLook{rows: h, hash: maphash.Bytes(h.seed, key)}
	l.place = h.place(l.hash)
	l.changed = l.place.changed.Load()
	if row := l.place.row.Load(); row != nil && row.changed == l.changed && row.key == string(key) {
		if !l.place.used.Load() {
			l.place.used.Store(true)
		}
		return row, l
	}
	return nil, l
}

// keep records the store's row of key after look had missed it. Any goroutine; value stays as it is.
func (l *hotLook) keep(key []byte, m *meta, value []byte) {
	if l.place == nil || hotRowSize+len(key)+cap(value) > l.rows.largest() {
		return
	}
	if l.place.asked.Load() != l.hash {
		l.place.asked.Store(l.hash)
		return
	}
	row := &hotRow{changed: l.changed, key: string(key), meta: *m, value: value}
	l.rows.add(l.place.row.Swap(row), row)
}

// add counts row in and its predecessor in that place out, and makes room.
func (h *hotRows) add(old, row *hotRow) {
	more := row.bytes()
	if old != nil {
		more -= old.bytes()
	}
	h.held.Add(more)
	h.fit()
}

// fit makes room where rows have more than they may.
func (h *hotRows) fit() {
	// Twice around: the first time may find every row used. Others that make room meanwhile may have found it first.
	for range 2 * h.places {
		if h.held.Load() <= h.most.Load() {
			return
		}
		h.pass()
	}
}

// pass moves the hand over a place, and drops its row if it is invalid or was not asked for since the last time.
func (h *hotRows) pass() {
	p := h.find(h.hand.Add(1))
	if p == nil {
		return
	}
	row := p.row.Load()
	if row == nil || row.changed == p.changed.Load() && p.used.Swap(false) {
		return
	}
	if p.row.CompareAndSwap(row, nil) {
		h.held.Add(-row.bytes())
	}
}

// forgetAll is forget for all keys, after an entry that changed more of them than there are places. Apply goroutine only.
func (h *hotRows) forgetAll() {
	for i := range h.places {
		if p := h.find(uint64(i)); p != nil {
			p.changed.Add(1)
		}
	}
}

// forget makes the kept row of key invalid, and any row of it that is being read. Apply goroutine only.
func (h *hotRows) forget(key []byte) {
	if h.places == 0 {
		return
	}
	if p := h.find(maphash.Bytes(h.seed, key)); p != nil {
		p.changed.Add(1)
	}
}

package machine

import (
	"bytes"
	"sort"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// sweep is a delete of very many keys (DeleteRange.ByRange), which have no slots. The current rows are deleted by one range. The rows kept
// of each key are written while the store is read, in one pass and in the order of the rows. A slot, a write and one more deleted row for
// each key, as in other deletes, took twice as long. The writes of all clients wait for it. Later reads of the entry must find the keys
// deleted: slots, scans and counts of the entry look here.
type sweep struct {
	key, end []byte // [key, end) as requests mean it
	rev      int64
	at       int // how many writes the entry had
	// eachBytes is about what the rows of a key take in a batch.
	eachBytes int
	n         int
	keyBytes  int
	pieces    []sweepPiece
}

// sweepPiece has sweepRows keys, the last one fewer.
type sweepPiece struct {
	changes []byte   // their rows by revision, one behind the other
	ends    []uint32 // of each in changes
	lengths []uint32 // of the key, which each ends with
}

const sweepRows = 4096

func (s *sweep) add(change []byte, key int) {
	if s.n%sweepRows == 0 {
		rows := min(sweepRows, 2*s.n+64)
		s.pieces = append(s.pieces, sweepPiece{ends: make([]uint32, 0, rows), lengths: make([]uint32, 0, rows)})
	}
	p := &s.pieces[len(s.pieces)-1]
	p.changes = append(p.changes, change...)
	p.ends, p.lengths = append(p.ends, uint32(len(p.changes))), append(p.lengths, uint32(key))
	s.n++
	s.keyBytes += key
}

// change is the row by revision of the i-th key.
func (s *sweep) change(i int) []byte {
	p, i := &s.pieces[i/sweepRows], i%sweepRows
	from := uint32(0)
	if i > 0 {
		from = p.ends[i-1]
	}
	return p.changes[from:p.ends[i]]
}

// of is the i-th key.
func (s *sweep) of(i int) []byte {
	p, i := &s.pieces[i/sweepRows], i%sweepRows
	return p.changes[p.ends[i]-p.lengths[i] : p.ends[i]]
}

// search returns how many keys are below one.
func search[K string | []byte](s *sweep, key K) int {
	return sort.Search(s.n, func(i int) bool { return string(s.of(i)) >= string(key) })
}

// within is how many of the keys lie in [key, end), which is not empty.
func (s *sweep) within(key, end []byte) int {
	to := s.n
	if !unbounded(end) {
		to = search(s, end)
	}
	return to - search(s, key)
}

// appendEvents appends the events of all keys, in memory of their own.
func (s *sweep) appendEvents(evs []Event) []Event {
	keys := make([]byte, 0, s.keyBytes)
	for i := range s.n {
		from := len(keys)
		keys = append(keys, s.of(i)...)
		evs = append(evs, Event{Type: EventDelete, KV: kvpart.KeyValue{Key: keys[from:len(keys):len(keys)], ModRevision: s.rev}})
	}
	return evs
}

// sweepOf returns the sweep of this entry that took key from the store's rows, as of revision rev (0 = any); nil if none did.
func (e *entryWrites) sweepOf(key []byte, rev int64) *sweep {
	for _, s := range e.sweeps {
		if (rev == 0 || s.rev <= rev) && within(key, s.key, s.end) {
			return s
		}
	}
	return nil
}

// swept reports whether there is one.
func (e *entryWrites) swept(key []byte, rev int64) bool { return e.sweepOf(key, rev) != nil }

// leave takes back the writes from index n on of a delete of many keys, leaves the delete to Do, and reports whether it may. It may not if
// the entry itself has put one of the keys before: events of one revision are in the order of their keys.
func (m *Machine) leave(p *plan, d *kvpart.DeleteRange, n int) bool {
	for i := range m.entry.writes[:n] {
		s := m.entry.writes[i].slot
		if w, _ := m.entry.before(s, n, 0); w != nil && w.new.exists() && within(s.key, d.Key, d.End) {
			return false
		}
	}
	const eighth = 8 // of them, more than those seen so far
	each := m.rowBytes() / len(m.entry.writes)
	p.rest = &sweep{key: bytes.Clone(d.Key), end: bytes.Clone(d.End), rev: m.now.rev + 1, eachBytes: each + each/eighth}
	m.entry.undo(n)
	return true
}

// sweep deletes the keys, and returns how many there were. The rows are written in the order of the store's keys (the range, history,
// changes). So there is nothing to sort when the batch is committed.
func (m *Machine) sweep(s *sweep, b store.Batch) (n int, err error) {
	s.at = len(m.entry.writes)
	sc, err := m.entryScanAhead(s.key, s.end, s.at)
	if err != nil {
		return 0, err
	}
	defer sc.close()
	var leased []attachment
	for {
		ok, err := sc.next()
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		v := &sc.v
		if s.n == 0 {
			m.beginSweep(s, b)
		}
		gone := meta{mod: s.rev, sub: uint32(s.n)}
		m.writeVersion(b, v.key, &gone, nil)
		if v.later() {
			value, err := sc.value()
			if err != nil {
				return 0, err
			}
			m.writeVersion(b, v.key, &v.meta, value)
		}
		if v.lease != 0 {
			leased = append(leased, attachment{v.lease, s.n})
		}
		m.count(&write{slot: &slot{key: v.key}, old: v.meta, new: gone})
		m.row = appendChange(m.row[:0], true, &v.meta, v.key)
		s.add(m.row, len(v.key))
	}
	for i := range s.n {
		m.key = appendByRevKey(m.key[:0], s.rev, uint32(i))
		b.Set(m.key, s.change(i))
	}
	for _, a := range leased {
		m.key = appendAttachKey(m.key[:0], a.lease, s.of(a.key))
		b.Delete(m.key)
	}
	if s.n > 0 {
		m.entry.sweeps = append(m.entry.sweeps, s)
	}
	return s.n, nil
}

// attachment is that of a sweep's key, by its number.
type attachment struct {
	lease int64
	key   int
}

// beginSweep writes what goes before the keys, and makes room: the number of keys is known about.
func (m *Machine) beginSweep(s *sweep, b store.Batch) {
	m.gate.RLock()
	keys := m.blocks.about(s.key, s.end)
	m.gate.RUnlock()
	b.Grow(m.rowBytes() + int(keys)*s.eachBytes)
	lower, upper, _ := currentBounds(s.key, s.end)
	b.DeleteRange(lower, upper)
}

package machine

import (
	"bytes"
	"slices"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// write is one put or delete of the entry being applied.
type write struct {
	slot     *slot
	old, new meta   // new.exists is false for a delete
	value    []byte // of a put; aliases the entry's data or entryWrites.held
	prev     int32  // 1 + index of the previous write of the same key; 0 = old is the store's
}

// entryWrites are the writes of one raft entry in order, laid over the store until the entry is published. A "bound" of n means
// the state before the n-th write. Apply goroutine only.
type entryWrites struct {
	writes []write
	order  []int32 // indexes of writes by key, then index; built when a range needs it
	sorted int     // how many writes order covers
	leased []int32 // indexes of puts with a lease
	runs   runs    // slots of deletes of many keys
	sweeps []*sweep
	held   arena // values that are not in the entry's data (ignore_value)
	data   int   // bytes of the entry's data, if it may be kept (machine.Keeper); otherwise 0
}

// maxIdleWrites is the capacity kept from one entry to the next: one huge delete must not hold its memory for ever.
const maxIdleWrites = 1 << 14

func (e *entryWrites) reset() {
	for i := range e.writes {
		e.writes[i].slot.last = 0
	}
	if cap(e.writes) > maxIdleWrites {
		e.writes, e.order = nil, nil
	}
	clear(e.writes)
	e.writes, e.order, e.leased, e.sorted = e.writes[:0], e.order[:0], e.leased[:0], 0
	e.held, e.runs, e.sweeps, e.data = arena{}, nil, nil, 0
}

// add records a write and makes it the newest of its key.
func (e *entryWrites) add(s *slot, m meta, value []byte) {
	if len(e.writes) == cap(e.writes) {
		e.writes = slices.Grow(e.writes, max(len(e.writes), 64)) // by a quarter, as append does it, a huge delete copies them five times
	}
	e.writes = append(e.writes, write{slot: s, old: s.meta, new: m, value: value, prev: s.last})
	if m.lease != 0 {
		e.leased = append(e.leased, int32(len(e.writes)-1))
	}
	s.meta = m
	s.last = int32(len(e.writes))
}

// undo takes back all writes from index n on.
func (e *entryWrites) undo(n int) {
	for i := len(e.writes) - 1; i >= n; i-- {
		w := &e.writes[i]
		w.slot.meta, w.slot.last = w.old, w.prev
	}
	clear(e.writes[n:])
	e.writes = e.writes[:n]
	for len(e.leased) > 0 && int(e.leased[len(e.leased)-1]) >= n {
		e.leased = e.leased[:len(e.leased)-1]
	}
	if e.sorted > n {
		e.order = slices.DeleteFunc(e.order, func(i int32) bool { return int(i) >= n })
		e.sorted = n
	}
}

// before returns the newest write of s before bound and at or below revision rev (0 = any), or nil, and the store's meta.
func (e *entryWrites) before(s *slot, bound int, rev int64) (w *write, base meta) {
	base = s.meta
	for i := s.last; i != 0; {
		c := &e.writes[i-1]
		if int(i) <= bound && (rev == 0 || c.new.mod <= rev) {
			return c, meta{}
		}
		base, i = c.old, c.prev
	}
	return nil, base
}

// byKey returns the indexes of the writes whose key lies in [key, end), ordered by key and index. The slice is valid until
// the next write.
func (e *entryWrites) byKey(key, end []byte) []int32 {
	less := func(a, b int32) int {
		if c := bytes.Compare(e.writes[a].slot.key, e.writes[b].slot.key); c != 0 {
			return c
		}
		return int(a - b)
	}
	if fresh := len(e.writes) - e.sorted; fresh > 64 {
		for i := e.sorted; i < len(e.writes); i++ {
			e.order = append(e.order, int32(i))
		}
		slices.SortFunc(e.order, less)
	} else {
		for i := e.sorted; i < len(e.writes); i++ {
			at, _ := slices.BinarySearchFunc(e.order, int32(i), less)
			e.order = slices.Insert(e.order, at, int32(i))
		}
	}
	e.sorted = len(e.writes)
	from := e.search(key)
	to := len(e.order)
	if !unbounded(end) {
		to = max(from, e.search(end))
	}
	return e.order[from:to]
}

func (e *entryWrites) search(key []byte) int {
	at, _ := slices.BinarySearchFunc(e.order, key, func(i int32, key []byte) int {
		if bytes.Compare(e.writes[i].slot.key, key) < 0 {
			return -1
		}
		return 1
	})
	return at
}

// valueBytes is the size of the values of all writes.
func (e *entryWrites) valueBytes() (n int) {
	for i := range e.writes {
		n += len(e.writes[i].value)
	}
	return n
}

// eventBytes is the memory of the events of all writes.
func (e *entryWrites) eventBytes() int {
	size := len(e.writes) * eventOverhead
	for i := range e.writes {
		size += len(e.writes[i].slot.key) + len(e.writes[i].value)
	}
	for _, s := range e.sweeps {
		size += s.n*eventOverhead + s.keyBytes
	}
	return size
}

// appendEvents appends the events of all writes. Watches keep them long after the entry has ended, so they have memory of their own. They
// alias the entry's data only if that is mostly values: the memory held is then at most twice the memory counted.
func (e *entryWrites) appendEvents(evs []Event) []Event {
	values := e.valueBytes()
	keep := e.data > 0 && len(e.held.buf) == 0 && 2*values >= e.data
	room := 0
	for i := range e.writes {
		room += len(e.writes[i].slot.key) + len(e.writes[i].value)
	}
	if keep {
		room -= values
	}
	data := wire.Room(room)
	take := func(n int) []byte { return data[len(data)-n : len(data) : len(data)] }
	sweeps := e.sweeps
	for i := range e.writes {
		for ; len(sweeps) > 0 && sweeps[0].at == i; sweeps = sweeps[1:] {
			evs = sweeps[0].appendEvents(evs)
		}
		w := &e.writes[i]
		data = append(data, w.slot.key...)
		ev := Event{Type: EventDelete, KV: kvpart.KeyValue{Key: take(len(w.slot.key)), ModRevision: w.new.mod}}
		if w.new.exists() {
			value := w.value[:len(w.value):len(w.value)]
			if !keep {
				data = append(data, w.value...)
				value = take(len(w.value))
			}
			ev = Event{Type: EventPut, KV: w.new.keyValue(ev.KV.Key, value)}
		}
		evs = append(evs, ev)
	}
	for _, s := range sweeps {
		evs = s.appendEvents(evs)
	}
	return evs
}

func (m *meta) keyValue(key, value []byte) kvpart.KeyValue {
	return kvpart.KeyValue{Key: key, Value: value, CreateRevision: m.create, ModRevision: m.mod, Version: m.version, Lease: m.lease}
}

// arena hands out copies of byte strings from few large pieces.
type arena struct{ buf []byte }

func (a *arena) copy(b []byte) []byte {
	if cap(a.buf)-len(a.buf) < len(b) {
		a.buf = wire.Room(max(min(2*cap(a.buf), 64<<10), len(b), 512))
	}
	a.buf = append(a.buf, b...)
	return a.buf[len(a.buf)-len(b) : len(a.buf) : len(a.buf)]
}

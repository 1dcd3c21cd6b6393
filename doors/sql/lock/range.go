package lock

import (
	"encoding/binary"
	"slices"
)

// A range is a resource of its own, which stands to the keys in it as a table stands to its rows: a reader locks it Shared, and whoever locks a key in
// it announces that by an intent. So the rules of waiting and of circles are those of every other resource. A range that is made takes in the keys that are locked
// already; who locks a key later looks for ranges over it.

// span are the keys of a range.
type span struct {
	table    string // key of the lock on the table
	from, to string // the first key, and the first behind the last
}

func (s *span) has(key string) bool { return s.from <= key && key < s.to }

// rangeKey is the key of a range's lock.
func rangeKey(from, to []byte) []byte {
	key := binary.BigEndian.AppendUint32([]byte("range"), uint32(len(from)))
	return append(append(key, from...), to...)
}

// LockRange asks for a lock, Shared or Exclusive, on all keys from from to before to, whether or not there are such rows. table is the key of the
// lock on their table: all owners of locks on its keys hold an intent there. Otherwise it is Lock.
func (o *Owner) LockRange(table, from, to []byte, mode Mode, wait bool) (*Request, error) {
	t := o.t
	t.mu.Lock()
	defer t.mu.Unlock()
	key := rangeKey(from, to)
	on := t.locks[string(key)]
	if on == nil && !t.ended {
		s := &span{table: string(table), from: string(from), to: string(to)}
		holds, room := t.inside(s)
		room += int64(len(key)) + keyBytes
		if t.room < room+holdBytes {
			return nil, ErrFull
		}
		t.room -= room
		on = t.watch(key, s, holds)
	}
	r, err := o.lock(on, key, mode, wait)
	if err != nil && on != nil && t.locks[on.key] == on {
		t.serve(on) // else a range that nobody holds would stay
	}
	return r, err
}

// watch makes a range, with the intents of those who have locked keys in it. Guarded by mu.
func (t *Table) watch(key []byte, s *span, holds []hold) *resource {
	on := &resource{key: string(key), span: s, holds: holds}
	for _, h := range holds {
		h.owner.held = append(h.owner.held, on)
	}
	t.locks[on.key] = on
	t.ranges[s.table] = append(t.ranges[s.table], on)
	t.watched.Add(1)
	return on
}

// TakeRange is Take for a range.
func (o *Owner) TakeRange(table, from, to []byte, mode Mode) error {
	t := o.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrEnded
	}
	key := rangeKey(from, to)
	on := t.locks[string(key)]
	if on == nil {
		s := &span{table: string(table), from: string(from), to: string(to)}
		holds, room := t.inside(s)
		t.room -= room + int64(len(key)) + keyBytes
		on = t.watch(key, s, holds)
	}
	return o.take(on, mode)
}

// Ranges calls f for each range that the owner has locked. exclusive: nobody else may lock keys in it.
func (o *Owner) Ranges(f func(from, to []byte, exclusive bool)) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	for _, on := range o.held {
		if on.span == nil {
			continue
		}
		modes := on.of(o).modes
		if exclusive := modes&(1<<Exclusive) != 0; exclusive || modes&(1<<Shared) != 0 { // else it has a key in somebody's range
			f([]byte(on.span.from), []byte(on.span.to), exclusive)
		}
	}
}

// inside are the intents of the owners of keys in a range, and the room that they take.
func (t *Table) inside(s *span) (holds []hold, room int64) {
	table := t.locks[s.table]
	if table == nil {
		return nil, 0
	}
	for _, h := range table.holds {
		var all set
		for _, on := range h.owner.held {
			if on.span != nil || !s.has(on.key) {
				continue
			}
			for _, m := range []Mode{Shared, Exclusive} {
				if on.of(h.owner).modes&(1<<m) != 0 && h.owner.over != (announced{on.key, m}) { // else it will find this range, too
					all |= 1 << intents[m]
				}
			}
		}
		if all != 0 {
			holds = append(holds, hold{h.owner, all})
			room += holdBytes
		}
	}
	return holds, room
}

// Watched reports whether there is any range. A range that is made from now on takes in the keys that are locked.
func (t *Table) Watched() bool { return t.watched.Load() > 0 }

// LockOver asks for the intents on the ranges over a key that the owner has locked in a mode: the lock is the owner's once it has them all. A nil
// Request without an error: it has. A Request: it waits for one of them, and asks again behind it. Errors: as Lock.
func (o *Owner) LockOver(table, key []byte, mode Mode, wait bool) (*Request, error) {
	t := o.t
	if !t.Watched() {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o.over = announced{}
	for _, on := range slices.Clone(t.ranges[string(table)]) { // a victim of the loop may be the last one on a range
		if on.span.has(string(key)) && t.locks[on.key] == on {
			r, err := o.lock(on, nil, intents[mode], wait)
			if r != nil {
				o.over = announced{string(key), mode}
			}
			if r != nil || err != nil {
				return r, err
			}
		}
	}
	return nil, nil
}

// forget takes a range out that nobody holds any more.
func (t *Table) forget(on *resource) {
	if on.span == nil {
		return
	}
	all := t.ranges[on.span.table]
	at := slices.Index(all, on)
	if all = slices.Delete(all, at, at+1); len(all) == 0 {
		delete(t.ranges, on.span.table)
	} else {
		t.ranges[on.span.table] = all
	}
	t.watched.Add(-1)
}

package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// EventType has etcd's numbering.
type EventType uint8

const (
	EventPut    EventType = 0
	EventDelete EventType = 1
)

// Event is one change of one key. For a delete KV holds Key and ModRevision only (as in etcd).
type Event struct {
	Type EventType
	KV   kvpart.KeyValue
}

// historyRows bounds how many changes one call of History walks, matching or not.
const historyRows = 1 << 16

// History returns the events of revisions [from, to] whose key is in [key, end): whole revisions, in order, at most about maxBytes. next is
// the revision to continue at (to+1 when done). ErrCompacted if from is compacted. It also stops early, perhaps without events, when it has
// walked many changes of other keys. The events of a single key alias key.
func (m *Machine) History(key, end []byte, from, to int64, maxBytes int) (evs []Event, next int64, err error) {
	p := m.pin()
	defer p.view.Close()
	if last := min(to, p.rev); len(end) == 0 && from >= p.compacted && last-from >= ownRowsFrom {
		return p.keyHistory(key, from, last, maxBytes)
	}
	return p.walk(from, to, maxBytes, historyRows, func(k []byte) bool { return within(k, key, end) })
}

// HistoryOf is History of the keys that wanted picks; it stops when it has walked maxChanges changes or more, whole revisions. wanted is
// called for each change in order, perhaps for a few beyond the returned ones. The key is valid during the call. wanted must not call the
// machine.
func (m *Machine) HistoryOf(from, to int64, maxBytes, maxChanges int, wanted func(key []byte) bool) (evs []Event, next int64, err error) {
	p := m.pin()
	defer p.view.Close()
	return p.walk(from, to, maxBytes, maxChanges, wanted)
}

// walk goes through what happened by revision.
func (p *pinned) walk(from, to int64, maxBytes, maxChanges int, wanted func(key []byte) bool) (evs []Event, next int64, err error) {
	if from < p.compacted {
		return nil, from, ErrCompacted
	}
	from = max(from, 0)
	last := min(to, p.rev) // revisions that are not there yet cannot be passed over
	if from > last {
		return nil, max(from, last+1), nil
	}
	it, err := p.view.NewIter(appendByRevKey(nil, from, 0), appendByRevKey(nil, last+1, 0))
	if err != nil {
		return nil, from, fmt.Errorf("read history: %w", err)
	}
	defer it.Close()
	b := bunch{versions: versions{r: p.view}}
	used, rows := 0, 0
	for ok, at := it.First(), int64(0); ok; {
		done := len(evs)
		b.subs = b.subs[:0]
		size := b.size(done, used, maxBytes)
		for ; ok; ok = it.Next() {
			rev, sub, err := splitByRevKey(it.Key())
			if err != nil {
				return nil, from, err
			}
			if rev != at && (len(b.subs) >= size || rows >= maxChanges) {
				break
			}
			at = rev
			rows++
			row, err := it.Value()
			if err != nil {
				return nil, from, fmt.Errorf("read history: %w", err)
			}
			c, err := decodeChange(row)
			if err != nil {
				return nil, from, err
			}
			if !wanted(c.key) {
				continue
			}
			ev := Event{Type: EventPut, KV: kvpart.KeyValue{Key: b.mem.copy(c.key), ModRevision: rev}}
			if c.deleted {
				ev.Type = EventDelete
			}
			evs, b.subs = append(evs, ev), append(b.subs, sub)
		}
		if err := b.find(evs[done:]); err != nil {
			return nil, from, err
		}
		for i := done; i < len(evs); i++ {
			kv := &evs[i].KV
			if used >= maxBytes && i > 0 && kv.ModRevision != evs[i-1].KV.ModRevision {
				return evs[:i:i], evs[i-1].KV.ModRevision + 1, nil
			}
			if evs[i].Type == EventPut && kv.Version == 0 {
				if *kv, err = b.put(kv.Key, kv.ModRevision, b.subs[i-done]); err != nil {
					return nil, from, err
				}
			}
			used += len(kv.Key) + len(kv.Value)
		}
		if ok && (used >= maxBytes && len(evs) > 0 || rows >= maxChanges) {
			next, _, err := splitByRevKey(it.Key())
			return evs, next, err
		}
	}
	if err := it.Error(); err != nil {
		return nil, from, fmt.Errorf("read history: %w", err)
	}
	return evs, last + 1, nil
}

// versions reads what puts wrote, one after the other, in memory of its own.
type versions struct {
	r        store.Reader
	mem      arena
	key, row []byte // scratch
	replaced bool   // the previous version was not its key's newest any more
}

// put reads the version that the put at rev.sub made. The version is in the current row if it is the newest, else in history, where a
// longer one is at once. The place where the last version was found is tried first. Neighbouring changes are mostly alike: of keys written
// once, or of keys written all the time.
func (v *versions) put(key []byte, rev int64, sub uint32) (kvpart.KeyValue, error) {
	mt, value, ok, err := v.look(v.replaced, key, rev, sub)
	if err == nil && !ok {
		v.replaced = !v.replaced
		mt, value, ok, err = v.look(v.replaced, key, rev, sub)
	}
	if err != nil {
		return kvpart.KeyValue{}, err
	}
	if !ok {
		return kvpart.KeyValue{}, missing(key, rev, sub)
	}
	return mt.keyValue(key, v.mem.copy(value)), nil
}

// look looks in history or in the current row. value is valid until the next call.
func (v *versions) look(inHistory bool, key []byte, rev int64, sub uint32) (mt meta, value []byte, ok bool, err error) {
	v.locate(inHistory, key, rev, sub)
	if v.row, ok, err = v.r.Get(v.row[:0], v.key); err != nil {
		return meta{}, nil, false, fmt.Errorf("read history: %w", err)
	}
	if !ok {
		return meta{}, nil, false, nil
	}
	return v.decode(inHistory, v.row, rev, sub)
}

// locate makes the store's key of a version.
func (v *versions) locate(inHistory bool, key []byte, rev int64, sub uint32) {
	if inHistory {
		v.key = appendHistoryKey(v.key[:0], key, rev, sub)
	} else {
		v.key = appendCurrentKey(v.key[:0], key)
	}
}

// decode reads a row; a current one may be of another version, or without the value. value aliases row.
func (v *versions) decode(inHistory bool, row []byte, rev int64, sub uint32) (mt meta, value []byte, ok bool, err error) {
	if inHistory {
		mt, value, err = decodeHistoryRow(row, rev, sub)
		return mt, value, err == nil, err
	}
	mt, value, inline, err := decodeCurrentRow(row)
	return mt, value, err == nil && inline && mt.mod == rev && mt.sub == sub, err
}

// Previous returns the version of key just before revision rev, nil if there was none. ErrCompacted if it is gone.
func (m *Machine) Previous(key []byte, rev int64) (*kvpart.KeyValue, error) {
	p := m.pin()
	defer p.view.Close()
	if rev-1 < p.compacted {
		return nil, ErrCompacted
	}
	sc, err := newPastScan(p.view, key, nil, rev-1)
	if err != nil {
		return nil, err
	}
	defer sc.close()
	ok, err := sc.next()
	if err != nil || !ok {
		return nil, err
	}
	v, err := sc.version()
	if err != nil {
		return nil, err
	}
	value, err := sc.value()
	if err != nil {
		return nil, err
	}
	var mem arena
	kv := v.meta.keyValue(mem.copy(v.key), mem.copy(value))
	return &kv, nil
}

package kv

import (
	"fmt"

	ekv "github.com/holdfastdb/holdfast/entry/kv"
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
	KV   ekv.KeyValue
}

// historyRows bounds how many changes one call of History walks, matching or not.
const historyRows = 1 << 16

// History returns the events of revisions [from, to] whose key is in [key, end), whole revisions, in order, at most
// about maxBytes; next is the revision to continue at (to+1 when done). ErrCompacted if from is compacted. It also stops
// early, perhaps without events, when it has walked many changes of other keys.
func (m *Machine) History(key, end []byte, from, to int64, maxBytes int) (evs []Event, next int64, err error) {
	p := m.pin()
	defer p.view.Close()
	if from < p.compacted {
		return nil, from, ErrCompacted
	}
	from = max(from, 0)
	last := min(to, p.rev) // what is not there yet cannot be passed over
	if from > last {
		return nil, max(from, last+1), nil
	}
	it, err := p.view.NewIter(appendByRevKey(nil, from, 0), appendByRevKey(nil, last+1, 0))
	if err != nil {
		return nil, from, fmt.Errorf("read history: %w", err)
	}
	defer it.Close()
	var mem arena
	var buf []byte
	used, rows := 0, 0
	for ok, at := it.First(), int64(0); ok; ok = it.Next() {
		rev, sub, err := splitByRevKey(it.Key())
		if err != nil {
			return nil, from, err
		}
		if rev != at && (used >= maxBytes && len(evs) > 0 || rows >= historyRows) {
			return evs, rev, nil
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
		if !within(c.key, key, end) {
			continue
		}
		ev := Event{Type: EventDelete, KV: ekv.KeyValue{Key: mem.copy(c.key), ModRevision: rev}}
		if !c.deleted {
			if buf, ev, err = p.putEvent(buf, &mem, ev.KV.Key, rev, sub); err != nil {
				return nil, from, err
			}
		}
		used += len(ev.KV.Key) + len(ev.KV.Value)
		evs = append(evs, ev)
	}
	if err := it.Error(); err != nil {
		return nil, from, fmt.Errorf("read history: %w", err)
	}
	return evs, last + 1, nil
}

// putEvent reads the version a put made: from the current row if it is the newest, else from history.
func (p *pinned) putEvent(buf []byte, mem *arena, key []byte, rev int64, sub uint32) ([]byte, Event, error) {
	buf, ok, err := p.view.Get(buf[:0], appendCurrentKey(nil, key))
	if err != nil {
		return buf, Event{}, fmt.Errorf("read history: %w", err)
	}
	if ok {
		mt, value, inline, err := decodeCurrentRow(buf)
		if err != nil {
			return buf, Event{}, err
		}
		if inline && mt.mod == rev && mt.sub == sub {
			return buf, Event{Type: EventPut, KV: mt.keyValue(key, mem.copy(value))}, nil
		}
	}
	buf, ok, err = p.view.Get(buf[:0], appendHistoryKey(nil, key, rev, sub))
	if err != nil {
		return buf, Event{}, fmt.Errorf("read history: %w", err)
	}
	if !ok {
		return buf, Event{}, fmt.Errorf("version %d.%d of key %q is missing: %w", rev, sub, key, errCorrupt)
	}
	mt, value, err := decodeHistoryRow(buf, rev, sub)
	if err != nil {
		return buf, Event{}, err
	}
	return buf, Event{Type: EventPut, KV: mt.keyValue(key, mem.copy(value))}, nil
}

// Previous returns the version of key just before revision rev, nil if there was none. ErrCompacted if it is gone.
func (m *Machine) Previous(key []byte, rev int64) (*ekv.KeyValue, error) {
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

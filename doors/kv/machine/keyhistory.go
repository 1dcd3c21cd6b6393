package machine

import (
	"fmt"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// ownRowsFrom is the number of revisions from which History of a single key reads the key's own rows in history. Their cost does not depend
// on changes to other keys. Below it the walk is as cheap.
const ownRowsFrom = 32

// keyHistory is History of a single key, for revisions that exist, from the key's own rows. These are its versions in history, the newest
// first, and its current row, which alone holds a small value (laterBytes). Compaction leaves both whole from the compacted revision on.
func (p *pinned) keyHistory(key []byte, from, last int64, maxBytes int) (evs []Event, next int64, err error) {
	from = max(from, 1) // nothing is older, and an inverted revision cannot be less than 0
	it, err := p.view.NewIter(appendHistoryKey(nil, key, last, ^uint32(0)), appendHistoryKey(nil, key, from-1, ^uint32(0)))
	if err != nil {
		return nil, from, fmt.Errorf("read history: %w", err)
	}
	defer it.Close()
	var mem arena
	var buf []byte
	used, at := 0, int64(0)
	full := func(rev int64) bool { return rev != at && used >= maxBytes && len(evs) > 0 }
	for ok := it.Last(); ok; ok = it.Prev() { // the oldest first
		own, _, rev, sub, err := splitHistoryKey(buf[:0], it.Key())
		if buf = own; err != nil {
			return nil, from, err
		}
		if full(rev) {
			return evs, rev, nil
		}
		at = rev
		row, err := it.Value()
		if err != nil {
			return nil, from, fmt.Errorf("read history: %w", err)
		}
		mt, value, err := decodeHistoryRow(row, rev, sub)
		if err != nil {
			return nil, from, err
		}
		ev := Event{Type: EventDelete, KV: kvpart.KeyValue{Key: key, ModRevision: rev}}
		if mt.exists() {
			ev = Event{Type: EventPut, KV: mt.keyValue(key, mem.copy(value))}
		}
		used += len(key) + len(value)
		evs = append(evs, ev)
	}
	if err := it.Error(); err != nil {
		return nil, from, fmt.Errorf("read history: %w", err)
	}
	row, ok, err := p.view.Get(nil, appendCurrentKey(nil, key))
	if err != nil {
		return nil, from, fmt.Errorf("read history: %w", err)
	}
	if !ok {
		return evs, last + 1, nil
	}
	mt, value, _, err := decodeCurrentRow(row)
	switch {
	case err != nil:
		return nil, from, err
	case !mt.later() || mt.mod < from || mt.mod > last: // in history too, or not asked for
		return evs, last + 1, nil
	case full(mt.mod):
		return evs, mt.mod, nil
	}
	return append(evs, Event{Type: EventPut, KV: mt.keyValue(key, mem.copy(value))}), last + 1, nil
}

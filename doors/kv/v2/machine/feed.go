package machine

import (
	"fmt"
	"slices"
	"sort"

	"github.com/holdfastdb/holdfast/core/store"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// feed keeps the newest events in memory, bounded in bytes. Its blocks are append-only, so that readers share them without copying (as in
// doors/kv/machine). It is a cache: the last HistoryEvents events are in the store, however large they are. Guarded by Machine.gate.
type feed struct {
	limit, bytes int
	blocks       []*feedBlock // oldest first
	from         uint64       // it holds every event with an index from here on
}

type feedBlock struct {
	events []*Event
	first  uint64
	bytes  int
}

const feedBlockEvents = 256

func (f *feed) reset(limit int, index uint64) { *f = feed{limit: limit, from: index + 1} }

// append adds events in order; after them the tree is at index.
func (f *feed) append(evs []*Event, index uint64) {
	if len(f.blocks) == 0 {
		f.from = index + 1 - uint64(len(evs))
	}
	for _, e := range evs {
		var b *feedBlock
		if n := len(f.blocks); n > 0 {
			b = f.blocks[n-1]
		}
		// A block is also closed by its bytes, so that dropping the oldest never drops most of the feed.
		if b == nil || len(b.events) == cap(b.events) || b.bytes > f.limit/16 {
			b = &feedBlock{events: make([]*Event, 0, feedBlockEvents), first: e.Index()}
			f.blocks = append(f.blocks, b)
		}
		b.events = append(b.events, e)
		n := e.bytes()
		b.bytes += n
		f.bytes += n
	}
	for f.bytes > f.limit && len(f.blocks) > 1 {
		f.bytes -= f.blocks[0].bytes
		f.blocks[0] = nil
		f.blocks = f.blocks[1:]
		f.from = f.blocks[0].first
	}
}

// after returns the events with an index above after, all or those of one block; the caller knows that from <= after+1.
func (f *feed) after(after uint64) []*Event {
	i := sort.Search(len(f.blocks), func(i int) bool { return f.blocks[i].first > after+1 })
	for i = max(i-1, 0); i < len(f.blocks); i++ {
		b := f.blocks[i]
		if from := sort.Search(len(b.events), func(j int) bool { return b.events[j].Index() > after }); from < len(b.events) {
			return b.events[from:len(b.events):len(b.events)]
		}
	}
	return nil
}

// Recent returns events with an index above after, in order (shared memory: do not modify). It may return only part of them: ask again from
// the last one. ok is false if memory no longer reaches back that far; index is the present one. Without events, changed is closed at the
// next change. Safe for concurrent use.
func (m *Machine) Recent(after uint64) (evs []*Event, index uint64, ok bool, changed <-chan struct{}) {
	m.gate.Lock()
	defer m.gate.Unlock()
	index = m.pubIndex.Load()
	if after >= index {
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		return nil, index, true, m.changed
	}
	if after+1 < m.feed.from {
		return nil, index, false, nil
	}
	return m.feed.after(after), index, true, nil
}

// Scan returns the first event with an index from since on for which match is true, nil if there is none. It searches the history up to
// index, the present one. A *entry/etcd2.Refusal says that the history does not reach back that far; other errors are the store's. Safe for
// concurrent use.
func (m *Machine) Scan(since uint64, match func(*Event) bool) (found *Event, index uint64, err error) {
	m.gate.RLock()
	index = m.pubIndex.Load()
	blocks, from := slices.Clone(m.feed.blocks), m.feed.from
	var last []*Event // the last block may grow after the lock is released
	if n := len(blocks); n > 0 {
		last = blocks[n-1].events
	}
	var old store.Iter
	if start := historyStart(index); since < start {
		m.gate.RUnlock()
		cause := fmt.Sprintf("the requested history has been cleared [%d/%d]", start, since)
		return nil, index, &v2part.Refusal{Code: v2part.IndexCleared, Cause: cause, Index: index}
	}
	if since < from {
		old, err = m.st.NewIter(appendHistoryKey(nil, since), appendHistoryKey(nil, index+1))
	}
	m.gate.RUnlock()
	if err != nil {
		return nil, index, fmt.Errorf("read history: %w", err)
	}
	if old != nil {
		found, err = scanRows(old, since, from, match)
		if found != nil || err != nil {
			return found, index, err
		}
	}
	for i, b := range blocks {
		evs := last
		if i < len(blocks)-1 {
			evs = b.events
		}
		for _, e := range evs {
			if e.Index() >= since && match(e) {
				return e, index, nil
			}
		}
	}
	return nil, index, nil
}

// historyStart is the index of the oldest event a watch can ask for.
func historyStart(index uint64) uint64 {
	if index <= HistoryEvents {
		return 1
	}
	return index - HistoryEvents + 1
}

// scanRows looks through history rows for events in [since, until) and closes the iterator.
func scanRows(it store.Iter, since, until uint64, match func(*Event) bool) (*Event, error) {
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		row, err := it.Value()
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		evs, err := decodeEvents(slices.Clone(row))
		if err != nil {
			return nil, err
		}
		for _, e := range evs {
			if e.Index() >= until {
				return nil, nil
			}
			if e.Index() >= since && match(e) {
				return e, nil
			}
		}
	}
	return nil, it.Error()
}

// writeHistory writes the entry's events as one row and deletes the rows that no watch can ask for any more. One row for
// an entry instead of one for an event: a busy log packs many commands into an entry.
func (m *Machine) writeHistory(b store.Batch) {
	evs := m.events
	if len(evs) > HistoryEvents {
		evs = evs[len(evs)-HistoryEvents:]
	}
	m.key = appendHistoryKey(m.key[:0], m.index)
	m.row = m.row[:0]
	for _, e := range evs {
		m.row = appendEvent(m.row, e)
	}
	b.Set(m.key, m.row)
	m.blocks = append(m.blocks, m.index)
	gone := 0
	for m.blocks[gone] < historyStart(m.index) {
		m.key = appendHistoryKey(m.key[:0], m.blocks[gone])
		b.Delete(m.key)
		gone++
	}
	m.blocks = m.blocks[gone:]
}

// loadHistory reads which rows there are, and the newest events up to the bytes the feed may hold.
func loadHistory(st store.Reader, limit int) (evs []*Event, blocks []uint64, err error) {
	it, err := st.NewIter([]byte{letter, spaceHistory}, []byte{letter, spaceHistory + 1})
	if err != nil {
		return nil, nil, fmt.Errorf("load history: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		last, err := splitHistoryKey(it.Key())
		if err != nil {
			return nil, nil, err
		}
		blocks = append(blocks, last)
	}
	for ok := it.Last(); ok && limit > 0; ok = it.Prev() {
		row, err := it.Value()
		if err != nil {
			return nil, nil, fmt.Errorf("load history: %w", err)
		}
		block, err := decodeEvents(slices.Clone(row))
		if err != nil {
			return nil, nil, err
		}
		limit -= len(row) + eventOverhead*len(block)
		slices.Reverse(block)
		evs = append(evs, block...)
	}
	slices.Reverse(evs)
	return evs, blocks, it.Error()
}

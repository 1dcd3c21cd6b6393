package machine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// The readers of this machine (doors/kv, doors/kv/lease). Every exported method of this file and of history.go, feed.go and
// hash.go is safe for concurrent use with Apply and answers from one consistent revision. Errors other than the sentinels
// below come from the store (store.ErrReplaced, a failing disk): the read may be tried again.

// ErrCompacted and ErrFutureRevision answer reads at a revision that is compacted or not there yet. ErrTooLarge answers a read whose result
// would exceed the caller's byte budget.
var (
	ErrCompacted      = errors.New("revision has been compacted")
	ErrFutureRevision = errors.New("revision is in the future")
	ErrTooLarge       = errors.New("result is too large")
)

// TooLargeError is an ErrTooLarge that says how large the result is about. It may be wrong by any factor: values differ.
type TooLargeError struct {
	About int64 // bytes, counted as the caller's budget is
}

func (e *TooLargeError) Error() string { return ErrTooLarge.Error() }

// Is makes it an ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// tooLarge says how large the answer to r is about, after b was spent on a part of it.
func (m *Machine) tooLarge(r *kvpart.Range, b *answerBudget) error {
	if len(r.End) == 0 || b.versions == 0 {
		return ErrTooLarge
	}
	lower, upper, ok := currentBounds(r.Key, r.End)
	if !ok {
		return ErrTooLarge
	}
	m.gate.RLock()
	of := m.blocks.span(r.Key, r.End)
	it, err := m.st.NewIter(lower, upper)
	m.gate.RUnlock()
	if err != nil {
		return ErrTooLarge
	}
	defer it.Close()
	keys, err := of.count(it)
	if err != nil {
		return ErrTooLarge
	}
	if r.Limit > 0 {
		keys = min(keys, r.Limit)
	}
	each := b.used / b.versions
	if each > 0 && keys > math.MaxInt64/2/each {
		return ErrTooLarge
	}
	return &TooLargeError{About: keys * each}
}

// Revision returns the current revision and the compacted revision (0 = never compacted). A fresh store is at revision 1.
func (m *Machine) Revision() (current, compacted int64) {
	for {
		version, open := m.gate.Version()
		current, compacted = m.pubRev.Load(), m.pubCompacted.Load()
		if open && m.gate.Same(version) {
			return current, max(compacted, 0)
		}
		m.gate.Await()
	}
}

// Size counts the bytes of keys and values with history (quota, dbSize); inUse those of current keys only.
func (m *Machine) Size() (withHistory, inUse int64) {
	return m.pubHistory.Load(), m.pubInUse.Load()
}

// pinned is one published state: a View of the store with the numbers that belong to it.
type pinned struct {
	view store.View
	sums
	lists  *pastLists // nil: reads in the past keep nothing
	listed []*changes // the lists from before the state was pinned
	spans  map[*kvpart.Range]span
}

// pin takes the present state; the caller closes the view. Questions about the number of keys are asked with the ranges.
func (m *Machine) pin(ranges ...*kvpart.Range) pinned {
	p := pinned{lists: &m.lists, listed: m.lists.all()}
	m.gate.RLock()
	defer m.gate.RUnlock()
	p.view, p.sums = m.st.NewView(), m.pub
	for _, r := range ranges {
		if wantsSpan(r) {
			if p.spans == nil {
				p.spans = make(map[*kvpart.Range]span, len(ranges))
			}
			p.spans[r] = m.blocks.span(r.Key, r.End)
		}
	}
	return p
}

// at returns the revision a read asks for: 0 and below mean the current one.
func (p *pinned) at(rev int64) (int64, error) {
	switch {
	case rev > p.rev:
		return 0, ErrFutureRevision
	case rev <= 0:
		return p.rev, nil
	case rev < p.compacted:
		return 0, ErrCompacted
	}
	return rev, nil
}

// scan implements source for a revision that at has let pass.
func (p *pinned) scan(key, end []byte, rev int64) (scanner, error) {
	if rev > 0 && rev != p.rev {
		return newPastScan(p.view, key, end, rev)
	}
	if len(end) > 0 {
		return newCurrentScan(p.view, key, end, false)
	}
	return newPointScan(p.view, key)
}

// newPointScan looks one key up.
func newPointScan(r store.Reader, key []byte) (scanner, error) {
	row, ok, err := r.Get(nil, appendCurrentKey(nil, key))
	if err != nil {
		return nil, fmt.Errorf("read current row: %w", err)
	}
	if !ok {
		return emptyScan{}, nil
	}
	mt, value, inline, err := decodeCurrentRow(row)
	if err != nil {
		return nil, err
	}
	return &pointScan{v: version{key, mt}, load: func() ([]byte, error) {
		if inline {
			return value, nil
		}
		_, v, err := historyValue(r, nil, key, &mt)
		return v, err
	}}, nil
}

// answer answers r from p.
func (p *pinned) answer(r *kvpart.Range, b *answerBudget) (*kvpart.RangeResult, error) {
	rev, err := p.at(r.Revision)
	if err != nil {
		return nil, err
	}
	current := rev == p.rev
	backwards := current && len(r.End) > 0 && keysDescending(r)
	var sc scanner
	var total totaler
	if backwards {
		sc, err = newCurrentScan(p.view, r.Key, r.End, true)
		total = p.total(r, 0)
	} else {
		sc, total, err = p.scanTotal(r, rev)
	}
	if err != nil {
		return nil, err
	}
	defer sc.close()
	res, err := collect(r, sc, backwards, total, b)
	if err != nil {
		return nil, err
	}
	res.Revision = p.rev
	return res, nil
}

// keysDescending is the order that current rows can be read in backwards.
func keysDescending(r *kvpart.Range) bool {
	return r.Target == kvpart.SortByKey && r.Order == kvpart.SortDescend
}

// scanTotal walks r's interval at a revision that at has let pass, and finds how many keys it has.
func (p *pinned) scanTotal(r *kvpart.Range, rev int64) (scanner, totaler, error) {
	if rev == p.rev {
		sc, err := p.scan(r.Key, r.End, rev)
		return sc, p.total(r, 0), err
	}
	keys := p.keys
	if s, ok := p.spans[r]; ok {
		keys = s.inner + (s.most-s.inner)/4 // as far as it is not known, a guess: it decides about time only
	}
	sc, delta, known, err := p.past(r.Key, r.End, rev, keys)
	if err != nil || !known {
		return sc, nil, err
	}
	return sc, p.total(r, delta), nil
}

// total finds how many keys r's interval has, and delta more, if that can be found without walking it.
func (p *pinned) total(r *kvpart.Range, delta int64) totaler {
	if everything(r) {
		return func() (int64, error) { return p.keys + delta, nil }
	}
	s, ok := p.spans[r]
	if !ok {
		return nil
	}
	return func() (int64, error) {
		n, err := s.countIn(p.view, r.Key, r.End)
		return n + delta, err
	}
}

// Range answers r and the store's current revision. maxBytes bounds the result's keys and values, with a little for each (0 = no bound). A
// larger answer is a *TooLargeError, or ErrTooLarge if its size is unknown. The key of a one-key answer aliases r.Key.
func (m *Machine) Range(r *kvpart.Range, maxBytes int64) (res *kvpart.RangeResult, revision int64, err error) {
	m.stats.Ranges.Add(1)
	if len(r.End) == 0 && r.Revision <= 0 && !r.KeysOnly && !r.CountOnly && r.MinMod|r.MaxMod|r.MinCreate|r.MaxCreate == 0 {
		return m.pointRead(r, maxBytes)
	}
	b := answerBudget{max: maxBytes}
	res, revision, err = m.answerRange(r, &b)
	if err == ErrTooLarge {
		err = m.tooLarge(r, &b)
	}
	return res, revision, err
}

// answerRange is Range for all requests but point reads.
func (m *Machine) answerRange(r *kvpart.Range, b *answerBudget) (res *kvpart.RangeResult, revision int64, err error) {
	if len(r.End) > 0 && r.Revision <= 0 {
		if res, revision, err = m.currentRange(r, b); !errors.Is(err, errCorrupt) {
			return res, revision, err
		}
		*b = answerBudget{max: b.max}
	}
	p := m.pin(r)
	defer p.view.Close()
	res, err = p.answer(r, b)
	return res, p.rev, err
}

// currentRange answers a Range over current rows from one iterator. That spares it a View, which would take the store's central lock twice
// (DECISIONS B3). But values kept in history only are then read later than the iterator's state, and may have been overwritten and
// compacted since. errCorrupt then reports a missing value, and the caller tries again with a View.
func (m *Machine) currentRange(r *kvpart.Range, b *answerBudget) (*kvpart.RangeResult, int64, error) {
	lower, upper, ok := currentBounds(r.Key, r.End)
	backwards := keysDescending(r)
	m.gate.RLock()
	s := m.pub
	var it store.Iter
	var err error
	var of span
	counted := ok && wantsSpan(r)
	if ok {
		it, err = m.st.NewIter(lower, upper)
	}
	if counted {
		of = m.blocks.span(r.Key, r.End)
	}
	m.gate.RUnlock()
	if err != nil {
		return nil, s.rev, fmt.Errorf("scan current rows: %w", err)
	}
	var sc scanner = emptyScan{}
	if ok {
		sc = scanOver(m.st, it, backwards)
	}
	defer sc.close()
	var total totaler
	if everything(r) {
		total = func() (int64, error) { return s.keys, nil }
	} else if counted {
		total = func() (int64, error) { return of.count(it) }
	}
	res, err := collect(r, sc, backwards, total, b)
	if err != nil {
		return nil, s.rev, err
	}
	res.Revision = s.rev
	return res, s.rev, nil
}

// pointAnswer is the memory of the commonest answer in one piece.
type pointAnswer struct {
	res kvpart.RangeResult
	kvs [1]kvpart.KeyValue
}

// keyBuffers holds scratch for store keys of readers.
var keyBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 128); return &b }}

// pointRead answers the hottest read, one key at the current revision, from hotRows or by one Get, without lock, iterator or View. A long value
// takes two where latest does not know it.
//
// Why it is consistent: rev was published before the lookup, so it sees at least the state at rev. If what it found was
// written at or before rev, it is the state at rev. Otherwise (a newer row, or none) it is right only if nothing was
// published meanwhile, which the same version of the gate proves.
func (m *Machine) pointRead(r *kvpart.Range, maxBytes int64) (*kvpart.RangeResult, int64, error) {
	kb := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(kb)
	for range 4 {
		version, open := m.gate.Version()
		if !open {
			m.gate.Await()
			continue
		}
		rev := m.pubRev.Load()
		hot, look := m.hot.Load().look(r.Key)
		if hot != nil {
			if hot.mod > rev {
				continue
			}
			res, err := pointResult(r, &hot.meta, hot.value, rev, maxBytes)
			return res, rev, err
		}
		if at, sub := m.latest.find(r.Key, rev); at > 0 {
			mt, value, ok, err := m.versionAt(r.Key, at, sub)
			if err != nil {
				return nil, rev, err
			}
			if ok {
				look.keep(r.Key, &mt, value)
				res, err := pointResult(r, &mt, value, rev, maxBytes)
				return res, rev, err
			}
		}
		*kb = appendCurrentKey((*kb)[:0], r.Key)
		row, ok, err := m.st.Get(nil, *kb)
		if err != nil {
			return nil, rev, fmt.Errorf("read current row: %w", err)
		}
		if !ok {
			if m.gate.Same(version) {
				return &kvpart.RangeResult{Revision: rev}, rev, nil
			}
			continue
		}
		mt, value, inline, err := decodeCurrentRow(row)
		if err != nil {
			return nil, rev, err
		}
		if mt.mod > rev {
			continue
		}
		if !inline {
			if _, value, ok, err = m.versionAt(r.Key, mt.mod, mt.sub); err != nil {
				return nil, rev, err
			}
			if !ok {
				break // replaced and compacted away since: a View keeps the next one
			}
		}
		look.keep(r.Key, &mt, value)
		res, err := pointResult(r, &mt, value, rev, maxBytes)
		return res, rev, err
	}
	p := m.pin()
	defer p.view.Close()
	res, err := p.answer(r, &answerBudget{max: maxBytes})
	return res, p.rev, err
}

// versionAt reads a version that a key was given, without a View. A row of history never changes, but compaction may drop it once its
// version has been replaced.
func (m *Machine) versionAt(key []byte, rev int64, sub uint32) (mt meta, value []byte, ok bool, err error) {
	kb := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(kb)
	*kb = appendHistoryKey((*kb)[:0], key, rev, sub)
	row, ok, err := m.st.Get(nil, *kb)
	if err != nil {
		return meta{}, nil, false, fmt.Errorf("read version: %w", err)
	}
	if !ok {
		return meta{}, nil, false, nil
	}
	mt, value, err = decodeHistoryRow(row, rev, sub)
	return mt, value, err == nil && mt.exists(), err
}

// pointResult is the answer of a read that found one key. The value is the answer's to show, not to change.
func pointResult(r *kvpart.Range, mt *meta, value []byte, rev, maxBytes int64) (*kvpart.RangeResult, error) {
	if err := (&answerBudget{max: maxBytes}).spend(len(r.Key) + len(value)); err != nil {
		return nil, err
	}
	a := &pointAnswer{res: kvpart.RangeResult{Revision: rev, Count: 1}}
	if len(value) == 0 {
		value = nil
	}
	a.kvs[0] = mt.keyValue(r.Key, value)
	a.res.KVs = a.kvs[:]
	return &a.res, nil
}

// RangeStream calls fn with successive chunks (keys ascending, of about chunkBytes) of r, all from one revision; a chunk is
// fn's to keep. Only the last chunk has Count and More, and there is always a last one, perhaps without keys. Sort order is
// ignored: doors refuse any other before. It holds a View meanwhile, so fn must not block.
func (m *Machine) RangeStream(ctx context.Context, r *kvpart.Range, chunkBytes int,
	fn func(chunk *kvpart.RangeResult, revision int64) error) error {
	m.stats.Ranges.Add(1)
	p := m.pin(r)
	defer p.view.Close()
	rev, err := p.at(r.Revision)
	if err != nil {
		return err
	}
	sc, total, err := p.scanTotal(r, rev)
	if err != nil {
		return err
	}
	defer sc.close()
	// A stream cannot be sorted, so keys_only never needs values.
	plain := *r
	plain.Order, plain.Target = kvpart.SortNone, kvpart.SortByKey
	b := answerBudget{}
	c := collector{r: &plain, b: &b, unsorted: true}
	var count int64
	for {
		if total != nil && (r.CountOnly || c.full) {
			if count, err = total(); err != nil {
				return err
			}
			break
		}
		ok, err := sc.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if count++; count%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if r.CountOnly || c.full {
			continue
		}
		if b.used >= int64(chunkBytes) && len(c.kvs) > 0 {
			if err := fn(&kvpart.RangeResult{Revision: p.rev, KVs: c.kvs}, p.rev); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.used, c.kvs, c.mem = 0, nil, arena{}
		}
		if err := c.take(sc); err != nil {
			return err
		}
	}
	kvs, more := c.finish()
	return fn(&kvpart.RangeResult{Revision: p.rev, KVs: kvs, More: more, Count: count}, p.rev)
}

// Alarms lists active alarms ordered by member, type. The slice is shared: do not modify it.
func (m *Machine) Alarms() []kvpart.AlarmState {
	m.gate.RLock()
	defer m.gate.RUnlock()
	return m.alarms
}

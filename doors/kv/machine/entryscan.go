package machine

import (
	"bytes"
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// entryScan walks the store's current rows with the entry's writes before a bound laid over them. Apply goroutine only.
type entryScan struct {
	e       *entryWrites
	base    scanner // *currentScan or empty
	ahead   bool    // base cannot seek
	baseKey []byte  // where base stands; nil = at its end
	writes  []int32 // by key and index, not yet passed
	bound   int
	rev     int64  // writes after this revision do not count either; 0 = all do
	cur     *write // where the scan stands if on a write, else on base
	v       version
}

// entryScan walks [key, end) as it was before the bound-th write of the entry and at rev (0 = newest). The writes must not
// change while it is open: they may grow, which changes only what it has passed.
func (m *Machine) entryScan(key, end []byte, bound int, rev int64) (*entryScan, error) {
	base, err := newCurrentScan(m.st, key, end, false)
	if err != nil {
		return nil, err
	}
	return m.overlay(&entryScan{e: &m.entry, base: base, bound: bound, rev: rev}, key, end)
}

// entryScanAhead is entryScan for a walk over very many keys, which are read beside what the caller does with them.
func (m *Machine) entryScanAhead(key, end []byte, bound int) (*entryScan, error) {
	lower, upper, ok := currentBounds(key, end)
	if !ok {
		return m.entryScan(key, end, bound, 0)
	}
	it, err := m.st.NewAhead(lower, upper)
	if err != nil {
		return nil, fmt.Errorf("scan current rows: %w", err)
	}
	return m.overlay(&entryScan{e: &m.entry, base: scanOver(m.st, it, false), ahead: true, bound: bound}, key, end)
}

// overlay begins a scan with the writes in [key, end).
func (m *Machine) overlay(s *entryScan, key, end []byte) (*entryScan, error) {
	if unbounded(end) || bytes.Compare(key, end) < 0 {
		s.writes = append(s.writes, m.entry.byKey(key, end)...)
	}
	if err := s.advanceBase(); err != nil {
		s.base.close()
		return nil, err
	}
	return s, nil
}

// readAhead has the store's rows that the scan has not passed read beside what the caller does with them. The row it stands on is done with.
func (s *entryScan) readAhead(st store.Store, end []byte) error {
	if s.baseKey == nil {
		return nil
	}
	from := s.baseKey
	if s.cur == nil {
		from = append(bytes.Clone(from), 0)
	}
	lower, upper, ok := currentBounds(from, end)
	if !ok {
		return nil // it stands on the last there can be
	}
	it, err := st.NewAhead(lower, upper)
	if err != nil {
		return fmt.Errorf("scan current rows: %w", err)
	}
	s.base.close()
	s.base, s.ahead = scanOver(st, it, false), true
	if s.cur == nil {
		return nil // next goes to the first of it
	}
	return s.advanceBase()
}

// advanceBase goes to the store's next row that no sweep of the entry has taken.
func (s *entryScan) advanceBase() error {
	ok, err := s.base.next()
	for {
		if err != nil {
			return err
		}
		if s.baseKey = nil; !ok {
			return nil
		}
		base := s.base.(*currentScan)
		s.baseKey = base.userKey()
		by := s.e.sweepOf(s.baseKey, s.rev)
		switch {
		case by == nil:
			return nil
		case s.ahead:
			ok, err = base.next()
		case unbounded(by.end):
			ok = false
		default:
			ok, err = base.seek(by.end)
		}
	}
}

// takeGroup takes the writes of the next key off s.writes; w is the write that counts, nil if none does.
func (s *entryScan) takeGroup() (key []byte, w *write) {
	key = s.e.writes[s.writes[0]].slot.key
	for len(s.writes) > 0 {
		c := &s.e.writes[s.writes[0]]
		if !bytes.Equal(c.slot.key, key) {
			break
		}
		if int(s.writes[0]) < s.bound && (s.rev == 0 || c.new.mod <= s.rev) {
			w = c
		}
		s.writes = s.writes[1:]
	}
	return key, w
}

func (s *entryScan) next() (bool, error) {
	if s.cur == nil && s.v.key != nil { // standing on base
		if err := s.advanceBase(); err != nil {
			return false, err
		}
	}
	s.cur, s.v.key = nil, nil
	for len(s.writes) > 0 {
		key := s.e.writes[s.writes[0]].slot.key
		if s.baseKey != nil && bytes.Compare(s.baseKey, key) < 0 {
			break
		}
		_, w := s.takeGroup()
		if w == nil {
			continue // nothing that counts: the store's row, if any, stands
		}
		if s.baseKey != nil && bytes.Equal(s.baseKey, key) {
			if err := s.advanceBase(); err != nil {
				return false, err
			}
		}
		if w.new.exists() {
			s.cur = w
			s.v = version{key: key, meta: w.new}
			return true, nil
		}
	}
	if s.baseKey == nil {
		return false, nil
	}
	v, err := s.base.version()
	if err != nil {
		return false, err
	}
	s.v = *v
	return true, nil
}

// written reports whether the entry has a write of the key that the scan stands on.
func (s *entryScan) written() bool { return s.cur != nil }

func (s *entryScan) version() (*version, error) { return &s.v, nil }

func (s *entryScan) value() ([]byte, error) {
	if s.cur != nil {
		return s.cur.value, nil
	}
	return s.base.value()
}

func (s *entryScan) close() { s.base.close() }

// entryRange walks r as it is before the bound-th write of the entry, and finds how many keys it has. The machine's memory beside the rows
// is only used here, for an answer. The answers of members are the same; the way to them is not.
func (m *Machine) entryRange(r *kvpart.Range, bound int) (scanner, totaler, error) {
	rev := max(r.Revision, 0)
	past := rev > 0 && rev < m.pub.rev
	p := pinned{view: unowned{m.st}, sums: m.pub, lists: &m.lists, listed: m.lists.all()}
	if wantsSpan(r) {
		m.gate.RLock()
		p.spans = map[*kvpart.Range]span{r: m.blocks.span(r.Key, r.End)}
		m.gate.RUnlock()
	}
	if past {
		return p.scanTotal(r, rev)
	}
	src := entrySource{m: m, bound: bound}
	sc, err := src.scan(r.Key, r.End, rev)
	if err != nil || p.spans == nil {
		return sc, nil, err
	}
	return sc, func() (int64, error) {
		return p.total(r, m.entryDelta(r.Key, r.End, bound, rev))()
	}, nil
}

// entryDelta is the change to the number of keys in [key, end) by the writes of the entry before bound and at or below rev (0 = any).
func (m *Machine) entryDelta(key, end []byte, bound int, rev int64) (delta int64) {
	if !unbounded(end) && bytes.Compare(key, end) >= 0 {
		return 0
	}
	s := entryScan{e: &m.entry, writes: m.entry.byKey(key, end), bound: bound, rev: rev}
	for _, sw := range m.entry.sweeps {
		if rev == 0 || sw.rev <= rev {
			delta -= int64(sw.within(key, end))
		}
	}
	for len(s.writes) > 0 {
		first := &m.entry.writes[s.writes[0]]
		if _, w := s.takeGroup(); w != nil {
			if was, is := first.old.exists(), w.new.exists(); is && !was {
				delta++
			} else if was && !is {
				delta--
			}
		}
	}
	return delta
}

// entrySource reads the state before the bound-th write of the entry being applied.
type entrySource struct {
	m     *Machine
	bound int
}

// scan implements source. A revision the store had before this entry is read from there; a later one is the store with
// the writes up to it.
func (e *entrySource) scan(key, end []byte, rev int64) (scanner, error) {
	m := e.m
	if rev > 0 && rev < m.pub.rev {
		return newPastScan(m.st, key, end, rev)
	}
	if len(end) == 0 && rev > 0 && m.entry.swept(key, 0) && !m.entry.swept(key, rev) {
		end = append(key[:len(key):len(key)], 0) // its slot says that it is gone, which it was not yet
	}
	if len(end) > 0 {
		sc, err := m.entryScan(key, end, e.bound, rev)
		if err != nil {
			return nil, err // no scanner, and not a nil one
		}
		return sc, nil
	}
	s, err := m.slot(key)
	if err != nil {
		return nil, err
	}
	w, base := m.entry.before(s, e.bound, rev)
	switch {
	case w != nil && w.new.exists():
		return &pointScan{v: version{key, w.new}, load: func() ([]byte, error) { return w.value, nil }}, nil
	case w != nil || !base.exists():
		return emptyScan{}, nil
	}
	return &pointScan{v: version{key, base}, load: func() ([]byte, error) { return m.storedValue(&m.entry.held, s, &base) }}, nil
}

package kv

import (
	"bytes"
	"fmt"

	"github.com/holdfastdb/holdfast/store"
)

// version is one version of a key, without its value.
type version struct {
	key []byte
	meta
}

// scanner walks the keys of an interval that exist at one revision, in order. What it returns is valid until the next move.
// version and value cost nothing for keys one only counts.
type scanner interface {
	next() (bool, error)
	version() (*version, error)
	value() ([]byte, error)
	close()
}

// emptyScan has no keys.
type emptyScan struct{}

func (emptyScan) next() (bool, error)        { return false, nil }
func (emptyScan) version() (*version, error) { return nil, nil }
func (emptyScan) value() ([]byte, error)     { return nil, nil }
func (emptyScan) close()                     {}

// pointScan has one key, already looked up.
type pointScan struct {
	v    version
	load func() ([]byte, error)
	done bool
}

func (s *pointScan) next() (bool, error) {
	ok := !s.done
	s.done = true
	return ok, nil
}
func (s *pointScan) version() (*version, error) { return &s.v, nil }
func (s *pointScan) value() ([]byte, error)     { return s.load() }
func (s *pointScan) close()                     {}

// currentScan walks current rows: one row per key, whatever its history.
type currentScan struct {
	r       store.Reader // of the same point in time as it, for values kept in history only
	it      store.Iter
	reverse bool
	started bool
	decoded bool
	v       version
	val     []byte
	inline  bool
	buf     []byte
}

// newCurrentScan walks [key, end) of what r holds; a View, or the store itself on the apply goroutine.
func newCurrentScan(r store.Reader, key, end []byte, reverse bool) (scanner, error) {
	lower, upper, ok := currentBounds(key, end)
	if !ok {
		return emptyScan{}, nil
	}
	it, err := r.NewIter(lower, upper)
	if err != nil {
		return nil, fmt.Errorf("scan current rows: %w", err)
	}
	return &currentScan{r: r, it: it, reverse: reverse}, nil
}

func (s *currentScan) next() (bool, error) {
	var ok bool
	switch {
	case s.started && s.reverse:
		ok = s.it.Prev()
	case s.started:
		ok = s.it.Next()
	case s.reverse:
		ok = s.it.Last()
	default:
		ok = s.it.First()
	}
	s.started, s.decoded = true, false
	if !ok {
		if err := s.it.Error(); err != nil {
			return false, fmt.Errorf("scan current rows: %w", err)
		}
	}
	return ok, nil
}

// userKey is the key alone, without reading the row.
func (s *currentScan) userKey() []byte { return s.it.Key()[2:] }

func (s *currentScan) version() (*version, error) {
	if !s.decoded {
		row, err := s.it.Value()
		if err != nil {
			return nil, fmt.Errorf("scan current rows: %w", err)
		}
		if s.v.meta, s.val, s.inline, err = decodeCurrentRow(row); err != nil {
			return nil, err
		}
		s.v.key, s.decoded = s.userKey(), true
	}
	return &s.v, nil
}

func (s *currentScan) value() ([]byte, error) {
	if _, err := s.version(); err != nil || s.inline {
		return s.val, err
	}
	var err error
	s.buf, s.val, err = historyValue(s.r, s.buf, s.v.key, &s.v.meta)
	return s.val, err
}

func (s *currentScan) close() { _ = s.it.Close() }

// historyValue reads the value of one version into buf, which it returns with the value that aliases it.
func historyValue(r store.Reader, buf, key []byte, mt *meta) (_, value []byte, err error) {
	k := appendHistoryKey(make([]byte, 0, len(key)+20), key, mt.mod, mt.sub)
	buf, ok, err := r.Get(buf[:0], k)
	if err != nil {
		return buf, nil, fmt.Errorf("read version: %w", err)
	}
	if !ok {
		return buf, nil, fmt.Errorf("version %d.%d of key %q is missing: %w", mt.mod, mt.sub, key, errCorrupt)
	}
	_, value, err = decodeHistoryRow(buf, mt.mod, mt.sub)
	return buf, value, err
}

// pastScan walks the keys of an interval as they were at an earlier revision: current rows that are old enough, and history for
// keys that were changed since. Of one key the current row counts, if both have it.
type pastScan struct {
	rev      int64
	cur      *currentScan
	old      *historyScan
	curOn    bool // cur stands on a key that is old enough
	oldOn    bool
	started  bool
	standing scanner // the one of both that has the present key
}

// newPastScan walks [key, end) as it was at rev; no end means the one key.
func newPastScan(r store.Reader, key, end []byte, rev int64) (scanner, error) {
	if len(end) == 0 {
		s, err := newPointScan(r, key)
		if err != nil {
			return nil, err
		}
		if p, ok := s.(*pointScan); ok && p.v.mod <= rev {
			return s, nil
		}
		return newHistoryScan(r, key, nil, rev)
	}
	cur, err := newCurrentScan(r, key, end, false)
	if err != nil {
		return nil, err
	}
	c, ok := cur.(*currentScan)
	if !ok {
		return cur, nil // an interval without keys
	}
	old, err := newHistoryScan(r, key, end, rev)
	if err != nil {
		cur.close()
		return nil, err
	}
	h, ok := old.(*historyScan)
	if !ok {
		cur.close()
		return old, nil
	}
	return &pastScan{rev: rev, cur: c, old: h}, nil
}

func (s *pastScan) next() (bool, error) {
	if !s.started || s.standing == s.cur {
		if err := s.advanceCur(); err != nil {
			return false, err
		}
	}
	if !s.started || s.standing == s.old {
		if err := s.advanceOld(); err != nil {
			return false, err
		}
	}
	s.started = true
	switch {
	case !s.curOn && !s.oldOn:
		return false, nil
	case !s.curOn:
		s.standing = s.old
		return true, nil
	case s.oldOn:
		switch c := bytes.Compare(s.cur.userKey(), s.old.v.key); {
		case c > 0:
			s.standing = s.old
			return true, nil
		case c == 0: // a version that the current row replaced at or before rev
			if err := s.advanceOld(); err != nil {
				return false, err
			}
		}
	}
	s.standing = s.cur
	return true, nil
}

func (s *pastScan) advanceCur() (err error) {
	for {
		if s.curOn, err = s.cur.next(); err != nil || !s.curOn {
			return err
		}
		v, err := s.cur.version()
		if err != nil || v.mod <= s.rev {
			return err
		}
	}
}

func (s *pastScan) advanceOld() (err error) {
	s.oldOn, err = s.old.next()
	return err
}

func (s *pastScan) version() (*version, error) { return s.standing.version() }
func (s *pastScan) value() ([]byte, error)     { return s.standing.value() }

func (s *pastScan) close() {
	s.cur.close()
	s.old.close()
}

// historyScan walks the versions in history that are visible at a revision.
type historyScan struct {
	it      store.Iter
	rev     int64
	started bool
	seek    []byte // the present key's prefix in the store, without a revision
	v       version
	val     []byte
}

// newHistoryScan walks what history alone has of [key, end) at rev; no end means the one key.
func newHistoryScan(r store.Reader, key, end []byte, rev int64) (scanner, error) {
	var lower, upper []byte
	ok := true
	if len(end) == 0 {
		lower = appendHistoryPrefix(nil, key)
		upper = prefixEnd(lower)
	} else {
		lower, upper, ok = historyBounds(key, end)
	}
	if !ok {
		return emptyScan{}, nil
	}
	it, err := r.NewIter(lower, upper)
	if err != nil {
		return nil, fmt.Errorf("scan history: %w", err)
	}
	return &historyScan{it: it, rev: max(rev, 0)}, nil // nothing was written at or below 0
}

func (s *historyScan) next() (bool, error) {
	ok := false
	if s.started {
		ok = s.skipKey()
	} else {
		ok, s.started = s.it.First(), true
	}
	for ok {
		k := s.it.Key()
		key, prefix, rev, sub, err := splitHistoryKey(s.v.key[:0], k)
		if err != nil {
			return false, err
		}
		s.v.key = key
		s.seek = append(s.seek[:0], prefix...)
		if rev > s.rev {
			ok = s.it.SeekGE(appendInvertedRev(s.seek, s.rev, ^uint32(0)))
			continue
		}
		row, err := s.it.Value()
		if err != nil {
			return false, fmt.Errorf("scan history: %w", err)
		}
		if s.v.meta, s.val, err = decodeHistoryRow(row, rev, sub); err != nil {
			return false, err
		}
		if s.v.exists() {
			return true, nil
		}
		ok = s.skipKey()
	}
	if err := s.it.Error(); err != nil {
		return false, fmt.Errorf("scan history: %w", err)
	}
	return false, nil
}

// skipKey moves past the other versions of the present key. Most keys have few, so a step is tried before a seek.
func (s *historyScan) skipKey() bool {
	ok := s.it.Next()
	if ok && bytes.HasPrefix(s.it.Key(), s.seek) {
		s.seek[len(s.seek)-1]++ // the terminator 00 01 becomes 00 02, which no key's versions begin with
		ok = s.it.SeekGE(s.seek)
	}
	return ok
}

func (s *historyScan) version() (*version, error) { return &s.v, nil }
func (s *historyScan) value() ([]byte, error)     { return s.val, nil }
func (s *historyScan) close()                     { _ = s.it.Close() }

// entryScan walks the store's current rows with the entry's writes before a bound laid over them. Apply goroutine only.
type entryScan struct {
	e       *entryWrites
	base    scanner // *currentScan or empty
	baseKey []byte  // where base stands; nil = at its end
	writes  []int32 // by key and index, not yet passed
	bound   int
	rev     int64  // writes after this revision do not count either; 0 = all do
	cur     *write // where the scan stands if on a write, else on base
	v       version
}

// entryScan walks [key, end) as it was before the bound-th write of the entry and at rev (0 = newest). The writes must not
// change while it is open: they may grow, which changes only what it has passed.
func (m *Machine) entryScan(key, end []byte, bound int, rev int64) (scanner, error) {
	base, err := newCurrentScan(m.st, key, end, false)
	if err != nil {
		return nil, err
	}
	s := &entryScan{e: &m.entry, base: base, bound: bound, rev: rev}
	if unbounded(end) || bytes.Compare(key, end) < 0 {
		s.writes = append(s.writes, m.entry.byKey(key, end)...)
	}
	if err := s.advanceBase(); err != nil {
		base.close()
		return nil, err
	}
	return s, nil
}

func (s *entryScan) advanceBase() error {
	ok, err := s.base.next()
	if err != nil {
		return err
	}
	s.baseKey = nil
	if ok {
		s.baseKey = s.base.(*currentScan).userKey()
	}
	return nil
}

// takeGroup takes the writes of the next key off s.writes; w is the one that counts, nil if none does.
func (s *entryScan) takeGroup() (key string, w *write) {
	key = s.e.writes[s.writes[0]].slot.key
	for len(s.writes) > 0 {
		c := &s.e.writes[s.writes[0]]
		if c.slot.key != key {
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
		if s.baseKey != nil && string(s.baseKey) < key {
			break
		}
		_, w := s.takeGroup()
		if w == nil {
			continue // nothing that counts: the store's row, if any, stands
		}
		if s.baseKey != nil && string(s.baseKey) == key {
			if err := s.advanceBase(); err != nil {
				return false, err
			}
		}
		if w.new.exists() {
			s.cur = w
			s.v = version{key: []byte(key), meta: w.new}
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

func (s *entryScan) version() (*version, error) { return &s.v, nil }

func (s *entryScan) value() ([]byte, error) {
	if s.cur != nil {
		return s.cur.value, nil
	}
	return s.base.value()
}

func (s *entryScan) close() { s.base.close() }

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
	if len(end) > 0 {
		return m.entryScan(key, end, e.bound, rev)
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

package machine

import (
	"bytes"
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
)

// pastScan walks the keys of an interval as they were at an earlier revision. It takes current rows that are old enough, and history for
// keys changed since. Of one key the current row counts, if both have it.
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

func (s *pastScan) value() ([]byte, error) { return s.standing.value() }

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

func (s *historyScan) value() ([]byte, error) { return s.val, nil }

func (s *historyScan) close() { _ = s.it.Close() }

package machine

import (
	"github.com/holdfastdb/holdfast/core/store"
)

// sinceScan walks the keys of an interval as they were at an earlier revision. It takes the current rows, and for keys changed since the
// versions they had. Beside those rows it costs one lookup per such version, however many versions the keys have in history. pastScan seeks
// in history for every key.
type sinceScan struct {
	cur     *currentScan
	changed []changedKey // not passed yet
	started bool
	curOn   bool        // cur stands on a key
	on      *changedKey // where the scan stands if on a changed key, else on cur
	read    bool        // v and val are of on
	v       version
	val     []byte
}

// newSinceScan walks [key, end) of r; changed are the keys of it that changed since.
func newSinceScan(r store.Reader, key, end []byte, changed []changedKey) (scanner, error) {
	cur, err := newCurrentScan(r, key, end, false)
	if err != nil {
		return nil, err
	}
	c, ok := cur.(*currentScan)
	if !ok {
		return cur, nil // an interval without keys
	}
	return &sinceScan{cur: c, changed: changed}, nil
}

func (s *sinceScan) next() (ok bool, err error) {
	if !s.started || s.curOn && s.on == nil {
		if s.curOn, err = s.cur.next(); err != nil {
			return false, err
		}
	}
	s.started, s.on, s.read = true, nil, false
	for len(s.changed) > 0 {
		c := &s.changed[0]
		if s.curOn && string(s.cur.userKey()) < c.key {
			return true, nil
		}
		s.changed = s.changed[1:]
		if s.curOn && string(s.cur.userKey()) == c.key { // its row is of a later version
			if s.curOn, err = s.cur.next(); err != nil {
				return false, err
			}
		}
		if c.mod != 0 {
			s.on = c
			return true, nil
		}
	}
	return s.curOn, nil
}

func (s *sinceScan) version() (*version, error) {
	if s.on == nil {
		return s.cur.version()
	}
	if !s.read {
		key := []byte(s.on.key)
		var err error
		if s.v.meta, s.val, err = s.cur.hist.find(key, s.on.mod, s.on.sub, unknownVersions); err != nil {
			return nil, err
		}
		s.v.key, s.read = key, true
	}
	return &s.v, nil
}

func (s *sinceScan) value() ([]byte, error) {
	if s.on == nil {
		return s.cur.value()
	}
	_, err := s.version()
	return s.val, err
}

func (s *sinceScan) close() { s.cur.close() }

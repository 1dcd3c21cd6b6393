package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
)

// version is one version of a key, without its value.
type version struct {
	key []byte
	meta
}

// scanner walks the keys of an interval that exist at one revision, in order. Returned values are valid until the next move. version and
// value cost nothing for keys one only counts.
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

// currentScan walks current rows: one row per key, independent of its history.
type currentScan struct {
	it      store.Iter
	reverse bool
	started bool
	decoded bool
	v       version
	val     []byte
	inline  bool
	hist    along // for values that are in history only
}

// scanOver walks what it, an iterator over current rows, has of r. Both are of the same point in time.
func scanOver(r store.Reader, it store.Iter, reverse bool) *currentScan {
	return &currentScan{it: it, reverse: reverse, hist: along{r: r}}
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
	return scanOver(r, it, reverse), nil
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

// seek goes to the first row at or behind key. It is a next of its own.
func (s *currentScan) seek(key []byte) (bool, error) {
	s.started, s.decoded = true, false
	if s.it.SeekGE(appendCurrentKey(nil, key)) {
		return true, nil
	}
	if err := s.it.Error(); err != nil {
		return false, fmt.Errorf("scan current rows: %w", err)
	}
	return false, nil
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
	if s.reverse {
		s.hist.buf, s.val, err = historyValue(s.hist.r, s.hist.buf, s.v.key, &s.v.meta)
	} else {
		_, s.val, err = s.hist.find(s.v.key, s.v.mod, s.v.sub, s.v.meta.version)
	}
	return s.val, err
}

func (s *currentScan) close() {
	_ = s.it.Close()
	s.hist.close()
}

func missing(key []byte, mod int64, sub uint32) error {
	return fmt.Errorf("version %d.%d of key %q is missing: %w", mod, sub, key, errCorrupt)
}

// historyValue reads the value of one version into buf, which it returns with the value that aliases it.
func historyValue(r store.Reader, buf, key []byte, mt *meta) (_, value []byte, err error) {
	buf, _, value, err = historyVersion(r, buf, key, mt.mod, mt.sub)
	return buf, value, err
}

// historyVersion reads a version that is in history.
func historyVersion(r store.Reader, buf, key []byte, mod int64, sub uint32) (_ []byte, mt meta, value []byte, err error) {
	k := appendHistoryKey(make([]byte, 0, len(key)+20), key, mod, sub)
	buf, ok, err := r.Get(buf[:0], k)
	if err != nil {
		return buf, meta{}, nil, fmt.Errorf("read version: %w", err)
	}
	if !ok {
		return buf, meta{}, nil, missing(key, mod, sub)
	}
	mt, value, err = decodeHistoryRow(buf, mod, sub)
	return buf, mt, value, err
}

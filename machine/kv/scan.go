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
	hist    store.Iter // over history, beside it; nil before a value was looked for there
	single  bool       // hist stands on the only version of its key
	looked  int        // how many values were looked up one by one
}

const (
	// lookedUp is how many values of a list are looked up one by one before an iterator over history is opened beside the one over
	// current rows: opening one costs about as much as so many Gets.
	lookedUp = 2
	// fewVersions is up to which version of a key its value is taken from there. Others have older versions lying in between, which the
	// iterator steps over in each of the store's levels: at six a key, a Get a key is less. The version counts what has been compacted
	// away too, so that a few are looked up without need.
	fewVersions = 4
)

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
	if s.reverse || s.v.meta.version > fewVersions || s.looked < lookedUp {
		s.looked++
		s.buf, s.val, err = historyValue(s.r, s.buf, s.v.key, &s.v.meta)
	} else {
		s.val, err = s.nextValue()
	}
	return s.val, err
}

// nextValue finds the value by an iterator that goes along history: it lies near the one before, where a lookup begins anew at every level.
func (s *currentScan) nextValue() (value []byte, err error) {
	if s.hist == nil {
		lower, upper := spaceBounds(spaceHistory)
		if s.hist, err = s.r.NewIter(lower, upper); err != nil {
			return nil, fmt.Errorf("scan history: %w", err)
		}
	}
	s.buf = appendHistoryKey(s.buf[:0], s.v.key, s.v.mod, s.v.sub)
	found := s.step() && bytes.Equal(s.hist.Key(), s.buf)
	if err := s.hist.Error(); err != nil {
		return nil, fmt.Errorf("read version: %w", err)
	}
	if !found {
		return nil, missing(s.v.key, s.v.mod, s.v.sub)
	}
	row, err := s.hist.Value()
	if err != nil {
		return nil, fmt.Errorf("read version: %w", err)
	}
	_, value, err = decodeHistoryRow(row, s.v.mod, s.v.sub)
	return value, err
}

// step moves the iterator over history to buf or what follows it. From the only version of the key before it is mostly one move, which
// touches one level of the store; a seek touches all of them. From two versions on that is no less.
func (s *currentScan) step() bool {
	single := s.single
	s.single = s.v.version == 1
	if !single {
		return s.hist.SeekGE(s.buf)
	}
	if !s.hist.Next() {
		return false
	}
	return bytes.Compare(s.hist.Key(), s.buf) >= 0 || s.hist.SeekGE(s.buf)
}

func (s *currentScan) close() {
	_ = s.it.Close()
	if s.hist != nil {
		_ = s.hist.Close()
	}
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

package machine

import (
	"bytes"
	"fmt"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// span is the blocks' knowledge of an interval [key, end) at one moment. It has the number of keys between the first and the last fence
// inside. The parts still to be walked are beside it, in rows of the same moment.
type span struct {
	inner int64
	whole bool // no fence lies in the interval: all of it is to be walked
	left  bool // [key, from) is to be walked
	right bool // [to, end) is
	from  string
	to    string
	most  int64 // there are no more keys than that
}

// wantsSpan reports whether r needs the number of keys in an interval without reading them. It also does so for a read at a revision whose
// cost depends on the approximate number.
func wantsSpan(r *kvpart.Range) bool {
	return len(r.End) > 0 && (r.Limit > 0 || r.CountOnly || r.Revision > 0)
}

// span is the blocks' knowledge of [key, end).
func (b *blocks) span(key, end []byte) (s span) {
	if !unbounded(end) && bytes.Compare(key, end) >= 0 {
		return s
	}
	first := locate(b, key)
	a, q := first, place{g: len(b.groups)}
	if b.fence(first) != string(key) {
		a = b.after(first)
	}
	if !unbounded(end) {
		q = locate(b, end)
	}
	if b.behind(a) || !unbounded(end) && (a.g > q.g || a.g == q.g && a.i > q.i) {
		s.most = b.count(first)
		s.whole = s.most > 0
		return s
	}
	s.inner = b.sum(a, q)
	s.most = s.inner
	if a != first && b.count(first) > 0 {
		s.left, s.from = true, b.fence(a)
		s.most += b.count(first)
	}
	if !b.behind(q) && b.fence(q) != string(end) && b.count(q) > 0 {
		s.right, s.to = true, b.fence(q)
		s.most += b.count(q)
	}
	return s
}

// count is the number of keys, by an iterator over the current rows of the interval that stands anywhere.
func (s *span) count(it store.Iter) (int64, error) {
	n := s.inner
	if s.whole {
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
	}
	if s.left {
		upTo := append([]byte{letter, spaceCurrent}, s.from...)
		for ok := it.First(); ok && bytes.Compare(it.Key(), upTo) < 0; ok = it.Next() {
			n++
		}
	}
	if s.right {
		for ok := it.SeekGE(append([]byte{letter, spaceCurrent}, s.to...)); ok; ok = it.Next() {
			n++
		}
	}
	if err := it.Error(); err != nil {
		return 0, fmt.Errorf("count current rows: %w", err)
	}
	return n, nil
}

// countIn is the number of keys of [key, end) in r, which is of the same moment.
func (s *span) countIn(r store.Reader, key, end []byte) (int64, error) {
	if !s.whole && !s.left && !s.right {
		return s.inner, nil
	}
	lower, upper, ok := currentBounds(key, end)
	if !ok {
		return 0, nil
	}
	it, err := r.NewIter(lower, upper)
	if err != nil {
		return 0, fmt.Errorf("count current rows: %w", err)
	}
	defer it.Close()
	return s.count(it)
}

// everything reports whether r's interval has all keys that there can be.
func everything(r *kvpart.Range) bool {
	return unbounded(r.End) && (len(r.Key) == 0 || len(r.Key) == 1 && r.Key[0] == 0)
}

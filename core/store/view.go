package store

import (
	"math/bits"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// view is a Pebble snapshot that keeps its generation open.
type view struct {
	g      *generation
	snap   *pebble.Snapshot
	closed bool
}

func (v *view) Get(dst, key []byte) ([]byte, bool, error) {
	if v.g.replaced.Load() {
		return dst, false, ErrReplaced
	}
	return v.g.get(v.snap, dst, key)
}

func (v *view) NewIter(lower, upper []byte) (Iter, error) {
	if v.g.replaced.Load() || !v.g.acquire() {
		return nil, ErrReplaced
	}
	return v.g.s.newIter(v.g, v.snap, lower, upper)
}

func (v *view) Close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	v.g.s.views.Add(-1)
	err := v.snap.Close()
	v.g.release()
	return err
}

// deadView is the View of a closed store.
type deadView struct{ err error }

func (v deadView) Get(dst, _ []byte) ([]byte, bool, error) { return dst, false, v.err }
func (v deadView) NewIter(_, _ []byte) (Iter, error)       { return nil, v.err }
func (v deadView) Close() error                            { return nil }

// iter is a Pebble iterator that holds a reference to its generation. Pooled: point-in-time scans are frequent and short.
type iter struct {
	*pebble.Iterator
	g      *generation
	bounds pebble.IterOptions
}

// newIter takes over the caller's reference to g.
func (s *db) newIter(g *generation, r pebble.Reader, lower, upper []byte) (Iter, error) {
	it := s.iters.Get().(*iter)
	it.g = g
	it.bounds.LowerBound, it.bounds.UpperBound = lower, upper
	pit, err := r.NewIter(&it.bounds)
	if err != nil {
		s.iters.Put(it)
		g.release()
		return nil, err
	}
	it.Iterator = pit
	return it, nil
}

// gone reports whether the store was replaced under the iterator.
func (it *iter) gone() bool { return it.g.replaced.Load() }

func (it *iter) First() bool            { return !it.gone() && it.Iterator.First() }
func (it *iter) Last() bool             { return !it.gone() && it.Iterator.Last() }
func (it *iter) SeekGE(key []byte) bool { return !it.gone() && it.Iterator.SeekGE(key) }
func (it *iter) SeekLT(key []byte) bool { return !it.gone() && it.Iterator.SeekLT(key) }
func (it *iter) Next() bool             { return !it.gone() && it.Iterator.Next() }
func (it *iter) Prev() bool             { return !it.gone() && it.Iterator.Prev() }
func (it *iter) Valid() bool            { return !it.gone() && it.Iterator.Valid() }

func (it *iter) Value() ([]byte, error) {
	v, err := it.Iterator.ValueAndErr()
	if err != nil {
		it.g.damaged(err)
	}
	return v, err
}

func (it *iter) Error() error {
	if it.gone() {
		return ErrReplaced
	}
	return it.Iterator.Error()
}

// Loads implements Iter.
func (it *iter) Loads() Loads {
	st := it.Iterator.Stats().InternalStats
	l := Loads{Bytes: st.BlockBytes}
	if it.g.s.cacheIsFull() {
		l.Missed = st.BlockBytes - st.BlockBytesInCache
	}
	return l
}

// cacheIsFull reports whether blocks have nearly all that memtables leave them.
func (s *db) cacheIsFull() bool {
	room := s.cache.MaxSize() - 3*s.opts.MemtableBytes
	return s.cache.Size() > room-room/4
}

// Close implements Iter. It must be called exactly once: the iterator belongs to another caller afterwards.
func (it *iter) Close() error {
	st := it.Iterator.Stats()
	shown := st.ForwardStepCount[pebble.InterfaceCall] + st.ReverseStepCount[pebble.InterfaceCall]
	walked := st.ForwardStepCount[pebble.InternalIterCall] + st.ReverseStepCount[pebble.InternalIterCall]
	err := it.Iterator.Close()
	g := it.g
	if walked > shown {
		g.s.flusher.walked(int64(walked - shown))
	}
	if g.replaced.Load() {
		err = ErrReplaced
	}
	it.Iterator, it.g = nil, nil
	it.bounds.LowerBound, it.bounds.UpperBound = nil, nil
	g.s.iters.Put(it)
	g.release()
	return err
}

// batch is a Pebble batch with counters for the flush policy.
type batch struct {
	b         *pebble.Batch
	g         *generation // the one it was made for; a batch made before an Install cannot be committed after it
	overwrote int
	deleted   []span
	applied   [8]byte
}

// span are the keys from lower to before upper.
type span struct{ lower, upper []byte }

// batchHeaderLen is Pebble's volatile part of a batch: sequence number and count.
const batchHeaderLen = 12

// NewBatch implements Store.
func (s *db) NewBatch() Batch {
	b := &batch{g: s.cur.Load()}
	if b.g != nil {
		b.b = b.g.pdb.NewBatch(pebble.WithMaxRetainedSizeBytes(maxKeptBatch))
	} else {
		b.b = new(pebble.Batch) // Commit answers ErrClosed
	}
	return b
}

// A Pebble batch refuses an operation only by panicking over 4 GB or once it was committed. Both break the caller's contract, so there is
// no error to return.
func (b *batch) Set(key, value []byte) { must(b.b.Set(key, value, nil)) }
func (b *batch) SetJoined(key, head, tail []byte) {
	op := b.b.SetDeferred(len(key), len(head)+len(tail))
	copy(op.Key, key)
	copy(op.Value[copy(op.Value, head):], tail)
	must(op.Finish())
}

func (b *batch) Delete(key []byte) { must(b.b.Delete(key, nil)) }
func (b *batch) DeleteRange(lower, upper []byte) {
	must(b.b.DeleteRange(lower, upper, nil))
	b.deleted = append(b.deleted, span{slices.Clone(lower), slices.Clone(upper)})
}
func (b *batch) Overwrote(n int) { b.overwrote += n }

// Grow moves the batch's content into a larger one. Pebble has no other call that makes room, and this one does not fill it with zeros
// first.
func (b *batch) Grow(n int) {
	repr := b.b.Repr()
	if b.g == nil || n <= cap(repr)-len(repr) {
		return
	}
	size := len(repr) + n
	if size <= maxKeptBatch {
		size = 1 << bits.Len(uint(size-1)) // so that the next one, of about this size, finds room in it
	}
	larger := b.g.pdb.NewBatchWithSize(size, pebble.WithMaxRetainedSizeBytes(maxKeptBatch))
	must(larger.Apply(b.b, nil))
	_ = b.b.Close() // back to its pool
	b.b = larger
}

func (b *batch) Repr() []byte { return b.b.Repr()[batchHeaderLen:] }
func (b *batch) Len() int     { return len(b.Repr()) }

// recycle gives the memory back to Pebble's pool.
func (b *batch) recycle() {
	_ = b.b.Close()
	b.b = nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

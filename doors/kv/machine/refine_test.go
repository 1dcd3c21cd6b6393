package machine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// fine divides all there is to be divided.
func fine(t testing.TB, m *Machine) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = m.Refine(8192); err != nil {
			t.Fatal(err)
		}
	}
}

// checkRows compares each block with the rows of the store.
func checkRows(t *testing.T, r *rig) {
	t.Helper()
	checkBlocks(t, r.m, func(key, end string) (n int64) {
		lower, upper := appendCurrentKey(nil, []byte(key)), []byte{letter, spaceCurrent + 1}
		if end != "" {
			upper = appendCurrentKey(nil, []byte(end))
		}
		it, err := r.Store.NewIter(lower, upper)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		return n
	})
}

func numbered(from, to int) (parts []*kvpart.Part) {
	for i := from; i < to; i++ {
		parts = append(parts, putPart(fmt.Sprintf("k%06d", i), "v"))
	}
	return parts
}

// blockCount is how many there are.
func (m *Machine) blockCount() (n int) {
	for _, g := range m.blocks.groups {
		n += len(g.fences)
	}
	return n
}

// TestCountsAreExactFromTheStart: a machine that has just been loaded knows one block, and walks; divided, it walks next to nothing. The
// answers are the same.
func TestCountsAreExactFromTheStart(t *testing.T) {
	r := newRig(t, Options{})
	r.apply(numbered(0, 5000)...)
	r.reopen(Options{})
	if n := r.m.blockCount(); n != 1 {
		t.Fatalf("%d blocks", n)
	}
	select {
	case <-r.m.RefineWanted():
	default:
		t.Fatal("nobody is told that there is something to divide")
	}
	count := func() int64 {
		res, _, err := r.m.Range(&kvpart.Range{Key: []byte("k001"), End: []byte("k004"), Limit: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return res.Count
	}
	if n := count(); n != 3000 {
		t.Fatalf("%d keys of 3000", n)
	}
	fine(t, r.m)
	checkRows(t, r)
	if n := r.m.blockCount(); n < 5000/256 || n > 5000/128+1 {
		t.Fatalf("%d blocks of 5000 keys", n)
	}
	if s := r.m.blocks.span([]byte("k001"), []byte("k004")); s.most-s.inner > 2*256 {
		t.Fatalf("%d keys are to be walked", s.most-s.inner)
	}
	if n := count(); n != 3000 {
		t.Fatalf("%d keys of 3000", n)
	}
}

// TestWhatWasDeletedIsNotWalked: where all keys were deleted there is a block without any, and a count does not look into the store.
func TestWhatWasDeletedIsNotWalked(t *testing.T) {
	r := newRig(t, Options{})
	r.apply(append(numbered(0, 5000), putPart("a", "1"), putPart("z", "1"))...)
	fine(t, r.m)
	r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("k"), End: []byte("l")}})
	checkRows(t, r)
	s := r.m.blocks.span([]byte("k002"), []byte("k004"))
	if s.most != 0 || s.whole || s.left || s.right {
		t.Fatalf("of nothing: %+v", s)
	}
	if n := r.m.blockCount(); n > 6 {
		t.Fatalf("%d blocks of two keys", n)
	}
	// A key that comes back there is not among all that is gone.
	r.must(putPart("k003333", "1"))
	checkRows(t, r)
	if s := r.m.blocks.span([]byte("k003"), []byte("k0033")); s.most > 1 {
		t.Fatalf("of nothing: %+v", s)
	}
}

// TestAHugeEntryInNoOrder: what one entry creates in any order is in the right blocks, which it does not keep memory for.
func TestAHugeEntryInNoOrder(t *testing.T) {
	r := newRig(t, Options{})
	r.apply(numbered(0, 3000)...)
	fine(t, r.m)
	parts := numbered(3000, 3000+maxIdleWrites+2000)
	for i := range 2000 {
		parts = append(parts, &kvpart.Part{Delete: &kvpart.DeleteRange{Key: fmt.Appendf(nil, "k%06d", i)}})
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	r.apply(parts...)
	checkRows(t, r)
	if cap(r.m.births) != 0 {
		t.Fatalf("room for %d is kept", cap(r.m.births))
	}
	fine(t, r.m)
	checkRows(t, r)
}

// TestBlocksAreBounded: with less room than they need, blocks have more keys each.
func TestBlocksAreBounded(t *testing.T) {
	r := newRig(t, Options{BlockBytes: 4 << 10})
	for i := 0; i < 40_000; i += 5000 {
		r.apply(numbered(i, i+5000)...)
		fine(t, r.m)
	}
	if b := &r.m.blocks; b.bytes > 4<<10 || b.target < 512 || r.m.blockCount() < 20 {
		t.Fatalf("%d blocks of %d keys take %d bytes", r.m.blockCount(), b.target, b.bytes)
	}
	checkRows(t, r)
}

// TestASnapshotBesideACut: a snapshot is installed while a block is being divided, and before what was found of it is taken over.
func TestASnapshotBesideACut(t *testing.T) {
	for _, walked := range []bool{false, true} {
		src := openReal(t)
		src.apply(numbered(100, 4100)...)
		r := openReal(t)
		r.apply(numbered(0, 3000)...)
		c, it, _, err := r.m.beginCut()
		if c == nil || err != nil {
			t.Fatal(c, err)
		}
		if walked {
			if err := c.walk(it, 1000); err != nil {
				t.Fatal(err)
			}
		}
		install(t, r, src)
		if !walked {
			if err = c.walk(it, 1000); !errors.Is(err, store.ErrReplaced) {
				t.Fatalf("walk: %v", err)
			}
		}
		_ = it.Close() // its store is gone
		if more, err := r.m.endCut(c, err); !more || err != nil {
			t.Fatalf("more %v, %v", more, err)
		}
		checkRows(t, r)
		fine(t, r.m)
		checkRows(t, r)
		if n := r.m.blockCount(); n < 4000/256 {
			t.Fatalf("%d blocks", n)
		}
	}
}

// openReal is a machine over the real store.
func openReal(t *testing.T) *rig {
	st, err := store.Open(t.TempDir(), store.Options{CacheBytes: 8 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return openRig(t, st, Options{})
}

// install makes r's contents those of src, as a snapshot that was received.
func install(t *testing.T, r, src *rig) {
	t.Helper()
	in, err := r.Store.Incoming()
	if err != nil {
		t.Fatal(err)
	}
	it, err := src.Store.NewIter([]byte{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err == nil {
			err = in.Set(it.Key(), v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Finish(src.Store.Applied()); err != nil {
		t.Fatal(err)
	}
	if err := r.Applier.Replace(func() error { return r.Store.Install(in) }); err != nil {
		t.Fatal(err)
	}
	r.Index = src.Store.Applied()
}

// TestFewerRowsThanCounted: if the rows are not those that the counters tell of, it is said, once, and nothing is divided.
func TestFewerRowsThanCounted(t *testing.T) {
	r := newRig(t, Options{})
	r.apply(numbered(0, 1000)...)
	b := r.Store.NewBatch()
	b.DeleteRange([]byte{letter, spaceCurrent}, []byte{letter, spaceCurrent + 1})
	if err := r.Store.Commit(b, r.Index); err != nil {
		t.Fatal(err)
	}
	if more, err := r.m.Refine(8192); more || !errors.Is(err, ErrMiscounted) {
		t.Fatalf("more %v, %v", more, err)
	}
	if more, err := r.m.Refine(8192); more || err != nil {
		t.Fatalf("again: more %v, %v", more, err)
	}
}

// TestCountsBesideWrites: entries create, delete and compact, and blocks are divided and joined. Meanwhile each count is that of the keys
// which were there at its revision.
func TestCountsBesideWrites(t *testing.T) {
	r := openReal(t)
	r.apply(numbered(0, 20_000)...)
	r.reopen(Options{})
	r.m.blocks.target, r.m.blocks.bounds.journal = 16, 20
	var over atomic.Bool
	var counts, compacted atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() { // the worker
		for !over.Load() {
			if _, err := r.m.Refine(500); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 2 {
		rnd := rand.New(rand.NewPCG(uint64(i), 2))
		wg.Go(func() { // readers
			for !over.Load() {
				a := rnd.IntN(24_000)
				key, end := fmt.Appendf(nil, "k%06d", a), fmt.Appendf(nil, "k%06d", a+rnd.IntN(3000))
				res, rev, err := r.m.Range(&kvpart.Range{Key: key, End: end, CountOnly: true}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				again := &kvpart.Range{Key: key, End: end, Revision: rev, KeysOnly: true}
				all, _, err := r.m.Range(again, 0)
				limited := *again
				limited.Limit = 1
				part, _, err2 := r.m.Range(&limited, 0)
				if errors.Is(err, ErrCompacted) || errors.Is(err2, ErrCompacted) {
					compacted.Add(1)
					continue
				}
				if err != nil || err2 != nil || int64(len(all.KVs)) != res.Count || part.Count != res.Count {
					t.Errorf("[%s, %s) at %d: %d keys were counted, %d with a limit, there were %d; %v, %v", key, end, rev, res.Count, part.Count, len(all.KVs), err, err2)
					return
				}
				counts.Add(1)
			}
		})
	}
	rnd := rand.New(rand.NewPCG(9, 9))
	for n := 0; n < 400 || counts.Load() < 500 && !t.Failed(); n++ {
		var parts []*kvpart.Part
		for range 20 {
			i := rnd.IntN(24_000)
			switch rnd.IntN(8) {
			case 0:
				parts = append(parts, &kvpart.Part{Delete: &kvpart.DeleteRange{Key: fmt.Appendf(nil, "k%06d", i), End: fmt.Appendf(nil, "k%06d", i+rnd.IntN(100))}})
			case 1:
				parts = append(parts, &kvpart.Part{Delete: &kvpart.DeleteRange{Key: fmt.Appendf(nil, "k%06d", i)}})
			default:
				parts = append(parts, putPart(fmt.Sprintf("k%06d", i), "v"))
			}
		}
		if n%20 == 19 {
			rev, _ := r.m.Revision()
			parts = append(parts, &kvpart.Part{Compact: &kvpart.Compact{Revision: rev - 5}})
		}
		r.apply(parts...)
	}
	over.Store(true)
	wg.Wait()
	fine(t, r.m)
	checkRows(t, r)
	t.Logf("%d counts, %d compacted before they were looked at again, %d blocks", counts.Load(), compacted.Load(), r.m.blockCount())
}

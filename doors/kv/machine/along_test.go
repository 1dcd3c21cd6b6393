package machine

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// loading is a store that counts lookups, and whose iterators read all blocks from the disk, or find all of them in memory.
type loading struct {
	*counted
	disk  atomic.Bool
	seeks atomic.Int64 // in history, as steps
	steps atomic.Int64
}

type loadingIter struct {
	store.Iter
	of    *loading
	loads store.Loads
}

func (l *loading) NewIter(lower, upper []byte) (store.Iter, error) {
	it, err := l.counted.NewIter(lower, upper)
	return &loadingIter{Iter: it, of: l}, err
}

type loadingView struct {
	store.View
	of *loading
}

func (l *loading) NewView() store.View { return loadingView{l.counted.NewView(), l} }

func (v loadingView) NewIter(lower, upper []byte) (store.Iter, error) {
	it, err := v.View.NewIter(lower, upper)
	return &loadingIter{Iter: it, of: v.of}, err
}

func (v loadingView) Get(dst, key []byte) ([]byte, bool, error) {
	v.of.gets.Add(1)
	return v.View.Get(dst, key)
}

func (it *loadingIter) moved() {
	it.loads.Bytes += 1000
	if it.of.disk.Load() {
		it.loads.Missed += 1000
	}
}

func (it *loadingIter) SeekGE(key []byte) bool {
	it.moved()
	if key[1] == spaceHistory {
		it.of.seeks.Add(1)
	}
	return it.Iter.SeekGE(key)
}

func (it *loadingIter) Next() bool {
	it.moved()
	ok := it.Iter.Next()
	if ok && it.Key()[1] == spaceHistory {
		it.of.steps.Add(1)
	}
	return ok
}

func (it *loadingIter) Loads() store.Loads { return it.loads }

// TestVersionsAreFoundWhereItIsCheaper: those of keys with many by an iterator as long as blocks are in memory, and by a Get each
// otherwise. Those of keys with few are found by the iterator in any case. The answer is the same.
func TestVersionsAreFoundWhereItIsCheaper(t *testing.T) {
	st := &loading{counted: &counted{Watched: &machinetest.Watched{Mem: store.NewMem()}}}
	r := openRig(t, st, Options{})
	const keys = 100
	want := map[string]string{}
	for n := range 3 * fewVersions {
		for i := range keys {
			if i%2 == 0 && n > 0 { // every other key has one version
				continue
			}
			key := fmt.Sprintf("k%03d", i)
			want[key] = long(n*keys + i)
			r.must(putPart(key, want[key]))
		}
	}
	for _, c := range []struct {
		disk       bool
		gets, most int64
	}{{disk: false, gets: lookedUp, most: lookedUp}, {disk: true, gets: keys/2 - farAfter, most: keys/2 + lookedUp}} {
		st.disk.Store(c.disk)
		before := st.gets.Load()
		res, _, err := r.m.Range(&kvpart.Range{Key: []byte("k"), End: []byte("l")}, 0)
		if err != nil || len(res.KVs) != keys {
			t.Fatal(err, res)
		}
		for _, kv := range res.KVs {
			if string(kv.Value) != want[string(kv.Key)] {
				t.Fatalf("disk %v: %s is %.20q, want %.20q", c.disk, kv.Key, kv.Value, want[string(kv.Key)])
			}
		}
		if n := st.gets.Load() - before; n < c.gets || n > c.most {
			t.Errorf("disk %v: %d lookups, want %d to %d", c.disk, n, c.gets, c.most)
		}
	}
}

// TestOldVersionsAreFoundAlongHistory: a list as it was finds what has changed since by the iterator as well, one way or the other.
func TestOldVersionsAreFoundAlongHistory(t *testing.T) {
	st := &loading{counted: &counted{Watched: &machinetest.Watched{Mem: store.NewMem()}}}
	r := openRig(t, st, Options{})
	const keys = 100
	at := map[string]int{}
	for n := range 6 {
		for i := range keys {
			r.must(putPart(fmt.Sprintf("k%03d", i), long(n*keys+i)))
			at[fmt.Sprintf("k%03d", i)] = n*keys + i
		}
	}
	rev, _ := r.m.Revision()
	for i := 0; i < keys; i += 3 {
		r.must(putPart(fmt.Sprintf("k%03d", i), long(i)))
	}
	r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("k050"), End: []byte("k060")}})
	for _, disk := range []bool{false, true} {
		st.disk.Store(disk)
		before := st.gets.Load()
		res, _, err := r.m.Range(&kvpart.Range{Key: []byte("k"), End: []byte("l"), Revision: rev}, 0)
		if err != nil || len(res.KVs) != keys {
			t.Fatal(err, res)
		}
		for _, kv := range res.KVs {
			if string(kv.Value) != long(at[string(kv.Key)]) {
				t.Fatalf("disk %v: %s is %.20q", disk, kv.Key, kv.Value)
			}
		}
		if n := st.gets.Load() - before; (n > lookedUp) != disk {
			t.Errorf("disk %v: %d lookups", disk, n)
		}
	}
}

// TestFewVersionsArePassedByMoves: from a version with two older ones to the next key's newest it takes no seek. It seeks once rows of keys
// deleted meanwhile, which the count of versions does not show, lie in between again and again. The answer is the same.
func TestFewVersionsArePassedByMoves(t *testing.T) {
	for _, lives := range []int{1, 2} {
		st := &loading{counted: &counted{Watched: &machinetest.Watched{Mem: store.NewMem()}}}
		r := openRig(t, st, Options{})
		const keys = 100
		for life := range lives {
			if life > 0 {
				r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("k"), End: []byte("l")}})
			}
			for n := range mostSteps {
				for i := range keys {
					if i%mostSteps <= n { // of one to three versions
						r.must(putPart(fmt.Sprintf("k%03d", i), long(i+n)))
					}
				}
			}
		}
		seeks, steps := st.seeks.Load(), st.steps.Load()
		res, _, err := r.m.Range(&kvpart.Range{Key: []byte("k"), End: []byte("l")}, 0)
		if err != nil || len(res.KVs) != keys {
			t.Fatal(lives, err, res)
		}
		for i, kv := range res.KVs {
			if string(kv.Value) != long(i+mostSteps-1) {
				t.Fatalf("%d lives: %s is %.20q", lives, kv.Key, kv.Value)
			}
		}
		seeks, steps = st.seeks.Load()-seeks, st.steps.Load()-steps
		if lives == 1 && seeks != 1 || lives > 1 && (seeks != keys-lookedUp || steps > shortSteps*mostSteps) {
			t.Errorf("%d lives: %d seeks, %d steps", lives, seeks, steps)
		}
	}
}

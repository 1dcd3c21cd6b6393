package machine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// A put of a key seen lately, without a waiting caller, must not allocate: this is what followers do all day.
func TestPutAllocatesNothing(t *testing.T) {
	r := newRig(t, Options{})
	r.Applier = machine.NewApplier(discard{r.Store}, r.m)
	if err := r.Applier.Load(); err != nil {
		t.Fatal(err)
	}
	var parts []*kvpart.Part
	for i := range 64 {
		parts = append(parts, putPart(fmt.Sprintf("key%d", i), "value"))
	}
	data := pack(parts...)
	apply := func() {
		r.Index++
		if err := r.Applier.Apply(r.Index, 1, data, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		apply()
	}
	// An entry may cost a few allocations (its events, the batch), a command none.
	if n := testing.AllocsPerRun(100, apply); n > 16 {
		t.Fatalf("%v allocations for 64 puts", n)
	}
}

// Readers run beside Apply and must always see whole entries: every entry here writes the same number to two keys.
func TestReadersSeeWholeEntries(t *testing.T) {
	r := newRig(t, Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	fail := func(format string, args ...any) {
		t.Errorf(format, args...)
	}
	check := func(res *kvpart.RangeResult, rev int64) {
		if len(res.KVs) == 2 && string(res.KVs[0].Value) != string(res.KVs[1].Value) {
			fail("at %d: %s and %s", rev, res.KVs[0].Value, res.KVs[1].Value)
		}
	}
	reader := func(fn func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					fn()
				}
			}
		})
	}
	reader(func() {
		res, rev, err := r.m.Range(&kvpart.Range{Key: []byte("a"), End: []byte("c")}, 0)
		if err != nil {
			fail("range: %v", err)
			return
		}
		check(res, rev)
	})
	last := int64(0)
	reader(func() {
		res, rev, err := r.m.Range(&kvpart.Range{Key: []byte("a")}, 0)
		if err != nil {
			fail("get: %v", err)
			return
		}
		// Both puts of an entry have revisions of their own; a is written first, so the key is one revision behind.
		if len(res.KVs) == 1 && res.KVs[0].ModRevision != rev-1 || rev < last {
			fail("get at %d after %d: mod %d", rev, last, res.KVs[0].ModRevision)
		}
		last = rev
	})
	reader(func() {
		cur, _ := r.m.Revision()
		if _, _, _, _, err := r.m.HashKV(cur); err != nil && !errors.Is(err, ErrCompacted) {
			fail("hash: %v", err)
		}
	})
	seen := int64(1)
	reader(func() {
		evs, upTo, ok, _ := r.m.Recent(seen)
		if !ok {
			fail("the feed lost %d", seen)
			return
		}
		for i := range evs {
			if seen++; evs[i].KV.ModRevision != seen {
				fail("event of revision %d in place of %d", evs[i].KV.ModRevision, seen)
			}
		}
		seen = upTo
	})
	for i := range 1000 {
		v := fmt.Sprint(i)
		parts := []*kvpart.Part{putPart("a", v), putPart("b", v)}
		if i%100 == 99 {
			parts = append([]*kvpart.Part{{Compact: &kvpart.Compact{Revision: int64(2 * i)}}}, parts...)
		}
		r.apply(parts...)
	}
	close(stop)
	wg.Wait()
}

func TestTooLarge(t *testing.T) {
	r := newRig(t, Options{TxnResultBytes: 1000})
	for i := range 20 {
		r.must(putPart(fmt.Sprintf("k%02d", i), strings.Repeat("v", 97)))
	}
	all := &kvpart.Range{Key: []byte("k"), End: []byte("l")}
	if _, _, err := r.m.Range(all, 20*(100+versionOverhead)-1); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("one byte more than the budget: %v", err)
	}
	var large *TooLargeError
	for _, c := range []struct {
		r     kvpart.Range
		about int64
	}{
		{*all, 20 * (100 + versionOverhead)},
		{kvpart.Range{Key: []byte("k"), End: []byte("l"), Limit: 7}, 7 * (100 + versionOverhead)},
		{kvpart.Range{Key: []byte("k"), End: []byte("l"), Revision: 21, Order: kvpart.SortDescend}, 20 * (100 + versionOverhead)},
	} {
		if _, _, err := r.m.Range(&c.r, 5*(100+versionOverhead)); !errors.As(err, &large) || !errors.Is(err, ErrTooLarge) || large.About != c.about {
			t.Errorf("%+v: %v, which is about %d, want %d", c.r, err, large.About, c.about)
		}
	}
	if res, _, err := r.m.Range(all, 20*(100+versionOverhead)); err != nil || len(res.KVs) != 20 {
		t.Fatalf("as much as the budget: %v", err)
	}
	// A limited Range sorted by another target needs to see all but hold only its answer.
	if res, _, err := r.m.Range(&kvpart.Range{Key: []byte("k"), End: []byte("l"), CountOnly: true}, 1); err != nil || res.Count != 20 {
		t.Fatalf("count: %v", err)
	}
	// A write cannot be refused for what it returns: it takes effect, and says that its answer is not complete.
	txn := r.must(&kvpart.Part{Txn: &kvpart.Txn{Then: []kvpart.Op{{Put: &kvpart.Put{Key: []byte("x")}}, {Range: all}, {Delete: &kvpart.DeleteRange{
		Key: []byte("k00"), PrevKV: true}}}}}).(*kvpart.TxnResult)
	if !txn.TooLarge || txn.Ops[0].Put == nil || txn.Ops[2].Delete.Deleted != 1 || len(txn.Ops[2].Delete.Prevs) != 0 {
		t.Fatalf("%+v", txn)
	}
}

// A sorted and limited Range over many keys keeps a bounded number of versions.
func TestSortedLimitPrunes(t *testing.T) {
	r := newRig(t, Options{})
	var parts []*kvpart.Part
	for i := range 3000 {
		parts = append(parts, putPart(fmt.Sprintf("%04d", (i*7)%3000), "v"))
	}
	r.apply(parts...)
	res, _, err := r.m.Range(&kvpart.Range{Key: []byte("0"), End: []byte{0}, Limit: 3, Order: kvpart.SortDescend, Target: kvpart.SortByMod}, 20_000)
	if err != nil || res.Count != 3000 || !res.More || len(res.KVs) != 3 || res.KVs[0].ModRevision != 3001 || res.KVs[2].ModRevision != 2999 {
		t.Fatalf("%v %s", err, show(res))
	}
}

func TestWaiting(t *testing.T) {
	r := newRig(t, Options{})
	_, _, _, changed := r.m.Recent(1)
	_, _, _, leases := r.m.LeaseChanges(0)
	r.must(putPart("a", "1"))
	select {
	case <-changed:
	default:
		t.Fatal("a put did not wake who waits for events")
	}
	select {
	case <-leases:
		t.Fatal("a put woke who waits for leases")
	default:
	}
	r.must(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: 1, TTL: 1}})
	<-leases
}

func TestStreamEndsWithItsContext(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 10 {
		r.must(putPart(fmt.Sprint(i), "v"))
	}
	boom := errors.New("boom")
	if err := r.m.RangeStream(t.Context(), &kvpart.Range{Key: []byte{0}, End: []byte{0}}, 1, func(*kvpart.RangeResult, int64) error {
		return boom
	}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
}

// A compaction of much history is spread over entries: none may take long, and each drops its piece.
func TestScrubIsSpread(t *testing.T) {
	r := newRig(t, Options{})
	const revisions = 20_000
	for i := 0; i < revisions; i += 1000 {
		var parts []*kvpart.Part
		for j := i; j < i+1000; j++ {
			parts = append(parts, putPart(fmt.Sprint(j%100), "v"))
		}
		r.Index++
		if err := r.Applier.Apply(r.Index, 1, pack(parts...), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := r.m.Size()
	r.must(&kvpart.Part{Compact: &kvpart.Compact{Revision: revisions + 1}})
	if _, _, err := r.m.Range(&kvpart.Range{Key: []byte("1"), Revision: 500}, 0); !errors.Is(err, ErrCompacted) {
		t.Fatalf("an old read right after the compaction: %v", err)
	}
	entries, slowest := 0, time.Duration(0)
	for r.Applier.Unfinished() {
		start := time.Now()
		r.ApplyData(nil, false)
		slowest = max(slowest, time.Since(start))
		if entries++; entries > revisions/scrubRowsIdle+2 {
			t.Fatal("the scrub does not end")
		}
	}
	t.Logf("%d entries of %d rows, slowest %v", entries, scrubRowsIdle, slowest)
	if r.m.Scrubbed() != revisions+1 {
		t.Fatalf("scrubbed to %d", r.m.Scrubbed())
	}
	after, inUse := r.m.Size()
	if after != inUse || before <= after {
		t.Fatalf("size %d before, %d after, %d in use", before, after, inUse)
	}
}

// A command another machine rejects leaves nothing of this one's plan behind.
func TestDroppedPlan(t *testing.T) {
	r := newRig(t, Options{})
	r.must(putPart("a", "1"))
	body := kvpart.Append(nil, &kvpart.Part{Txn: &kvpart.Txn{Then: []kvpart.Op{{Put: &kvpart.Put{Key: []byte("b")}}, {Delete: &kvpart.DeleteRange{Key: []byte("a")}}}}})
	if _, rej, err := r.m.Check(&entry.Stamp{}, body); rej != nil || err != nil {
		t.Fatal(rej, err)
	}
	res := r.must(putPart("a", "2")).(*kvpart.PutResult) // Check was not followed by Do
	if res.Revision != 3 {
		t.Fatalf("revision %d", res.Revision)
	}
	got, _, _ := r.m.Range(&kvpart.Range{Key: []byte{0}, End: []byte{0}}, 0)
	if got.Count != 1 || got.KVs[0].Version != 2 {
		t.Fatal(show(got))
	}
}

// vanishing is a store in which versions seem compacted away, but not to a View taken before.
type vanishing struct {
	store.Store
	missed int
}

func (v *vanishing) Get(dst, key []byte) ([]byte, bool, error) {
	if key[1] == spaceHistory {
		v.missed++
		return dst, false, nil
	}
	return v.Store.Get(dst, key)
}

// A value kept in history only may be overwritten and compacted while a Range is under way.
func TestRangeSurvivesCompactionUnderIt(t *testing.T) {
	v := &vanishing{Store: store.NewMem()}
	r := openRig(t, v, Options{})
	long := strings.Repeat("v", inlineBytes+1)
	r.must(putPart("a", long))
	res, _, err := r.m.Range(&kvpart.Range{Key: []byte("a"), End: []byte("b")}, 0)
	if err != nil || v.missed != 1 || string(res.KVs[0].Value) != long {
		t.Fatalf("missed %d: %v, %v", v.missed, show(res), err)
	}
}

// One delete of very many keys must not leave its traces in memory.
func TestHugeDelete(t *testing.T) {
	r := newRig(t, Options{CacheBytes: 100 * slotBytes, RecentBytes: 10_000})
	var parts []*kvpart.Part
	for i := range 1000 {
		parts = append(parts, putPart(fmt.Sprintf("%04d", i), "v"))
	}
	r.apply(parts...)
	for _, p := range parts[:50] {
		r.must(p)
	}
	res := r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte{0}, End: []byte{0}}}).(*kvpart.DeleteResult)
	if res.Deleted != 1000 {
		t.Fatalf("deleted %d", res.Deleted)
	}
	if n := r.m.cache.packed.keys; n > 100 {
		t.Fatalf("%d keys in the cache", n)
	}
	rev, _ := r.m.Revision()
	if _, upTo, ok, _ := r.m.Recent(rev - 1); ok || upTo != rev {
		t.Fatalf("the feed claims to hold the delete: up to %d", upTo)
	}
	if evs, next, err := r.m.History([]byte{0}, []byte{0}, rev, rev, 1); err != nil || len(evs) != 1000 || next != rev+1 {
		t.Fatalf("%d events, next %d, %v", len(evs), next, err)
	}
	r.must(putPart("a", "1"))
	if evs, _, ok, _ := r.m.Recent(rev); !ok || len(evs) != 1 {
		t.Fatalf("the feed does not go on: %d events", len(evs))
	}
}

package machine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestLatestIsExactOrSilent: few hashes in a table that cannot hold them all, and revisions whose last bits begin anew meanwhile. The answer for a hash is
// its last version.
func TestLatestIsExactOrSilent(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var l latest
		l.setUp(8 * 512)
		hashes := []uint32{0, 1<<latestHashBits - 1} // both ends
		for range 700 {
			hashes = append(hashes, rnd.Uint32N(1<<latestHashBits))
		}
		type version struct {
			rev int64
			sub uint32
		}
		last := map[uint32]version{}
		now := max(int64(rnd.IntN(4))<<latestRevBits-int64(rnd.IntN(5000)), 1)
		said := 0
		for range 20_000 {
			h, sub := hashes[rnd.IntN(len(hashes))], rnd.Uint32N(latestSubs+1)
			now += int64(rnd.IntN(2))
			switch rnd.IntN(4) {
			case 0:
				if table := l.table.Load(); table != nil {
					l.drop(table, h)
				}
				delete(last, h)
			default:
				l.set(h, now, sub)
				last[h] = version{now, sub}
			}
			table := l.table.Load()
			if table == nil {
				continue
			}
			q := hashes[rnd.IntN(len(hashes))]
			if rev, sub := table.find(q, now); rev != 0 {
				if said++; last[q] != (version{rev, sub}) {
					t.Fatalf("seed %d: %d.%d of hash %x, which is at %v", seed, rev, sub, q, last[q])
				}
			}
			if rnd.IntN(5000) == 0 {
				l.clear()
			}
		}
		if table := l.table.Load(); said < 4000 || table != nil && len(table.words) > 512 {
			t.Errorf("seed %d: %d answers", seed, said)
		}
	}
}

// TestLatestCountsItsWords: a table grows when it is half full, and what is dropped makes room.
func TestLatestCountsItsWords(t *testing.T) {
	var l latest
	l.setUp(1 << 20)
	rnd := rand.New(rand.NewPCG(1, 1))
	for round := range 4 {
		for rev := range int64(20_000) {
			h := rnd.Uint32N(1 << latestHashBits)
			l.set(h, rev+1, 0)
			if rev%2 == 0 {
				l.drop(l.table.Load(), h)
			}
		}
		taken := 0
		table := l.table.Load()
		for i := range table.words {
			if table.words[i].Load() != 0 {
				taken++
			}
		}
		if taken != l.taken || taken < 9_500*(round+1) || len(table.words) > 1<<17 {
			t.Fatalf("%d words of %d, counted as %d", taken, len(table.words), l.taken)
		}
	}
	l.clear()
	if l.table.Load() != nil || l.taken != 0 {
		t.Error("something is left")
	}
	var none latest
	none.setUp(100)
	none.note([]byte("k"), &meta{version: 1, mod: 2, valLen: inlineBytes + 1})
	if none.table.Load() != nil {
		t.Error("a table in no room")
	}
}

// TestLongValuesThatChange: a key with a long value is read by one lookup, and its value is the last one after any kind of change.
func TestLongValuesThatChange(t *testing.T) {
	r, st := openCounted(t)
	r.m.fewDeletes = 2
	put := func(key, value string) kvpart.Op {
		return kvpart.Op{Put: &kvpart.Put{Key: []byte(key), Value: []byte(value)}}
	}
	del := func(key, end string) *kvpart.Part {
		return &kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte(key), End: []byte(end), ByRange: end != ""}}
	}
	var others []kvpart.Op
	for i := range latestSubs + 1 {
		others = append(others, put(fmt.Sprint("j", i), "v"))
	}
	var many []*kvpart.Part
	for i := range 8 {
		many = append(many, putPart(fmt.Sprint("k", i), long(i)))
	}
	for _, step := range []struct {
		what  string
		entry []*kvpart.Part
		want  string
		gets  int64
	}{
		{"put", []*kvpart.Part{putPart("k", long(1))}, long(1), 1},
		{"another value", []*kvpart.Part{putPart("k", long(2))}, long(2), 1},
		{"a short one", []*kvpart.Part{putPart("k", "s")}, "s", 1},
		{"a long one again, after a delete in the same entry", []*kvpart.Part{del("k", ""), putPart("k", long(3))}, long(3), 1},
		{"deleted", []*kvpart.Part{del("k", "")}, "", 1},
		{"the second put of a Txn", []*kvpart.Part{{Txn: &kvpart.Txn{Then: []kvpart.Op{put("j", long(0)), put("k", long(4))}}}}, long(4), 1},
		{"the first", []*kvpart.Part{{Txn: &kvpart.Txn{Then: []kvpart.Op{put("k", long(5)), put("j", long(0))}}}}, long(5), 1},
		{"the last of more than a word can tell", []*kvpart.Part{{Txn: &kvpart.Txn{Then: append(others, put("k", long(1)))}}}, long(1), 2},
		{"two puts of one entry", []*kvpart.Part{putPart("k", "s"), putPart("k", long(6))}, long(6), 1},
		{"others around it", many, long(6), 1},
		{"put, and all deleted by range, in one entry", []*kvpart.Part{putPart("k", long(7)), del("k", "l")}, "", 1},
		{"others again", many, "", 1},
		{"those deleted by range", []*kvpart.Part{del("k", "l")}, "", 1},
		{"and put again", []*kvpart.Part{putPart("k", long(8))}, long(8), 1},
	} {
		for i, res := range r.apply(step.entry...) {
			if res.Rejection != nil {
				t.Fatalf("%s, %d: %v", step.what, i, res.Rejection)
			}
		}
		r.m.hot.Store(newHotRows(0)) // which would answer without a lookup
		if v, gets := read(t, r, st, "k"); v != step.want || gets != step.gets {
			t.Fatalf("%s: %.12q after %d lookups, want %.12q after %d", step.what, v, gets, step.want, step.gets)
		}
		want := "" // of a key that is deleted by range only
		if len(step.entry) == len(many) {
			want = long(3)
		}
		if v, _ := read(t, r, st, "k3"); v != want {
			t.Fatalf("%s: k3 has %.12q", step.what, v)
		}
	}
	r.reopen(Options{})
	if v, gets := read(t, r, st, "k"); v != long(8) || gets != 2 {
		t.Errorf("after a restart: %.12q after %d lookups", v, gets)
	}
	// A machine that is loaded from another store knows nothing of this one.
	other, _ := openCounted(t)
	other.must(putPart("k", "of another"))
	other.must(putPart("k", long(9)))
	if err := r.m.Load(other.Store, r.m.gate); err != nil {
		t.Fatal(err)
	}
	res, _, err := r.m.Range(&kvpart.Range{Key: []byte("k")}, 0)
	if err != nil || len(res.KVs) != 1 || string(res.KVs[0].Value) != long(9) {
		t.Errorf("after a snapshot: %v, %v", show(res), err)
	}
}

// TestLongReadsBesideWrites: readers who know of a revision never see an older value than that, while keys are overwritten, deleted and compacted.
func TestLongReadsBesideWrites(t *testing.T) {
	r := newRig(t, Options{HotBytes: 1})
	const keys = 40
	name := func(i int) string { return fmt.Sprintf("key %02d", i) }
	var done sync.WaitGroup
	stop := make(chan struct{})
	for seed := range uint64(2) {
		done.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				key := name(rnd.IntN(keys))
				now, _ := r.m.Revision()
				res, rev, err := r.m.Range(&kvpart.Range{Key: []byte(key)}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if rev < now {
					t.Errorf("at %d after %d", rev, now)
					return
				}
				// The same read at that revision goes through a View.
				same, _, err := r.m.Range(&kvpart.Range{Key: []byte(key), Revision: rev}, 0)
				if err != nil { // compacted since
					continue
				}
				if same.Revision = rev; show(res) != show(same) {
					t.Errorf("%s at %d: %.60s, by its revision %.60s", key, rev, show(res), show(same))
					return
				}
			}
		})
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	for step := range 3000 {
		key := name(rnd.IntN(keys))
		switch rnd.IntN(8) {
		case 0:
			r.apply(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte(key)}})
		case 1:
			r.apply(putPart(key, fmt.Sprint(step)))
		case 2:
			r.apply(putPart(key, long(step)), putPart(name(rnd.IntN(keys)), long(step)))
		case 3:
			if now, _ := r.m.Revision(); step%5 == 0 && now > 20 {
				r.apply(&kvpart.Part{Compact: &kvpart.Compact{Revision: now - 20}})
			}
		default:
			r.apply(putPart(key, long(step)))
		}
	}
	close(stop)
	done.Wait()
}

// TestAnOldVersionIsNotKeptWhileItIsReplaced: readers that passed the gate before an entry read in the middle of Publish. It changes first
// the known versions and then the kept rows. Rows that they keep then must not be taken for the new row.
func TestAnOldVersionIsNotKeptWhileItIsReplaced(t *testing.T) {
	for what, change := range map[string]*kvpart.Part{
		"a put":             putPart("k", long(2)),
		"a short value":     putPart("k", "2"),
		"a delete":          {Delete: &kvpart.DeleteRange{Key: []byte("k")}},
		"a delete by range": {Delete: &kvpart.DeleteRange{Key: []byte("a"), End: []byte("z"), ByRange: true}},
	} {
		r := newRig(t, Options{})
		r.m.fewDeletes = 1
		r.apply(putPart("k", long(1)), putPart("l", long(1)), putPart("m", long(1)))
		key := []byte("k")
		rev, _ := r.m.Revision()
		kept := 0
		r.m.noted = func() {
			for range 2 { // the second one keeps it
				_, look := r.m.hot.Load().look(key)
				at, sub := r.m.latest.find(key, rev)
				mt, value, ok, err := r.m.versionAt(key, at, sub)
				if err != nil {
					t.Error(err)
				}
				if ok {
					look.keep(key, &mt, value)
					kept++
				}
			}
		}
		r.must(change)
		now, _ := r.m.Revision()
		res, _, err := r.m.Range(&kvpart.Range{Key: key}, 0)
		if err != nil {
			t.Fatal(err)
		}
		same, _, err := r.m.Range(&kvpart.Range{Key: key, Revision: now}, 0)
		if err != nil || show(res) != show(same) {
			t.Errorf("%s: %.80s, by its revision %.80s, %v; %d kept", what, show(res), show(same), err, kept)
		}
	}
}

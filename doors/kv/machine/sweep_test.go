package machine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestASweepLeavesWhatOtherDeletesLeave deletes thousands of keys by range, with leases and values of all sizes. The entries read, count,
// put and delete among them before and afterwards. A machine that has a slot for every key must give the same answers, rows and events.
func TestASweepLeavesWhatOtherDeletesLeave(t *testing.T) {
	const keys, few = 2_000, 10
	real, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	r, twin := openRig(t, real, Options{}), newRig(t, Options{})
	r.m.fewDeletes, twin.m.fewDeletes = few, 1<<30
	rnd := rand.New(rand.NewPCG(3, 4))
	key := func(i int) []byte { return fmt.Appendf(nil, "many/%05d", i) }
	rows := func(of *rig) string {
		_, own, _ := strings.Cut(of.Dump(), "\n\"k") // in front are the applied index and the state hash, which is of the operations
		return own
	}
	both := func(parts ...*kvpart.Part) {
		t.Helper()
		rev, _ := r.m.Revision()
		got := r.apply(parts...)
		want := twin.ApplyData(pack(parts...), true)
		for i := range parts {
			if !same(got[i], want[i]) {
				t.Fatalf("%s: got %.2000s, want %.2000s", parts[i], show(got[i]), show(want[i]))
			}
		}
		evs, upTo, ok, _ := r.m.Recent(rev)
		also, upToToo, okToo, _ := twin.m.Recent(rev)
		if ok != okToo || upTo != upToToo || !same(evs, also) {
			t.Fatalf("%d recent events up to %d (%v), want %d up to %d (%v)", len(evs), upTo, ok, len(also), upToToo, okToo)
		}
	}
	sweep := func(from, to []byte) *kvpart.Part {
		return &kvpart.Part{Delete: &kvpart.DeleteRange{Key: from, End: to, ByRange: true}}
	}
	many := [2][]byte{[]byte("many/"), []byte("many0")}
	for lease := range int64(3) {
		both(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: lease + 1, TTL: 100}})
	}
	for round := range 8 {
		fill := &kvpart.Txn{}
		for i := range keys {
			if rnd.IntN(3) > 0 {
				fill.Then = append(fill.Then, kvpart.Op{Put: &kvpart.Put{Key: key(i), Value: make([]byte, rnd.IntN(2*inlineBytes)), Lease: int64(max(rnd.IntN(20)-16, 0))}})
			}
		}
		both(&kvpart.Part{Txn: fill})
		rev, _ := r.m.Revision()
		at := func() []byte { return key(rnd.IntN(keys)) }
		look := func() *kvpart.Part {
			a, b := at(), at()
			if string(a) > string(b) {
				a, b = b, a
			}
			then := rev + int64(rnd.IntN(4))
			reads := []kvpart.Op{
				{Range: &kvpart.Range{Key: a}}, {Range: &kvpart.Range{Key: a, End: b, CountOnly: true}}, {Range: &kvpart.Range{Key: a, End: b, Limit: 3}},
				{Range: &kvpart.Range{Key: a, Revision: then}}, {Range: &kvpart.Range{Key: a, End: b, CountOnly: true, Revision: then}},
				{Range: &kvpart.Range{Key: a, End: b, Limit: 3, Revision: then}},
			}
			return &kvpart.Part{Txn: &kvpart.Txn{Compare: []kvpart.Compare{{Key: a, Target: kvpart.CompareVersion, Result: kvpart.CompareEqual}},
				Then: append(reads, kvpart.Op{Put: &kvpart.Put{Key: []byte("none"), PrevKV: true}}), Else: reads}}
		}
		both(look(), putPart("before", "x"), look(), sweep(key(0), key(keys/2)), look(), look(), putPart(string(at()), "again"), look(),
			sweep(many[0], many[1]), look(), putPart(string(at()), "and again"), look(),
			&kvpart.Part{Delete: &kvpart.DeleteRange{Key: many[0], End: many[1], PrevKV: true, ByRange: true}}, putPart("behind", "x"), look())
		if rows(r) != rows(twin) {
			t.Fatalf("round %d: other rows", round)
		}
		if n, err := countOf(r.m, many[0], many[1]); err != nil || n != 0 {
			t.Fatalf("round %d: %d keys are left, %v", round, n, err)
		}
		both(&kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: []int64{int64(round%3 + 1)}}}, &kvpart.Part{Grant: &kvpart.LeaseGrant{ID: int64(round%3 + 1), TTL: 50}})
	}
	if n := len(r.m.entry.sweeps); n > 0 {
		t.Errorf("%d sweeps outlived their entry", n)
	}
	// One entry that nothing follows, with everything gone, up to the last key there can be.
	both(&kvpart.Part{Txn: &kvpart.Txn{Then: []kvpart.Op{{Put: &kvpart.Put{Key: []byte("\xff\xff")}}}}}, putPart("many/x", "put by the entry itself"), sweep([]byte{0}, []byte{0}))
	for i := range 3 * few {
		both(putPart(fmt.Sprintf("few/%03d", i), "v"))
	}
	both(sweep([]byte{0}, []byte{0}), putPart("last", "x"))
	if rows(r) != rows(twin) {
		t.Error("other rows in the end")
	}
	_, hash := r.Applier.Hash()
	if _, also := twin.Applier.Hash(); hash == also {
		t.Error("no key was swept")
	}
	if got := r.Dump(); strings.Contains(got, `"kcfew`) || !strings.Contains(got, `"kclast`) {
		t.Error("a key is left, or the one put afterwards is gone")
	}
}

func countOf(m *Machine, key, end []byte) (int64, error) {
	res, _, err := m.Range(&kvpart.Range{Key: key, End: end, CountOnly: true}, 0)
	if err != nil {
		return 0, err
	}
	return res.Count, nil
}

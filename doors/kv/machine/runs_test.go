package machine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestDeletesOfManyKeys applies entries that delete thousands of keys, in Txns that put some of them again and delete those as well. Some
// commands are rejected after such a delete. A machine with slots in runs must have the same answers and rows as one with all slots in its
// cache.
func TestDeletesOfManyKeys(t *testing.T) {
	const keys = 5_000
	real, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	r, twin := openRig(t, real, Options{}), newRig(t, Options{})
	r.m.fewDeletes, twin.m.fewDeletes = 10, 1<<30
	rnd := rand.New(rand.NewPCG(1, 2))
	key := func(i int) []byte { return fmt.Appendf(nil, "many/%05d", i) }
	put := func(i int) kvpart.Op {
		return kvpart.Op{Put: &kvpart.Put{Key: key(i), Value: make([]byte, rnd.IntN(2*laterBytes)), PrevKV: true}}
	}
	remove := func(from, to int) kvpart.Op {
		return kvpart.Op{Delete: &kvpart.DeleteRange{Key: key(from), End: key(to), PrevKV: true}}
	}
	both := func(parts ...*kvpart.Part) {
		t.Helper()
		got := r.apply(parts...)
		want := twin.ApplyData(pack(parts...), true)
		for i := range parts {
			if !same(got[i], want[i]) {
				t.Fatalf("%s: got %s, want %s", parts[i], show(got[i]), show(want[i]))
			}
		}
	}
	for round := range 6 {
		fill := &kvpart.Txn{}
		for i := range keys {
			if round == 0 || rnd.IntN(3) > 0 {
				fill.Then = append(fill.Then, put(i))
			}
		}
		both(&kvpart.Part{Txn: fill})
		at := 1 + rnd.IntN(keys/2)
		mixed := &kvpart.Txn{Then: []kvpart.Op{remove(0, at), remove(at/2, keys-10)}}
		for range 200 {
			mixed.Then = append(mixed.Then, put(rnd.IntN(keys)))
		}
		mixed.Then = append(mixed.Then, remove(at/3, keys), put(at), remove(0, keys))
		refused := &kvpart.Txn{Then: []kvpart.Op{remove(0, keys), {Put: &kvpart.Put{Key: key(7), IgnoreValue: true}}}}
		both(&kvpart.Part{Txn: refused}, &kvpart.Part{Put: &kvpart.Put{Key: key(at + 1), PrevKV: true}}, &kvpart.Part{Txn: mixed}, &kvpart.Part{Txn: refused},
			&kvpart.Part{Put: &kvpart.Put{Key: key(at), Value: []byte("after"), PrevKV: true}},
			&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("many/"), End: []byte("many0")}})
		// The delete comes to its many keys on one that only the entry has.
		both(&kvpart.Part{Txn: &kvpart.Txn{Then: []kvpart.Op{put(0), put(1), put(2), put(3), put(4), put(5), put(6), put(7), put(8), put(9), put(10)}}})
		var parts []*kvpart.Part
		for i := range 8 {
			parts = append(parts, putPart(string(key(i))+"-", "beside"))
		}
		both(append(parts, &kvpart.Part{Delete: &kvpart.DeleteRange{Key: key(0), End: key(keys)}})...)
		if got, want := r.Dump(), twin.Dump(); got != want {
			t.Fatalf("round %d: other rows", round)
		}
	}
	if at, hash := r.Applier.Hash(); true {
		if also, want := twin.Applier.Hash(); at != also || hash != want {
			t.Errorf("state hash %x at %d, want %x at %d", hash, at, want, also)
		}
	}
	if n := len(r.m.entry.runs); n > 0 {
		t.Errorf("%d runs outlived their entry", n)
	}
}

package machine

import (
	"fmt"
	"strings"
	"testing"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// long makes a value that only history has.
func long(n int) string { return strings.Repeat(fmt.Sprint(n, "."), inlineBytes) }

// TestALongValueIsReadByTwoLookups: the row of the key and the one of its version, and no View, where the newest version is unknown.
func TestALongValueIsReadByTwoLookups(t *testing.T) {
	r, st := openCounted(t)
	r.must(putPart("k", long(1)))
	r.reopen(Options{})
	for range 2 { // the second one keeps it
		if v, gets := read(t, r, st, "k"); v != long(1) || gets != 2 {
			t.Fatalf("%d lookups for %.10q", gets, v)
		}
	}
}

// TestALongValueThatIsCompactedAwayUnderItsReader: between the two lookups the key is replaced and the version compacted away.
func TestALongValueThatIsCompactedAwayUnderItsReader(t *testing.T) {
	r, st := openCounted(t)
	r.must(putPart("k", long(1)))
	r.reopen(Options{})
	st.after = func() {
		r.must(putPart("k", long(2)))
		rev, _ := r.m.Revision()
		r.must(&kvpart.Part{Compact: &kvpart.Compact{Revision: rev}})
		for r.m.Scrubbed() < rev {
			r.apply(putPart("other", "x"))
		}
	}
	res, rev, err := r.m.Range(&kvpart.Range{Key: []byte("k")}, 0)
	if err != nil || len(res.KVs) != 1 || string(res.KVs[0].Value) != long(2) || rev < res.KVs[0].ModRevision {
		t.Fatalf("at %d: %v, %v", rev, show(res), err)
	}
}

// TestATxnOfSingleKeysSeesOneState: it takes no View, and an entry may come between two of its lookups.
func TestATxnOfSingleKeysSeesOneState(t *testing.T) {
	r, st := openCounted(t)
	get := func(key string) kvpart.Op { return kvpart.Op{Range: &kvpart.Range{Key: []byte(key)}} }
	txn := &kvpart.Txn{Then: []kvpart.Op{get("a"), {Txn: &kvpart.Txn{Then: []kvpart.Op{get("b")}}}}}
	for n, v := range []string{"1", long(2), "3"} {
		if n > 0 {
			st.after = func() { r.apply(putPart("a", v), putPart("b", v)) }
		} else {
			r.apply(putPart("a", v), putPart("b", v))
		}
		res, err := r.m.Txn(txn, 0)
		if err != nil {
			t.Fatal(err)
		}
		a, b := res.Ops[0].Range.KVs[0], res.Ops[1].Txn.Ops[0].Range.KVs[0]
		if string(a.Value) != v || string(b.Value) != v || res.Revision < max(a.ModRevision, b.ModRevision) {
			t.Fatalf("at %d: a is %.9q of %d, b %.9q of %d", res.Revision, a.Value, a.ModRevision, b.Value, b.ModRevision)
		}
	}
}

// TestListsOfLongValues: keys of one version and of many, short values among them, and some that are gone. They are read in both
// directions, now and at an earlier revision, whole and in pieces.
func TestListsOfLongValues(t *testing.T) {
	r := newRig(t, Options{})
	name := func(i int) string { return fmt.Sprintf("k\x00%03d", i) }
	value := func(i, version int) string {
		if i%5 == 3 {
			return fmt.Sprint(i, version)
		}
		return long(1000*i + version)
	}
	const keys, most = 60, 2 * fewVersions
	var mid int64
	for version := 1; version <= most; version++ {
		for i := range keys {
			if i%most+1 >= version {
				r.must(putPart(name(i), value(i, version)))
			}
		}
		if version == 2 {
			mid, _ = r.m.Revision()
		}
	}
	for i := 0; i < keys; i += 7 {
		r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte(name(i))}})
	}
	check := func(q *kvpart.Range, want func(i int) (version int)) {
		t.Helper()
		q.Key, q.End = []byte("k"), []byte("l")
		res, _, err := r.m.Range(q, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for n := range keys {
			i := n
			if q.Order == kvpart.SortDescend {
				i = keys - 1 - n
			}
			version := want(i)
			if version == 0 {
				continue
			}
			if q.Limit == int64(at) && q.Limit > 0 {
				break
			}
			if kv := &res.KVs[at]; string(kv.Key) != name(i) || kv.Version != int64(version) || string(kv.Value) != value(i, version) {
				t.Fatalf("place %d has %q in version %d with %.12q", at, kv.Key, kv.Version, kv.Value)
			}
			at++
		}
		if len(res.KVs) != at {
			t.Fatalf("%d keys instead of %d", len(res.KVs), at)
		}
	}
	now := func(i int) int {
		if i%7 == 0 {
			return 0
		}
		return i%most + 1
	}
	check(&kvpart.Range{}, now)
	check(&kvpart.Range{Limit: 20}, now)
	check(&kvpart.Range{Order: kvpart.SortDescend}, now)
	check(&kvpart.Range{Revision: mid}, func(i int) int { return min(i%most+1, 2) })
}

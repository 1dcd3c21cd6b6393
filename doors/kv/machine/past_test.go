package machine

import (
	"fmt"
	"testing"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// pastRig has a hundred keys of three versions, and more changes after the revision that it returns.
func pastRig(t *testing.T) (r *rig, rev int64) {
	r = newRig(t, Options{})
	put := func(from, to int, value string) {
		var parts []*kvpart.Part
		for i := from; i < to; i++ {
			parts = append(parts, putPart(fmt.Sprintf("k%03d", i), value))
		}
		r.apply(parts...)
	}
	for _, value := range []string{"1", "2", "3"} {
		put(0, 100, value)
	}
	rev, _ = r.m.Revision()
	put(50, 150, "4")                                                                                  // half of them, and new ones
	r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("k000"), End: []byte("k010")}})        // some that were there
	r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("k140"), End: []byte("k145")}})        // some that came since
	r.must(&kvpart.Part{Txn: &kvpart.Txn{Then: []kvpart.Op{{Put: &kvpart.Put{Key: []byte("k003")}}}}}) // one is there again
	return r, rev
}

// pages reads all keys at rev by tens, and fails unless they are the hundred with their third values.
func pages(t *testing.T, r *rig, rev int64) {
	t.Helper()
	n := 0
	for key := []byte("k"); ; {
		res, _, err := r.m.Range(&kvpart.Range{Key: key, End: []byte("l"), Limit: 10, Revision: rev}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if res.Count != int64(100-n) {
			t.Fatalf("behind %d keys there are %d", n, res.Count)
		}
		for i := range res.KVs {
			if kv := &res.KVs[i]; string(kv.Key) != fmt.Sprintf("k%03d", n) || string(kv.Value) != "3" || kv.Version != 3 {
				t.Fatalf("place %d has %s", n, show(kv))
			}
			n++
		}
		if !res.More {
			break
		}
		key = append(res.KVs[len(res.KVs)-1].Key, 0)
	}
	if n != 100 {
		t.Fatalf("%d keys", n)
	}
}

// TestLaterPagesGatherNothing: what one page has gathered of the changes since serves those that follow, and what is new is added to it.
func TestLaterPagesGatherNothing(t *testing.T) {
	r, rev := pastRig(t)
	r.m.lists.keptRows = 1
	pages(t, r, rev)
	kept := r.m.lists.all()
	if len(kept) != 1 || kept[0].full || len(kept[0].keys) != 110 {
		t.Fatalf("kept: %d lists", len(kept))
	}
	pages(t, r, rev)
	if again := r.m.lists.all(); again[0] != kept[0] {
		t.Fatal("the changes were gathered again")
	}
	r.apply(putPart("k020", "5"), putPart("k060", "5")) // one that had not changed before, and one that had
	pages(t, r, rev)
	if again := r.m.lists.all(); len(again) != 1 || len(again[0].keys) != 111 || again[0].rows != 2 {
		t.Fatalf("after another change: %d lists, %d rows walked", len(again), again[0].rows)
	}
}

// TestFewChangesAreKeptBesideMany: a list that has changed in few places gathers these once. The lists that have changed in many stay kept,
// however many of the others are read.
func TestFewChangesAreKeptBesideMany(t *testing.T) {
	r, rev := pastRig(t)
	r.m.lists.keptRows = 100
	now, _ := r.m.Revision()
	read := func(rev int64) (kept []*changes) {
		if _, _, err := r.m.Range(&kvpart.Range{Key: []byte("k"), End: []byte("l"), Revision: rev}, 0); err != nil {
			t.Fatal(err)
		}
		return r.m.lists.all()
	}
	for n := range keptLists {
		for back := int64(1); back < 3 && n < keptLists-1; back++ {
			kept := read(now - back)
			if len(kept) != n+1 || !kept[0].few || kept[0].after != now-back {
				t.Fatalf("beside %d lists, the changes since revision %d are not kept", n, now-back)
			}
			if again := read(now - back); again[0] != kept[0] {
				t.Fatal("few changes were gathered again")
			}
		}
		read(rev - int64(n))
	}
	kept := read(now - 1)
	if len(kept) != keptLists {
		t.Fatalf("%d lists are kept", len(kept))
	}
	for n, c := range kept {
		if c.few || c.after != rev-int64(n) {
			t.Fatalf("place %d has the changes since revision %d, few: %v", n, c.after, c.few)
		}
	}
	r.m.lists.reset()
	read(now - 1)
	r.apply(putPart("k020", "5"))
	if kept := read(now - 1); len(kept) != 1 || !kept[0].few || kept[0].rows != 1 || kept[0].upTo != now+1 {
		t.Fatalf("after another change: %d lists, %d rows walked", len(kept), kept[0].rows)
	}
	pages(t, r, rev)
}

// TestPastListsAreBounded: for any number of lists at any number of revisions, the kept changes have a bound. Changes that would not fit
// are not held even while they are gathered.
func TestPastListsAreBounded(t *testing.T) {
	r, rev := pastRig(t)
	l := &r.m.lists
	l.keptRows = 1
	for _, most := range []int{1 << 20, 9000, 4500, 600} {
		l.most = most
		l.reset()
		for back := range int64(8) {
			for range 2 {
				if _, _, err := r.m.Range(&kvpart.Range{Key: []byte("k"), End: []byte("l"), Revision: rev - back}, 0); err != nil {
					t.Fatal(err)
				}
			}
			bytes := 0
			for _, c := range l.all() {
				bytes += c.bytes
			}
			if n := len(l.all()); n == 0 || n > keptLists || bytes > most {
				t.Fatalf("%d lists of %d bytes are kept, of %d", n, bytes, most)
			}
		}
		pages(t, r, rev)
	}
	if c, err := readChanges(r.Store, []byte("k"), []byte("l"), rev, rev+115, 1000, 600); err != nil || !c.full || cap(c.keys) != 0 {
		t.Fatalf("changes of more than 600 bytes: %+v, %v", c, err)
	}
}

// TestChangesThatWereCutAreNoList: the list that a read in the past continues may be whole while later changes do not fit. A part that did fit says
// nothing about the keys that did not, whether much or little was kept before.
func TestChangesThatWereCutAreNoList(t *testing.T) {
	cut := 0
	for _, keptRows := range []int{1, 1 << 20} {
		for most := 200; most < 12_000; most += 400 {
			r, rev := pastRig(t)
			l := &r.m.lists
			l.keptRows, l.most = keptRows, 1<<20
			pages(t, r, rev)
			if kept := l.all(); len(kept) != 1 || kept[0].full {
				t.Fatalf("%d lists are kept", len(kept))
			}
			for i := range 100 {
				r.apply(putPart(fmt.Sprintf("k%03d", (i*37)%100), "5"))
			}
			l.most = most
			pages(t, r, rev)
			pages(t, r, rev)
			kept := l.all()
			if len(kept) == 0 || kept[len(kept)-1].full {
				cut++
			}
			r.apply(putPart("k099", "6"))
			l.most = 1 << 20
			pages(t, r, rev)
		}
	}
	if cut == 0 {
		t.Error("nothing was cut: this test shows nothing")
	}
}

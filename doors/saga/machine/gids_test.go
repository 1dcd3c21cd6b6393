package machine

import (
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/bloom"
)

// counted is a store that counts the gids it is asked for.
type counted struct {
	*store.Mem
	asked int
}

func (c *counted) Get(dst, key []byte) ([]byte, bool, error) {
	if key[0] == letter && key[1] == spaceGid {
		c.asked++
	}
	return c.Mem.Get(dst, key)
}

// begin begins n transactions with gids from a number on, and returns how many are new.
func (r *rig) begin(from, n int) (fresh int) {
	r.T.Helper()
	var parts []*sagapart.Part
	for i := range n {
		parts = append(parts, &sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.Submitted, Fresh: true,
			Definition: sagapart.Definition{Gid: fmt.Sprint("g", from+i), Mode: sagapart.Msg}}})
	}
	for _, res := range r.apply(parts...) {
		if res.Rejection == nil {
			fresh++
		}
	}
	return fresh
}

// TestABeginOfANewGidReadsNothing, and one of a gid that is there is found, before, during and after the walk that follows a start.
func TestABeginOfANewGidReadsNothing(t *testing.T) {
	st := &counted{Mem: store.NewMem()}
	opt := Options{CacheBytes: 1}
	r := openRig(t, st, opt)
	const n = 3*gidWalk + 7
	if got := r.begin(0, n); got != n || st.asked > n/50 {
		t.Fatalf("%d of %d began, and %d gids were looked for", got, n, st.asked)
	}
	st.asked = 0
	r.reopen(opt)
	pieces := 0
	for ; !r.m.gids.whole; pieces++ {
		if got, want := r.begin(n+3*pieces-3, 6), 3; got != want {
			t.Fatalf("piece %d: %d began, and %d were new", pieces, got, want)
		}
	}
	if pieces != 4 || st.asked < 6*pieces {
		t.Errorf("%d rows took %d pieces, and meanwhile %d gids were looked for", n, pieces, st.asked)
	}
	for i := range n + 3*pieces {
		if r.m.gids.absent(fmt.Sprint("g", i)) {
			t.Fatalf("g%d is said to be absent", i)
		}
	}
	st.asked = 0
	if got := r.begin(10_000, 100); got != 100 || st.asked > 5 {
		t.Errorf("%d began, and %d gids were looked for", got, st.asked)
	}
}

// TestTheFilterIsMadeAnewBeforeItIsFull: gids that were forgotten leave it that way. With more than it is for it says nothing, until there
// are fewer again.
func TestTheFilterIsMadeAnewBeforeItIsFull(t *testing.T) {
	st := store.NewMem()
	most := 110_000 // of each of the two: one layer
	room := bloom.Capacity(most)
	if room != bloom.First {
		t.Fatalf("room for %d", room)
	}
	var f gidFilter
	f.reset(2*most, 0)
	kept := func(from, n int) { // n gids are in the store, from a number on
		b := st.NewBatch()
		b.DeleteRange([]byte{letter, spaceGid}, []byte{letter, spaceGid + 1})
		for i := range n {
			b.Set(appendGidKey(nil, fmt.Sprint(from+i)), appendNumber(nil, 1))
		}
		if err := st.Commit(b, st.Applied()+1); err != nil {
			t.Fatal(err)
		}
	}
	add := func(from, n, live int) {
		for i := range n {
			if i%100 == 0 {
				if err := f.walk(st, int64(live)); err != nil {
					t.Fatal(err)
				}
			}
			f.add(fmt.Sprint(from + i))
		}
	}
	add(0, room/4*3-1000, 0)
	if !f.whole || f.cursor != nil {
		t.Fatal("it is made anew long before it is full")
	}
	const live = 2000
	kept(room/4*3-live/2, live) // some of those to come too: they are there by the time of the walk
	add(room/4*3-1000, room/4, live)
	if !f.whole || f.cursor != nil || f.now.Len() > room/2 {
		t.Fatalf("with %d gids, %d of them there, it was not made anew", f.now.Len(), live)
	}
	for i := room/4*3 - live/2; i < room-1000; i++ {
		if f.absent(fmt.Sprint(i)) {
			t.Fatalf("%d is said to be absent", i)
		}
	}
	if !f.absent("0") || !f.absent("new") {
		t.Error("what is gone is still in it")
	}
	// More than it is for.
	kept(0, 10)
	add(0, 2*room, room)
	if f.whole || f.cursor != nil || f.absent("new") || f.now.Bytes()+f.next.Bytes() != 0 {
		t.Error("a filter that holds only some gids still speaks")
	}
	add(0, 1000, 10)
	if !f.whole || !f.absent("new") || f.absent("5") || f.absent("999") {
		t.Error("it did not come back")
	}
}

// TestTheEntryThatBeginsTheNextFilter: its own gids were added to the first one alone, and are in the store only after it.
func TestTheEntryThatBeginsTheNextFilter(t *testing.T) {
	st := store.NewMem()
	var f gidFilter
	f.reset(220_000, 0)
	for i := range bloom.First - 1000 {
		f.add(fmt.Sprint("old", i))
	}
	for i := range 5 {
		gid := fmt.Sprint("g", i)
		f.add(gid)
		if err := f.walk(st, 1); err != nil {
			t.Fatal(err)
		}
		b := st.NewBatch()
		b.Set(appendGidKey(nil, gid), appendNumber(nil, 1))
		if err := st.Commit(b, st.Applied()+1); err != nil {
			t.Fatal(err)
		}
	}
	if !f.whole || !f.absent("old1") {
		t.Fatal("it was not made anew")
	}
	for i := range 5 {
		if gid := fmt.Sprint("g", i); f.absent(gid) {
			t.Errorf("%s is said to be absent", gid)
		}
	}
}

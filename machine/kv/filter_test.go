package kv

import (
	"encoding/binary"
	"testing"

	"github.com/holdfastdb/holdfast/store"
)

func filterKey(i int) []byte { return binary.BigEndian.AppendUint64([]byte("key/"), uint64(i)) }

func TestFilterNeverLosesAKey(t *testing.T) {
	var f keyFilter
	f.reset(4<<20, 0)
	const n = 5 * filterFirst // into the third layer
	for i := range n {
		f.add(filterKey(i))
		f.add(filterKey(i / 2)) // a key that is deleted and put again takes no more room
	}
	for i := range n {
		if f.absent(filterKey(i)) {
			t.Fatalf("key %d of %d is said to be absent", i, n)
		}
	}
	if len(f.layers) != 3 {
		t.Fatalf("%d layers for %d keys, want 3", len(f.layers), n)
	}
	inVain := 0
	for i := n; i < 2*n; i++ {
		if !f.absent(filterKey(i)) {
			inVain++
		}
	}
	if rate := float64(inVain) / n; rate > 0.03 {
		t.Fatalf("%.1f %% of absent keys look present, want at most 3 %%", 100*rate)
	}
}

func TestFilterSaysNothingBeforeItKnowsTheStore(t *testing.T) {
	st := store.NewMem()
	b := st.NewBatch()
	const n = 3*filterWalk + 7
	for i := range n {
		b.Set(appendCurrentKey(nil, filterKey(i)), []byte{0})
	}
	if err := st.Commit(b, 1); err != nil {
		t.Fatal(err)
	}
	var f keyFilter
	f.reset(1<<20, n)
	for pieces := 1; ; pieces++ {
		if f.absent(filterKey(n - 1)) {
			t.Fatal("a stored key is said to be absent")
		}
		if err := f.walk(st); err != nil {
			t.Fatal(err)
		}
		if f.whole {
			if pieces != 4 {
				t.Fatalf("%d keys took %d pieces, want 4", n, pieces)
			}
			break
		}
		if f.absent(filterKey(n)) {
			t.Fatal("a key is said to be absent while the walk is under way")
		}
	}
	for i := range n {
		if f.absent(filterKey(i)) {
			t.Fatalf("stored key %d is said to be absent", i)
		}
	}
	if !f.absent(filterKey(n)) {
		t.Fatal("nothing is absent after the walk")
	}
}

func TestFilterGivesUpBeyondItsBudget(t *testing.T) {
	var f keyFilter
	f.reset(100<<10+filterFirst/filterBlockKeys*64, 0)
	for i := range 2 * filterFirst {
		f.add(filterKey(i))
	}
	if f.layers != nil || f.absent(filterKey(1<<30)) || f.absent(filterKey(1)) {
		t.Fatal("a filter that holds only some keys still speaks")
	}
	f.add(filterKey(2))
	if err := f.walk(nil); err != nil || f.layers != nil {
		t.Fatalf("it came back: %v", err)
	}
}

package machine

import (
	"encoding/binary"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/bloom"
)

func filterKey(i int) []byte { return binary.BigEndian.AppendUint64([]byte("key/"), uint64(i)) }

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
	f.reset(200<<10, 0)
	for i := range 2 * bloom.First {
		f.add(filterKey(i))
	}
	if f.whole || f.keys.Bytes() != 0 || f.absent(filterKey(1<<30)) || f.absent(filterKey(1)) {
		t.Fatal("a filter that holds only some keys still speaks")
	}
	f.add(filterKey(2))
	if err := f.walk(nil); err != nil || f.keys.Bytes() != 0 {
		t.Fatalf("it came back: %v", err)
	}
}

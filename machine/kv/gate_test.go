package kv

import (
	"testing"

	"github.com/holdfastdb/holdfast/store"
)

// watched calls during while a batch becomes visible.
type watched struct {
	*store.Mem
	during func()
}

func (w *watched) Commit(b store.Batch, index uint64) error {
	if w.during != nil {
		w.during()
	}
	return w.Mem.Commit(b, index)
}

// TestNobodyReadsHalfAnEntry: while an entry becomes visible nobody begins to read, whether under the lock or by the version.
func TestNobodyReadsHalfAnEntry(t *testing.T) {
	st := &watched{Mem: store.NewMem()}
	r := openRig(t, st, Options{})
	seen := false
	st.during = func() {
		seen = true
		if r.m.gate.TryRLock() {
			t.Error("a reader came in")
		}
		if _, open := r.m.gate.Version(); open {
			t.Error("the version says that the gate is open")
		}
	}
	if err := r.a.Apply(r.index+1, 1, nil, nil, nil); err != nil || !seen {
		t.Fatalf("apply: %v, seen %v", err, seen)
	}
	if !r.m.gate.TryRLock() {
		t.Fatal("readers stay out")
	}
	r.m.gate.RUnlock()
}

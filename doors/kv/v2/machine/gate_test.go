package machine

import (
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
)

// TestNobodyReadsHalfAnEntry: no read begins while an entry becomes visible, under the lock or by the version.
func TestNobodyReadsHalfAnEntry(t *testing.T) {
	st := &machinetest.Watched{Mem: store.NewMem()}
	r := openRig(t, st, Options{})
	seen := false
	st.During = func() {
		seen = true
		if r.m.gate.TryRLock() {
			t.Error("a reader came in")
		}
		if _, open := r.m.gate.Version(); open {
			t.Error("the version says that the gate is open")
		}
	}
	if r.ApplyData(nil, false); !seen {
		t.Fatal("nothing was committed")
	}
	if !r.m.gate.TryRLock() {
		t.Fatal("readers stay out")
	}
	r.m.gate.RUnlock()
}

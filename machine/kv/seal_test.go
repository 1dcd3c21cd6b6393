package kv

import "testing"

// TestSealKeepsReadersOut: between Seal and Publish nobody begins to read, whether under the lock or by the version.
func TestSealKeepsReadersOut(t *testing.T) {
	r := newRig(t, Options{})
	r.m.Seal()
	if r.m.gate.TryRLock() {
		t.Error("a reader came in")
	}
	if _, open := r.m.gate.Version(); open {
		t.Error("the version says that the gate is open")
	}
	r.m.Unseal()
	if !r.m.gate.TryRLock() {
		t.Fatal("readers stay out")
	}
	r.m.gate.RUnlock()
}

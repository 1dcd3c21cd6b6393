package ident

import (
	"testing"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
)

// TestTokensEndInOneOrder: members keep tokens in maps, and write the same rows in the same order all the same: they compare
// hashes of what they write.
func TestTokensEndInOneOrder(t *testing.T) {
	hashAfter := func() uint64 {
		r := enabled(t)
		for i := range 64 {
			r.issue("alice", uint32(i), 1000)
		}
		r.must(eident.Part{UserDelete: &eident.UserDelete{Name: "alice"}})
		_, h := r.Applier.Hash()
		return h
	}
	if a, b := hashAfter(), hashAfter(); a != b {
		t.Errorf("two members came to %016x and %016x", a, b)
	}
}

package agent

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestASetOfPagesHasWhatWasAdded, ascending and once, and nothing after it was cleared.
func TestASetOfPagesHasWhatWasAdded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s pageSet
	for range 20 {
		want := map[uint32]bool{}
		for range r.IntN(100) {
			page := []uint32{1, 63, 64, 65, 127, 128, 1 + r.Uint32N(300), 1 + r.Uint32N(100_000)}[r.IntN(8)]
			s.add(page)
			want[page] = true
		}
		var all []uint32
		for page := range want { // any order: sorted below
			all = append(all, page)
		}
		slices.Sort(all)
		if got := slices.Collect(s.All); !slices.Equal(got, all) || s.any != (len(all) > 0) {
			t.Fatalf("the set has %v, any: %v, want %v", got, s.any, all)
		}
		var first []uint32
		for page := range s.All {
			if first = append(first, page); len(first) == 2 {
				break
			}
		}
		if !slices.Equal(first, all[:min(2, len(all))]) {
			t.Fatalf("the first two are %v of %v", first, all)
		}
		s.clear()
		if got := slices.Collect(s.All); len(got) != 0 || s.any {
			t.Fatalf("a set that was cleared has %v", got)
		}
	}
}

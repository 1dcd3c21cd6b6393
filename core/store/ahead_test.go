package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestAhead walks what a plain iterator walks, over many pages and over none, and ends early.
func TestAhead(t *testing.T) {
	s := openTest(t, vfs.NewMem(), Options{})
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 50 {
		b := s.NewBatch()
		for j := range 100 {
			b.Set(fmt.Appendf(nil, "k%05d", r.IntN(20_000)), make([]byte, r.IntN(400)*(j%2)))
		}
		if err := s.Commit(b, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, bounds := range [][2]string{{"k", "l"}, {"k05000", "k15000"}, {"l", "m"}, {"k19999", "l"}} {
		plain, err := s.NewIter([]byte(bounds[0]), []byte(bounds[1]))
		if err != nil {
			t.Fatal(err)
		}
		ahead, err := s.NewAhead([]byte(bounds[0]), []byte(bounds[1]))
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for ok := plain.First(); ok; ok = plain.Next() {
			want = append(want, pairString(t, plain))
		}
		for ok := ahead.First(); ok; ok = ahead.Next() {
			got = append(got, pairString(t, ahead))
		}
		if err := ahead.Error(); err != nil || !slices.Equal(got, want) {
			t.Errorf("from %s to %s: %d rows, want %d, %v", bounds[0], bounds[1], len(got), len(want), err)
		}
		if ahead.Next() || ahead.Prev() || ahead.Error() == nil {
			t.Errorf("from %s: behind the end it goes on, or back", bounds[0])
		}
		for _, it := range []Iter{plain, ahead} {
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for rows := range 3 { // closed while the reader waits for a page
		it, err := s.NewAhead([]byte("k"), []byte("l"))
		if err != nil {
			t.Fatal(err)
		}
		for range rows {
			it.Next()
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	}
}

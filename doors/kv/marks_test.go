package kv

import (
	"math/rand/v2"
	"testing"
)

// For any marks of a history, in any order: no revision is taken for archived before its own entry is. One that was noted by itself waits
// for no other.
func TestARevisionIsArchivedWithItsEntry(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var m marks
		entryOf := []uint64{0} // of each revision; entries without one lie between
		index, archived := uint64(0), uint64(0)
		for range 3 * maxMarks {
			index += 1 + rng.Uint64N(3)
			entryOf = append(entryOf, index)
			revision := int64(len(entryOf) - 1)
			switch rng.IntN(3) {
			case 0:
				m.add(mark{revision, index})
				if got, ok := m.of(revision, archived); !ok || got != index {
					t.Fatalf("revision %d of entry %d waits for %d (%v)", revision, index, got, ok)
				}
			case 1: // looked at late, and behind another
				m.add(mark{revision, index + rng.Uint64N(3)})
				m.add(mark{max(revision-int64(rng.IntN(3)), 1), index})
			}
			if rng.IntN(50) == 0 {
				archived += rng.Uint64N(index - archived + 1)
			}
			asked := 1 + rng.Int64N(revision)
			got, ok := m.of(asked, archived)
			switch {
			case ok && got == 0 && entryOf[asked] > archived:
				t.Fatalf("revision %d of entry %d is taken for archived, at %d", asked, entryOf[asked], archived)
			case ok && got != 0 && got < entryOf[asked]:
				t.Fatalf("revision %d of entry %d waits for %d", asked, entryOf[asked], got)
			}
			if len(m.list) > maxMarks {
				t.Fatalf("%d marks", len(m.list))
			}
		}
		m.of(0, index+3)
		if len(m.list) != 0 {
			t.Fatalf("%d marks are left when all is archived", len(m.list))
		}
	}
}

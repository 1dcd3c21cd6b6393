package ship

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestNoEntryBehindAKeptSnapshotIsRemoved, wherever the log was cut: a span may go over the index of the snapshot that stays, and others lie
// beside it. What ends well before it goes.
func TestNoEntryBehindAKeptSnapshotIsRemoved(t *testing.T) {
	kept, went := 0, 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng, s := seeded(seed), objstore.NewMemory()
			const last = 200
			ends := map[uint64]uint64{}
			for range 2 { // two shippers, which cut the log each in its own way
				enc := format.NewEncoder(format.Tip{Cluster: cluster, Timeline: cluster, Last: 1}, format.MaxBytes)
				for index := uint64(2); index <= last; {
					first := index
					for n := 1 + rng.IntN(12); n > 0 && index <= last; n-- {
						e := format.Entry(node.Entry{Index: index, Term: 1, Data: make([]byte, max(0, rng.IntN(330)-300))})
						if ok, err := enc.Append(e); err != nil || !ok {
							t.Fatal(ok, err)
						}
						index++
					}
					name, b := enc.Finish(7)
					if s.PutIfAbsent(t.Context(), objstore.Object{Name: name, Data: b}) == nil {
						ends[first] = index - 1
					}
				}
			}
			keep := uint64(2 + rng.IntN(last))
			m := newMember(newHistory())
			if err := newTerm(New(m, s, Options{}), 1).removeLog(keep); err != nil {
				t.Fatal(err)
			}
			there, lowest := map[uint64]bool{}, uint64(last)+1
			for first, end := range ends {
				if _, ok := s.Objects()[format.SpanName(cluster, first)]; !ok {
					went++
					if end > keep {
						t.Errorf("seed %d: entries %d to %d are removed, the snapshot at %d stays", seed, first, end, keep)
					}
					continue
				}
				kept++
				lowest = min(lowest, first)
				for i := first; i <= end; i++ {
					there[i] = true
				}
			}
			for i := lowest; i <= last; i++ {
				if !there[i] {
					t.Fatalf("seed %d: what is left from %d on has no entry %d", seed, lowest, i)
				}
			}
		})
	}
	if kept < 500 || went < 300 {
		t.Errorf("%d spans are left and %d went: this test shows nothing", kept, went)
	}
}

// TestASnapshotIsThereWhenItsLogIs: its pieces may be put before, and its manifest may not. A leader that dies in between leaves entries that
// every member has, and that never get to the archive, if the next one begins behind that snapshot.
func TestASnapshotIsThereWhenItsLogIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, memory := newHistory(), objstore.NewMemory()
		s := &noSpans{Memory: memory}
		m := newMember(h)
		w := run(t, m, s, Options{SnapshotBytes: 10 << 10})
		m.Lead(h.elect())
		time.Sleep(2 * time.Second)
		w.mu.Lock()
		term := w.term
		w.mu.Unlock()
		s.refuse.Store(true)
		h.add(20, 1000)
		time.Sleep(2 * time.Second)
		term.mu.Lock()
		term.shipped += 1 << 20 // as much was shipped before: a snapshot is due while the newest entries are on their way
		term.mu.Unlock()
		term.poke()
		time.Sleep(time.Minute)
		pieces := 0
		for l := range memory.List(t.Context(), format.AllPiecesName(cluster), "") {
			if l.Name > format.PiecesName(cluster, m.ArchivedIndex()+1) {
				pieces++
			}
		}
		if n := len(roots(t, memory)); n != 1 || pieces == 0 {
			t.Errorf("%d snapshots, %d pieces of a new one, and its log is not archived", n, pieces)
		}
		s.refuse.Store(false)
		time.Sleep(time.Minute)
		if all := roots(t, memory); len(all) != 2 || m.ArchivedIndex() != h.last() {
			t.Errorf("snapshots at %v, archived %d of %d", all, m.ArchivedIndex(), h.last())
		}
	})
}

package ship

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestNoEntryBehindAKeptSnapshotIsRemoved, wherever the log was cut: a span may go over the index of the snapshot that stays, and others lie
// beside it. A span that ends well before the snapshot goes.
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

// tiny are the objects of spans of the least entries there are, from entry 2 on; each has so many.
func tiny(t *testing.T, counts ...int) (all []objstore.Object) {
	t.Helper()
	enc := format.NewEncoder(format.Tip{Cluster: cluster, Timeline: cluster, Last: 1}, format.MaxBytes)
	index := uint64(2)
	for _, n := range counts {
		for range n {
			if ok, err := enc.Append(format.Entry(node.Entry{Index: index, Term: 1})); err != nil || !ok {
				t.Fatal(ok, err)
			}
			index++
		}
		name, b := enc.Finish(7)
		all = append(all, objstore.Object{Name: name, Data: b})
	}
	return all
}

// TestASpanThatEndsWithTheSnapshotGoes: the snapshot has its last entry. One that may go over it stays, and so does all behind it.
func TestASpanThatEndsWithTheSnapshotGoes(t *testing.T) {
	all := tiny(t, 3, 1, 4) // entries 2 to 4, 5, 6 to 9
	for keep, left := range map[uint64]int{1: 3, 2: 3, 3: 3, 4: 2, 5: 1, 6: 1, 8: 1, 9: 0, 10: 0} {
		s := objstore.NewMemory()
		if err := s.Put(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		if err := newTerm(New(newMember(newHistory()), s, Options{}), 1).removeLog(keep); err != nil {
			t.Fatal(err)
		}
		if n := len(s.Objects()); n != left {
			t.Errorf("with a snapshot at %d there are %d spans left, want %d", keep, n, left)
		}
	}
}

// TestManySpansGoPageByPage: all of them, and each page that is listed and each object that is removed counts as a request.
func TestManySpansGoPageByPage(t *testing.T) {
	counts := make([]int, 2*pageSize+1)
	for i := range counts {
		counts[i] = 1
	}
	s := objstore.NewMemory()
	if err := s.Put(t.Context(), tiny(t, counts...)...); err != nil {
		t.Fatal(err)
	}
	w := New(newMember(newHistory()), s, Options{})
	if err := newTerm(w, 1).removeLog(uint64(len(counts)) + 1); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Objects()); n != 0 {
		t.Errorf("%d spans are left", n)
	}
	if want, got := uint64(3+len(counts)), w.Status().Total; got != want {
		t.Errorf("%d requests, want %d", got, want)
	}
}

// TestAListIsAskedForPageByPage: a full page is followed by another one, and each is a request.
func TestAListIsAskedForPageByPage(t *testing.T) {
	for _, n := range []int{0, 1, pageSize - 1, pageSize, pageSize + 1, 2*pageSize + 1} {
		counts := make([]int, n)
		for i := range counts {
			counts[i] = 1
		}
		s := objstore.NewMemory()
		if err := s.Put(t.Context(), tiny(t, counts...)...); err != nil {
			t.Fatal(err)
		}
		w := New(newMember(newHistory()), s, Options{})
		all, err := newTerm(w, 1).list(format.TimelineName(cluster), "")
		if err != nil || len(all) != n {
			t.Errorf("of %d objects %d are listed, %v", n, len(all), err)
		}
		if want, got := uint64(n/pageSize+1), w.Status().Total; got != want {
			t.Errorf("%d requests for %d objects, want %d", got, n, want)
		}
	}
}

// TestTheSnapshotsThatStay: as many as KeepCount says, and the newest that is as old as KeepAge, with all the log behind it. Where no
// snapshot can go, the log before the oldest one stays too, and no manifest is read.
func TestTheSnapshotsThatStay(t *testing.T) {
	for name, c := range map[string]struct {
		ages []time.Duration // of snapshots at entries 10, 20, …
		left []uint64
		log  uint64 // the first entry that is left of it
		read int    // manifests
	}{
		"none":                        {nil, nil, 2, 0},
		"one that is old":             {[]time.Duration{9 * time.Hour}, []uint64{10}, 2, 0},
		"two that are old":            {[]time.Duration{9 * time.Hour, 8 * time.Hour}, []uint64{10, 20}, 2, 0},
		"three that are old":          {[]time.Duration{9 * time.Hour, 8 * time.Hour, 7 * time.Hour}, []uint64{20, 30}, 21, 1},
		"the second as old as needed": {[]time.Duration{9 * time.Hour, time.Hour, 0, 0}, []uint64{20, 30, 40}, 21, 2},
		"the second a moment younger": {[]time.Duration{9 * time.Hour, time.Hour - 1, 0, 0}, []uint64{10, 20, 30, 40}, 2, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			memory := objstore.NewMemory()
			counts := make([]int, 48)
			for i := range counts {
				counts[i] = 1
			}
			if err := memory.Put(t.Context(), tiny(t, counts...)...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(24 * time.Hour)
			for i, age := range c.ages {
				_, err := restore.PutSnapshot(t.Context(), memory, format.Manifest{Cluster: cluster, Timeline: cluster, Term: 1,
					Index: uint64(i+1) * 10, WallNs: time.Now().Add(-age).UnixNano()}, strings.NewReader("a state"), nil)
				if err != nil {
					t.Fatal(err)
				}
			}
			s := count(memory)
			if err := newTerm(New(newMember(newHistory()), s, Options{KeepAge: time.Hour}), 1).pruned(); err != nil {
				t.Fatal(err)
			}
			if got := roots(t, memory); !slices.Equal(got, c.left) {
				t.Errorf("%s: snapshots at %v are left, want %v", name, got, c.left)
			}
			if n := s.of("get"); n != c.read {
				t.Errorf("%s: %d manifests were read, want %d", name, n, c.read)
			}
			pieces, log := 0, uint64(0)
			for object := range memory.Objects() {
				if strings.HasPrefix(object, format.AllPiecesName(cluster)) {
					pieces++
				}
				if _, first, ok := format.ParseSpanName(object); ok && (log == 0 || first < log) {
					log = first
				}
			}
			if pieces != len(c.left) || log != c.log {
				t.Errorf("%s: pieces of %d snapshots are left, and the log from %d on; want %d, and %d", name, pieces, log, len(c.left), c.log)
			}
		})
	}
}

// TestASnapshotIsThereWhenItsLogIs: its pieces may be put before, and its manifest may not. A leader that dies in between leaves entries
// that every member has. They never get to the archive if the next one begins behind that snapshot.
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

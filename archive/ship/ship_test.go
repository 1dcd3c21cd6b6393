package ship

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestALogIsShipped: an archive begins with a snapshot, has every entry behind it, and says so.
func TestALogIsShipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), objstore.NewMemory()
		m := newMember(h)
		h.add(5, 100)
		w := run(t, m, s, Options{})
		m.Lead(h.elect())
		time.Sleep(2 * time.Second)
		h.add(1000, 100)
		time.Sleep(2 * time.Second)
		begin := roots(t, s)
		if len(begin) != 1 || begin[0] < 6 {
			t.Fatalf("snapshots at %v", begin)
		}
		if last := chain(t, s, h, begin[0]); last != h.last() || m.ArchivedIndex() != last {
			t.Errorf("archived up to %d, %d is said, the log has %d", last, m.ArchivedIndex(), h.last())
		}
		st := w.Status()
		if !st.Leads || st.Entries != 0 || st.Bytes != 0 || st.Seconds != 0 || st.Alarm != "" || st.Snapshot.Index != begin[0] {
			t.Errorf("%+v", st)
		}
		// It is kept from the last look on: the first upload a minute later has the store looked at.
		if at := m.kept(); at > begin[0]+1 {
			t.Errorf("the log is kept from %d, the store was looked at at %d", at, begin[0])
		}
		time.Sleep(time.Minute)
		h.add(1, 100)
		time.Sleep(2 * time.Second)
		if at := m.kept(); at != h.last()+1 {
			t.Errorf("the log is kept from %d, it has %d", at, h.last())
		}
	})
}

// TestAnIdleServerAsksNothing of its store, and ten writes a second without waiting callers take one upload a second.
func TestAnIdleServerAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, memory := newHistory(), objstore.NewMemory()
		s, m := count(memory), newMember(h)
		run(t, m, s, Options{})
		m.Lead(h.elect())
		time.Sleep(time.Minute)
		before := s.all()
		time.Sleep(12 * time.Hour)
		if n := s.all() - before; n != 0 {
			t.Errorf("%d requests in half a day without a write", n)
		}
		before = s.all()
		for range 600 {
			h.add(1, 100)
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.all() - before; n > 72 {
			t.Errorf("%d requests in a minute of ten writes a second", n)
		}
		if chain(t, memory, h, roots(t, memory)[0]) < h.last()-20 {
			t.Error("the archive lies further behind than an interval")
		}
	})
}

// TestWhoWaitsIsNotKeptWaiting: a span is closed 2 ms after the last entry, or 8 ms after the first. Uploads begin 10 ms apart, and no more
// than eight are in flight. Without waiting callers, the interval passes.
func TestWhoWaitsIsNotKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, memory := newHistory(), objstore.NewMemory()
		slow := objstore.NewFaulty(memory, 1, task.Goroutines{}, objstore.Faults{})
		s, m := count(slow), newMember(h)
		run(t, m, s, Options{})
		m.Lead(h.elect())
		time.Sleep(2 * time.Second)
		wait := func(index uint64) time.Duration {
			began := time.Now()
			m.want(index)
			for m.ArchivedIndex() < index {
				time.Sleep(100 * time.Microsecond)
			}
			return time.Since(began)
		}
		h.add(1, 100)
		if d := wait(h.last()); d < quiet || d > 2*quiet {
			t.Errorf("one entry was waited for %s", d)
		}
		h.add(1, 100)
		began := time.Now()
		until(t, "nobody waits", func() bool { return m.ArchivedIndex() == h.last() })
		if d := time.Since(began); d < 900*time.Millisecond {
			t.Errorf("an entry that nobody waited for was archived after %s", d)
		}
		// Entries come every millisecond, each with a waiting caller; the store takes up to 70 ms.
		slow.Set(objstore.Faults{Delay: 70 * time.Millisecond})
		for range 1000 {
			h.add(1, 100)
			m.want(h.last())
			time.Sleep(time.Millisecond)
			if at := m.ArchivedIndex(); at+150 < h.last() {
				t.Fatalf("%d is archived of %d", at, h.last())
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.most > flights {
			t.Errorf("%d uploads at a time", s.most)
		}
		for i, at := range s.starts[1:] {
			if d := at.Sub(s.starts[i]); i > 3 && d < apart {
				t.Errorf("two uploads %s apart", d)
			}
		}
		if n := len(s.starts); n < 50 || n > 110 {
			t.Errorf("%d uploads in a second", n)
		}
	})
}

// TestAStoreThatFailsLosesNothing, with any faults of requests: each entry is in the archive once, in its place.
func TestAStoreThatFailsLosesNothing(t *testing.T) {
	failed := 0
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			h, memory, rng := newHistory(), objstore.NewMemory(), seeded(seed)
			s := objstore.NewFaulty(memory, seed, task.Goroutines{},
				objstore.Faults{Refused: 0.1, Before: 0.1, After: 0.1, Repeated: 0.1, Delay: 300 * time.Millisecond})
			m := newMember(h)
			w := run(t, m, s, Options{Memory: 1})
			m.Lead(h.elect())
			for range 50 {
				h.add(rng.IntN(30), rng.IntN(20_000))
				if rng.IntN(2) == 0 {
					m.want(h.last())
				}
				time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			}
			until(t, "all is archived", func() bool { return m.ArchivedIndex() == h.last() })
			if last := chain(t, memory, h, roots(t, memory)[0]); last != h.last() {
				t.Errorf("seed %d: the archive ends at %d of %d", seed, last, h.last())
			}
			if st := w.Status(); st.Alarm != "" {
				t.Error(st.Alarm)
			}
			if _, total := w.requests.made(); total > uint64(len(memory.Objects())) {
				failed++
			}
		})
	}
	if failed == 0 {
		t.Error("nothing failed: this test shows nothing")
	}
}

// TestWhileTheStoreIsDown little is held, the log is kept, and all of it goes when the store is back. The member has forgotten the state
// hashes of so long ago by then: later entries have them.
func TestWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s, said := newHistory(), objstore.NewMemory(), &lines{}
		m := newMember(h)
		w := run(t, m, s, Options{Memory: 1, Logger: said.logger()}) // spans of 256 KiB
		m.Lead(h.elect())
		time.Sleep(3 * time.Second)
		s.Fail(errDown)
		at := m.ArchivedIndex()
		for range 100 {
			h.add(200, 1000)
			time.Sleep(time.Second)
		}
		st := w.Status()
		if st.Archived != at || st.Entries != 20_000 || st.Seconds < 99 || st.Seconds > 101 || st.Failing == "" || st.Flight > flights {
			t.Errorf("%+v", st)
		}
		if st.Bytes < 19<<20 || st.Bytes > 22<<20 {
			t.Errorf("%d bytes are not archived, it says", st.Bytes)
		}
		w.mu.Lock()
		held := 0
		w.term.mu.Lock()
		for _, u := range w.term.flight {
			held += len(u.data)
		}
		w.term.mu.Unlock()
		w.mu.Unlock()
		if most := flights * spanLeast; held > most {
			t.Errorf("%d bytes are held, of %d", held, most)
		}
		m.mu.Lock()
		kept := m.retained
		m.mu.Unlock()
		if kept != at+1 {
			t.Errorf("the log is kept from %d, archived is %d", kept, at)
		}
		s.Fail(nil)
		until(t, "the store is back", func() bool { return m.ArchivedIndex() == h.last() })
		if last := chain(t, s, h, roots(t, s)[0]); last != h.last() {
			t.Errorf("the archive ends at %d of %d", last, h.last())
		}
		time.Sleep(time.Second)
		if st := w.Status(); st.Failing != "" || st.Entries != 0 {
			t.Errorf("%+v\n%s", st, said)
		}
	})
}

// TestALogThatIsGoneIsClosedOverByASnapshot: what was lost is said, and the log goes on behind.
//
// A part read before it went cannot be archived either, if it ends with no known state hash.
func TestALogThatIsGoneIsClosedOverByASnapshot(t *testing.T) {
	for _, memory := range []uint64{4096, 1} {
		t.Run(fmt.Sprint("remembers ", memory), func(t *testing.T) { goneLog(t, memory) })
	}
}

// goneLog is that for a member which remembers so many state hashes.
func goneLog(t *testing.T, memory uint64) {
	synctest.Test(t, func(t *testing.T) {
		h, s, said := newHistory(), objstore.NewMemory(), &lines{}
		m := newMember(h)
		m.memory = memory
		w := run(t, m, s, Options{Logger: said.logger()})
		m.Lead(h.elect())
		time.Sleep(3 * time.Second)
		h.add(10, 100)
		time.Sleep(3 * time.Second)
		s.Fail(errDown)
		for range 30 { // 60 MB and more: not all of it is on its way
			h.add(100, 20_000)
			time.Sleep(time.Second)
		}
		m.truncate(h.last() - 1)
		s.Fail(nil)
		time.Sleep(time.Minute)
		h.add(10, 100)
		time.Sleep(3 * time.Second)
		all := roots(t, s)
		if len(all) != 2 || m.ArchivedIndex() != h.last() {
			t.Fatalf("snapshots at %v, archived %d of %d\n%s", all, m.ArchivedIndex(), h.last(), said)
		}
		if last := chain(t, s, h, all[0]); last >= all[1] {
			t.Errorf("nothing is missing before the snapshot at %d", all[1])
		}
		if last := chain(t, s, h, all[1]); last != h.last() {
			t.Errorf("behind the gap the archive ends at %d of %d", last, h.last())
		}
		first := format.SpanName(cluster, all[1]+1)
		if span, err := format.DecodeSpan(first, s.Objects()[first]); err != nil || span.Before != (format.Hash{}) {
			t.Errorf("the log goes on behind the gap with %+v, %v", span, err)
		}
		if st := w.Status(); st.Gaps != 1 || st.Alarm != "" {
			t.Errorf("%+v", st)
		}
	})
}

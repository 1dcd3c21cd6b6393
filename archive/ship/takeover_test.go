package ship

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestTwoShippersMakeOneArchive: members of one cluster take turns in leading, and one goes on shipping for a while after it was deposed.
// Each stops now and then and comes back without any memory, and the store fails uploads in every way. Neither stops for good, nothing is
// said to be archived that is not, and the chain has every entry.
func TestTwoShippersMakeOneArchive(t *testing.T) {
	both, beside := 0, 0
	for seed := uint64(0); seed < 40 || beside == 0 && seed < 800; seed++ { // goroutines take turns as they like: some runs have none beside others
		synctest.Test(t, func(t *testing.T) {
			h, memory, rng := newHistory(), objstore.NewMemory(), seeded(seed)
			s := objstore.NewFaulty(memory, seed, task.Goroutines{},
				objstore.Faults{Refused: 0.05, Before: 0.05, After: 0.1, Repeated: 0.1, Delay: 400 * time.Millisecond})
			opt := Options{Memory: 1, Interval: 50 * time.Millisecond}
			type server struct {
				m *testMember
				w *Worker
			}
			start := func() *server {
				m := newMember(h)
				return &server{m, run(t, m, s, opt)}
			}
			all := []*server{start(), start()}
			deposed := -1 // leads without knowing better
			for range 12 {
				next := rng.IntN(len(all))
				if deposed = 1 - next; rng.IntN(2) == 0 {
					all[deposed].m.Lead(0)
				}
				heard := all[deposed].m.ArchivedIndex()
				all[next].m.SetArchived(heard) // the others were told
				all[next].m.Lead(h.elect())
				for range 1 + rng.IntN(20) {
					h.add(rng.IntN(8), rng.IntN(3000))
					for _, x := range all {
						if rng.IntN(3) == 0 {
							x.m.want(h.last())
						}
						x.m.mu.Lock()
						x.m.behind = uint64(rng.IntN(3))
						x.m.mu.Unlock()
						if at, has := x.m.ArchivedIndex(), roots(t, memory); len(has) > 0 && at > 0 {
							if last := chain(t, memory, h, has[0]); last < at && !covers(t, memory, h, has, at) {
								t.Fatalf("seed %d: %d is said to be archived, the chain ends at %d", seed, at, last)
							}
						}
					}
					time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				}
				if rng.IntN(2) == 0 {
					all[deposed].m.Lead(0)
				} else {
					both++
				}
				if i := rng.IntN(4); i < len(all) { // this one is killed and started again
					all[i].m.Stop()
					all[i] = start()
					if i == next {
						all[i].m.Lead(h.elect())
					}
				}
			}
			for _, x := range all {
				x.m.mu.Lock()
				x.m.behind = 0
				x.m.mu.Unlock()
			}
			all[0].m.Lead(h.elect())
			all[1].m.Lead(0)
			until(t, "all is archived", func() bool { return all[0].m.ArchivedIndex() == h.last() || all[0].w.stopped() != nil })
			for _, x := range all {
				if err := x.w.stopped(); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			has := roots(t, memory)
			if !covers(t, memory, h, has, h.last()) {
				t.Errorf("seed %d: the log up to %d is not in the archive", seed, h.last())
			}
			last := uint64(0)
			for name, b := range memory.Objects() {
				if _, _, ok := format.ParseSpanName(name); !ok {
					continue
				}
				if _, err := format.DecodeSpan(name, b); err != nil {
					t.Error(err)
				}
			}
			for l := range memory.List(t.Context(), format.TimelineName(cluster), "") {
				if span, err := format.DecodeSpan(l.Name, memory.Objects()[l.Name]); err == nil {
					if span.First <= last {
						beside++
					}
					last = max(last, span.Last)
				}
			}
		})
	}
	if both == 0 || beside == 0 {
		t.Errorf("two shipped at a time %d times, %d spans lie beside others: this test shows nothing", both, beside)
	}
}

// covers reports whether the archive has the log up to an index, from one of its snapshots on.
func covers(t *testing.T, s *objstore.Memory, h *history, roots []uint64, index uint64) bool {
	for _, root := range roots {
		if root >= index || chain(t, s, h, root) >= index {
			return true
		}
	}
	return false
}

// TestANewLeaderGoesOnWhereTheArchiveEnds, with few requests if it has heard how far that is, and with one per span if not. Nothing behind
// a hole is taken for archived.
func TestANewLeaderGoesOnWhereTheArchiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, memory := newHistory(), objstore.NewMemory()
		first := newMember(h)
		run(t, first, memory, Options{})
		first.Lead(h.elect())
		for range 100 {
			time.Sleep(time.Second)
			h.add(3, 500)
		}
		time.Sleep(2 * time.Second)
		first.Lead(0)
		root := roots(t, memory)[0]

		s, second := count(memory), newMember(h)
		second.SetArchived(first.ArchivedIndex())
		run(t, second, s, Options{})
		before := h.last()
		second.Lead(h.elect())
		time.Sleep(2 * time.Second)
		if second.ArchivedIndex() != h.last() || s.of("get") > 6 || s.of("list") > 4 {
			t.Errorf("archived %d of %d, with %v", second.ArchivedIndex(), h.last(), s.kinds)
		}
		second.Lead(0)

		// Three of the newest spans never arrived, one behind them did.
		var names []string
		for l := range memory.List(t.Context(), format.TimelineName(cluster), "") {
			if _, _, ok := format.ParseSpanName(l.Name); ok {
				names = append(names, l.Name)
			}
		}
		hole := names[len(names)-5 : len(names)-2]
		if err := memory.Delete(t.Context(), hole...); err != nil {
			t.Fatal(err)
		}
		_, end, _ := format.ParseSpanName(hole[0])
		third := newMember(h)
		s = count(memory)
		run(t, third, s, Options{})
		third.Lead(h.elect())
		until(t, "the new leader has found the end", func() bool { return third.ArchivedIndex() > 0 })
		if at := third.ArchivedIndex(); at < end-1 {
			t.Errorf("%d is archived, and the new leader begins at %d", end-1, at)
		}
		time.Sleep(2 * time.Second)
		if last := chain(t, memory, h, root); last != h.last() || third.ArchivedIndex() != last || last <= before {
			t.Errorf("the archive ends at %d, %d is said, the log has %d", last, third.ArchivedIndex(), h.last())
		}
		if n := s.of("get"); n > len(names)+5 {
			t.Errorf("%d objects were read of %d", n, len(names))
		}
	})
}

// TestAnotherHistoryStopsTheShippingAlone: a clone goes its own way. Of the two one at least finds entries that are not its own, names the
// object and both places, and ships nothing more. The other one goes on, unless it has met the first one's uploads in flight.
func TestAnotherHistoryStopsTheShippingAlone(t *testing.T) {
	wentOn := 0
	for _, knows := range []bool{false, true} { // whether the clone has heard how far the archive was
		for seed := range uint64(20) {
			synctest.Test(t, func(t *testing.T) {
				h, memory, rng := newHistory(), objstore.NewMemory(), seeded(seed)
				s := objstore.NewFaulty(memory, seed, task.Goroutines{}, objstore.Faults{After: 0.1, Repeated: 0.1, Delay: 30 * time.Millisecond})
				type side struct {
					h    *history
					m    *testMember
					w    *Worker
					said lines
				}
				begin := func(h *history) *side {
					x := &side{h: h, m: newMember(h)}
					x.w = run(t, x.m, s, Options{Interval: 20 * time.Millisecond, Logger: x.said.logger()})
					return x
				}
				one := begin(h)
				one.m.Lead(h.elect())
				h.add(20, 100)
				time.Sleep(time.Second)
				clone := begin(h.fork("clone"))
				if knows {
					clone.m.SetArchived(one.m.ArchivedIndex())
				}
				one.m.Lead(h.elect()) // both were stopped and copied; both are elected in the same term, with the same empty entry
				h.add(1, 100)
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
				clone.m.Lead(clone.h.elect())
				for range 50 {
					h.add(rng.IntN(4), 100)
					clone.h.add(rng.IntN(4), 100)
					time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
				}
				time.Sleep(time.Minute)
				for i, x := range []*side{one, clone} {
					other := []*side{clone, one}[i]
					err := x.w.stopped()
					if err == nil {
						wentOn++
						if other.w.stopped() == nil {
							t.Fatalf("seed %d: two histories were shipped to one archive", seed)
						}
						x.h.add(5, 100)
						time.Sleep(time.Minute)
						if last := chain(t, memory, x.h, roots(t, memory)[0]); last != x.h.last() || x.m.ArchivedIndex() != last {
							t.Errorf("seed %d: the archive ends at %d of %d, %d is said", seed, last, x.h.last(), x.m.ArchivedIndex())
						}
						continue
					}
					for _, part := range []string{format.TimelineName(cluster) + "/0", "@3", "member 2 of cluster 1", "another history"} {
						if !strings.Contains(err.Error(), part) {
							t.Errorf("%q is not in the alarm %q", part, err)
						}
					}
					if st := x.w.Status(); st.Alarm != err.Error() || strings.Count(x.said.String(), "level=ERROR") != 1 {
						t.Errorf("%+v\n%s", st, &x.said)
					}
					at := x.m.ArchivedIndex()
					x.h.add(10, 100)
					time.Sleep(time.Minute)
					if x.m.ArchivedIndex() != at {
						t.Error("it goes on")
					}
				}
			})
		}
	}
	if wentOn < 20 {
		t.Errorf("the other one went on in %d runs of 40", wentOn)
	}
}

// TestAStoreThatKeepsNoConditionIsRefused before anything is put there.
func TestAStoreThatKeepsNoConditionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, memory, said := newHistory(), objstore.NewMemory(), &lines{}
		m := newMember(h)
		w := run(t, m, careless{memory}, Options{Logger: said.logger()})
		m.Lead(h.elect())
		time.Sleep(time.Minute)
		if st := w.Status(); !strings.Contains(st.Alarm, "condition") || !strings.Contains(said.String(), "level=ERROR") {
			t.Errorf("%+v", st)
		}
		if n := len(memory.Objects()); n != 0 {
			t.Errorf("%d objects", n)
		}
	})
}

// TestHalfAnObjectStopsTheShipping with its name: the other half cannot be known any more.
func TestHalfAnObjectStopsTheShipping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, memory := newHistory(), objstore.NewMemory()
		s := objstore.NewFaulty(memory, 1, task.Goroutines{}, objstore.Faults{})
		m := newMember(h)
		w := run(t, m, s, Options{})
		m.Lead(h.elect())
		time.Sleep(3 * time.Second)
		s.Set(objstore.Faults{Half: 0.6})
		at := h.last()
		for w.stopped() == nil {
			at = m.ArchivedIndex()
			h.add(10, 100)
			time.Sleep(time.Minute)
		}
		if err := w.stopped(); !strings.Contains(err.Error(), format.SpanName(cluster, at+1)) {
			t.Error(err)
		}
		if m.ArchivedIndex() != at {
			t.Errorf("%d is said to be archived, %d is", m.ArchivedIndex(), at)
		}
	})
}

// TestANameThatIsTakenIsRead: another shipper of the same history has cut the log elsewhere. This one continues after the other's spans, once it
// has applied their entries itself. Until then it says that nothing is archived.
func TestANameThatIsTakenIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), objstore.NewMemory()
		m := newMember(h)
		run(t, m, s, Options{})
		m.Lead(h.elect())
		time.Sleep(2 * time.Second)
		h.add(1, 100)
		time.Sleep(2 * time.Second)
		at := h.last()
		name := format.SpanName(cluster, at)
		before, err := format.DecodeSpan(name, s.Objects()[name])
		if err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		m.behind = 3
		m.mu.Unlock()
		h.add(5, 100)
		other := format.NewEncoder(before.Tip(), format.MaxBytes)
		for _, e := range h.entries[at-1:] {
			if ok, err := other.Append(format.Entry(e)); err != nil || !ok {
				t.Fatal(err)
			}
		}
		object := objstore.Object{}
		object.Name, object.Data = other.Finish(h.stateAt(h.last()))
		if err := s.PutIfAbsent(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := m.ArchivedIndex(); got != at {
			t.Errorf("%d is said to be archived, before this member could compare what is there behind %d", got, at)
		}
		m.mu.Lock()
		m.behind = 0
		m.mu.Unlock()
		h.add(3, 100)
		time.Sleep(5 * time.Second)
		h.add(3, 100)
		time.Sleep(5 * time.Second)
		if last := chain(t, s, h, roots(t, s)[0]); last != h.last() || m.ArchivedIndex() != last {
			t.Errorf("the archive ends at %d, %d is said, the log has %d", last, m.ArchivedIndex(), h.last())
		}
	})
}

// TestAnArchiveThatWasBegunTwice, by two members each behind a snapshot of its own, has two hashes of one history. The shipper that meets a
// link of the other chain puts a snapshot and continues behind that. A link of another state is of another history.
func TestAnArchiveThatWasBegunTwice(t *testing.T) {
	for _, same := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h, s := newHistory(), objstore.NewMemory()
			m := newMember(h)
			w := run(t, m, s, Options{})
			m.Lead(h.elect())
			time.Sleep(2 * time.Second)
			h.add(3, 100)
			time.Sleep(2 * time.Second)
			at := h.last()
			h.add(5, 100)
			other := format.NewEncoder(format.Tip{Cluster: cluster, Timeline: cluster, Last: at, Term: 1, Hash: format.Hash{1}}, format.MaxBytes)
			for _, e := range h.entries[at-1:] {
				if ok, err := other.Append(format.Entry(e)); err != nil || !ok {
					t.Fatal(err)
				}
			}
			state := h.stateAt(h.last())
			if !same {
				state++
			}
			object := objstore.Object{}
			object.Name, object.Data = other.Finish(state)
			if err := s.PutIfAbsent(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			h.add(3, 100)
			time.Sleep(5 * time.Second)
			all := roots(t, s)
			if !same {
				if w.stopped() == nil || len(all) != 1 || m.ArchivedIndex() != at {
					t.Errorf("of another state: %v, snapshots at %v, archived %d", w.stopped(), all, m.ArchivedIndex())
				}
				return
			}
			if w.stopped() != nil || len(all) != 2 || chain(t, s, h, all[1]) != h.last() || m.ArchivedIndex() != h.last() {
				t.Errorf("%v, snapshots at %v, archived %d of %d", w.stopped(), all, m.ArchivedIndex(), h.last())
			}
		})
	}
}

// TestALeaderThatKnowsNothingBeginsAtASnapshot, and not at the first span it finds. The one behind the snapshot was in flight when the
// previous leader died, and later ones were there.
func TestALeaderThatKnowsNothingBeginsAtASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), objstore.NewMemory()
		m := newMember(h)
		run(t, m, s, Options{})
		m.Lead(h.elect())
		for range 10 {
			time.Sleep(2 * time.Second)
			h.add(3, 100)
		}
		time.Sleep(2 * time.Second)
		m.Stop()
		root := roots(t, s)[0]
		if err := s.Delete(t.Context(), format.SpanName(cluster, root+1)); err != nil {
			t.Fatal(err)
		}
		next := newMember(h)
		run(t, next, s, Options{})
		next.Lead(h.elect())
		time.Sleep(5 * time.Second)
		if last := chain(t, s, h, root); last != h.last() || next.ArchivedIndex() != last || len(roots(t, s)) != 1 {
			t.Errorf("the archive ends at %d, %d is said, the log has %d", last, next.ArchivedIndex(), h.last())
		}
	})
}

// TestAMemberThatFollowsKeepsItsLog from the last look of the leader on, as far as it has heard: the next leader goes on from there. A leader
// that does not answer changes nothing; one of a build that looks at nothing is believed.
func TestAMemberThatFollowsKeepsItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), count(objstore.NewMemory())
		m := newMember(h)
		run(t, m, s, Options{})
		h.add(100, 10)
		time.Sleep(time.Minute)
		if at := m.kept(); at != 0 { // all of it, by the configuration
			t.Errorf("before it has heard anything, it keeps its log from %d", at)
		}
		says := func(answer string, err error) {
			m.OnCall(func(service string, _ []byte) ([]byte, error) {
				if service != placeService {
					t.Errorf("the leader is asked for %s", service)
				}
				return []byte(answer), err
			})
		}
		for _, c := range []struct {
			at     uint64
			answer string
			err    error
			kept   uint64
		}{
			{10, "", errors.New("call archive.place: no such service"), 11},
			{20, "", node.ErrNoLeader, 11},
			{20, `{"looked":0}`, nil, 11},
			{20, `{"looked":15}`, nil, 16},
			{30, `{"looked":30}`, nil, 31},
			{30, "", node.ErrNoLeader, 31},
			{50, `{"looked":60}`, nil, 51},
		} {
			says(c.answer, c.err)
			m.SetArchived(c.at)
			time.Sleep(2 * askAfter)
			if got := m.kept(); got != c.kept {
				t.Errorf("archived is %d, the leader says %q %v, and the log is kept from %d, want %d", c.at, c.answer, c.err, got, c.kept)
			}
		}
		if n := s.all(); n != 0 {
			t.Errorf("a follower made %d requests", n)
		}
	})
}

// TestACloneThatIsBehindWaits with entries it cannot compare yet. The archive has an entry that this member has yet to write otherwise; it
// was elected with the same empty entry as its original.
func TestACloneThatIsBehindWaits(t *testing.T) {
	for _, knows := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h, s := newHistory(), objstore.NewMemory()
			m := newMember(h)
			run(t, m, s, Options{})
			m.Lead(h.elect())
			h.add(10, 100)
			time.Sleep(3 * time.Second)
			other := h.fork("clone")
			clone := newMember(other)
			if knows {
				clone.SetArchived(m.ArchivedIndex())
			}
			m.Lead(h.elect())
			h.add(5, 100)
			time.Sleep(3 * time.Second)
			at := h.last()
			m.Stop()
			w := run(t, clone, s, Options{})
			clone.Lead(other.elect())
			time.Sleep(3 * time.Second)
			other.add(20, 100) // beyond what is archived of the first
			time.Sleep(time.Minute)
			if w.stopped() == nil {
				t.Error("two histories were shipped to one archive")
			}
			if last := chain(t, s, h, roots(t, s)[0]); last != at {
				t.Errorf("the archive ends at %d, it had %d", last, at)
			}
		})
	}
}

// TestALeaderThatFindsAllOfItMissesNothing: the archive ends exactly where the members were told, and nothing is said to be lost.
func TestALeaderThatFindsAllOfItMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s, said := newHistory(), objstore.NewMemory(), &lines{}
		first := newMember(h)
		run(t, first, s, Options{})
		first.Lead(h.elect())
		h.add(5, 100)
		time.Sleep(3 * time.Second)
		first.Stop()
		if first.ArchivedIndex() != h.last() {
			t.Fatalf("archived %d of %d", first.ArchivedIndex(), h.last())
		}
		second := newMember(h)
		second.SetArchived(h.last())
		run(t, second, s, Options{Logger: said.logger()})
		second.Lead(h.elect())
		time.Sleep(3 * time.Second)
		if second.ArchivedIndex() != h.last() || strings.Contains(said.String(), "not in the archive") {
			t.Errorf("archived %d of %d\n%s", second.ArchivedIndex(), h.last(), said)
		}
	})
}

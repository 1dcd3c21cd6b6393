package ship

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/objstore"
)

// spansOf are the objects of a log, cut off at the ends named, from a tip on.
func spansOf(t *testing.T, h *history, tip format.Tip, ends ...uint64) (all []objstore.Object) {
	t.Helper()
	enc := format.NewEncoder(tip, format.MaxBytes)
	for _, last := range ends {
		for index := enc.Tip().Last + 1; index <= last; index++ {
			if ok, err := enc.Append(format.Entry(h.entries[index-2])); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		name, b := enc.Finish(h.stateAt(last))
		all = append(all, objstore.Object{Name: name, Data: b})
	}
	return all
}

// behind is where a log begins behind a snapshot.
func behind(index uint64) format.Tip {
	return format.Tip{Cluster: cluster, Timeline: cluster, Last: index}
}

// stored is a store with objects.
func stored(t *testing.T, all ...objstore.Object) *objstore.Memory {
	t.Helper()
	s := objstore.NewMemory()
	if err := s.Put(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	return s
}

// putSnapshot puts a snapshot at an index.
func putSnapshot(t *testing.T, s objstore.Store, h *history, index uint64) {
	t.Helper()
	_, err := restore.PutSnapshot(t.Context(), s, format.Manifest{Cluster: cluster, Timeline: cluster, Term: 1, Index: index,
		State: h.stateAt(index), WallNs: time.Now().UnixNano()}, strings.NewReader("a state"), nil)
	if err != nil {
		t.Fatal(err)
	}
}

// TestALinkOfAnotherBeginningIsNotAcknowledged: two members have begun one archive, each behind its own snapshot. One span of the second
// chain never arrived. The next leader was told the end of the first chain, and finds a span of the second chain there. No restore can read
// that span, from neither snapshot.
func TestALinkOfAnotherBeginningIsNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory()
		h.add(20, 10)
		second := spansOf(t, h, behind(3), 4, 8)
		s := stored(t, append(spansOf(t, h, behind(1), 4), second[1])...)
		for _, index := range []uint64{1, 3} {
			putSnapshot(t, s, h, index)
		}
		if _, err := objstore.Identity(t.Context(), s, IdentityName, true); err != nil {
			t.Fatal(err)
		}
		m := newMember(h)
		m.SetArchived(4)
		w := run(t, m, s, Options{})
		m.Lead(h.elect())
		time.Sleep(5 * time.Second)
		if at, has := m.ArchivedIndex(), roots(t, s); at != h.last() || !covers(t, s, h, has, at) {
			t.Errorf("%d of %d is said to be archived, and no restore gets there from the snapshots at %v: %+v", at, h.last(), has, w.Status())
		}
	})
}

// TestALinkOfAnotherBeginningThatIsWhole: the second chain has all of its spans, and a restore reads it from the second snapshot on. The next
// leader continues that chain, and needs no snapshot.
func TestALinkOfAnotherBeginningThatIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory()
		h.add(20, 10)
		s := stored(t, append(spansOf(t, h, behind(1), 4), spansOf(t, h, behind(3), 4, 8)...)...)
		for _, index := range []uint64{1, 3} {
			putSnapshot(t, s, h, index)
		}
		if _, err := objstore.Identity(t.Context(), s, IdentityName, true); err != nil {
			t.Fatal(err)
		}
		m := newMember(h)
		m.SetArchived(4)
		w := run(t, m, s, Options{})
		m.Lead(h.elect())
		time.Sleep(5 * time.Second)
		if at, has := m.ArchivedIndex(), roots(t, s); at != h.last() || len(has) != 2 || !covers(t, s, h, has, at) || w.Status().Gaps != 0 {
			t.Errorf("%d of %d is said to be archived, with snapshots at %v: %+v", at, h.last(), has, w.Status())
		}
	})
}

// TestTheEndBehindWhatIsKnown: the archive ends with the last span that is reached by name. A span with another hash before it is no link.
func TestTheEndBehindWhatIsKnown(t *testing.T) {
	h := newHistory()
	h.add(20, 10)
	all := spansOf(t, h, behind(1), 4, 8, 11)
	third := spansOf(t, h, format.Tip{Cluster: cluster, Timeline: cluster, Last: 8, Term: 1, Hash: format.Hash{1}}, 11)
	b, err := newTerm(New(newMember(h), stored(t, all...), Options{}), 1).from(4, false)
	if err != nil || b.tip.Last != 11 || b.newest != all[2].Name {
		t.Errorf("%+v, %v", b, err)
	}
	for _, c := range []struct{ known, memory uint64 }{{4, 4096}, {8, 4096}, {8, 0}} { // a leader that has forgotten the state raises no alarm
		m := newMember(h)
		m.memory = c.memory
		b, err := newTerm(New(m, stored(t, all[0], all[1], third[0]), Options{}), 1).from(c.known, false)
		if !errors.Is(err, errTwoBeginnings) {
			t.Errorf("from %d on, with a span of another beginning behind 8: %+v, %v", c.known, b, err)
		}
	}
}

package ship

import (
	"errors"
	"slices"
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

// TestTheObjectThatHasAnEntry: a span is found by an entry in it, whether it begins far before the entry, at it, or before spans of other
// shippers. The search ends after mostOver of those.
func TestTheObjectThatHasAnEntry(t *testing.T) {
	h := newHistory()
	h.add(3100, 10)
	beside := func(n uint64) (all []objstore.Object) { // a span of entries 2 to 100, and n of one entry each behind entry 59
		ends := []uint64{59}
		for i := range n {
			ends = append(ends, 60+i)
		}
		return append(spansOf(t, h, behind(1), 100), spansOf(t, h, behind(1), ends...)[1:]...)
	}
	for name, c := range map[string]struct {
		all   []objstore.Object
		index uint64
		root  bool   // there is a snapshot
		first uint64 // of the span; 0: none is found
	}{
		"the end of a span":                 {spansOf(t, h, behind(1), 4, 8, 11), 8, false, 5},
		"the middle of one":                 {spansOf(t, h, behind(1), 4, 8, 11), 6, false, 5},
		"the first entry of one":            {spansOf(t, h, behind(1), 4, 8, 11), 5, false, 5},
		"a span of one entry":               {spansOf(t, h, behind(1), 4, 5, 11), 5, false, 5},
		"behind all of them":                {spansOf(t, h, behind(1), 4, 8, 11), 12, false, 0},
		"behind all, and there a snapshot":  {spansOf(t, h, behind(1), 4, 8, 11), 12, true, 0},
		"nothing":                           {nil, 12, false, 0},
		"a hole":                            {slices.Delete(spansOf(t, h, behind(1), 4, 8, 11), 1, 2), 6, false, 0},
		"a span that began long before":     {spansOf(t, h, behind(1), 3000), 2500, false, 2},
		"one beside it":                     {beside(1), 100, false, 2},
		"as many beside it as may be":       {beside(mostOver - 1), 100, false, 2},
		"more beside it":                    {beside(mostOver), 100, false, 0},
		"more beside it, and a snapshot":    {beside(mostOver), 100, true, 0},
		"as many beside it, and a snapshot": {beside(mostOver - 1), 100, true, 2},
	} {
		b, err := newTerm(New(newMember(h), stored(t, c.all...), Options{}), 1).upTo(c.index, c.root)
		newest := format.SpanName(cluster, c.first)
		if c.first == 0 {
			newest = format.ManifestName(cluster, c.index)
		}
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case b == nil:
			if c.first > 0 || c.root {
				t.Errorf("%s: none is found", name)
			}
		case c.first == 0 && !c.root || b.tip.Last != c.index || b.newest != newest:
			t.Errorf("%s: entry %d in %s is found, want %d in %s", name, b.tip.Last, b.newest, c.index, newest)
		}
	}
}

// TestManySpansAreLookedThroughPageByPage: the last span is found, and each page of a list counts as a request.
func TestManySpansAreLookedThroughPageByPage(t *testing.T) {
	counts := make([]int, 2*pageSize+5)
	for i := range counts {
		counts[i] = 1
	}
	w := New(newMember(newHistory()), stored(t, tiny(t, counts...)...), Options{})
	found, err := newTerm(w, 1).lastBetween(1, 2*pageSize+1)
	if err != nil || found != 2*pageSize+1 {
		t.Errorf("the last span begins with entry %d, %v", found, err)
	}
	if got := w.Status().Total; got != 3 {
		t.Errorf("%d requests for two pages and a little more, want 3", got)
	}
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

// TestTheEndOfAnArchiveThatNobodyKnows: shipping continues behind the last entry that a restore reaches. It continues behind a snapshot only
// if the log has lost the next entry. Else the entries before the snapshot would never get to the archive.
func TestTheEndOfAnArchiveThatNobodyKnows(t *testing.T) {
	h := newHistory()
	h.add(20, 10) // up to entry 21
	whole := spansOf(t, h, behind(1), 4, 8, 11)
	span, manifest := func(first uint64) string { return format.SpanName(cluster, first) }, func(index uint64) string { return format.ManifestName(cluster, index) }
	for name, c := range map[string]struct {
		all       []objstore.Object
		snapshots []uint64
		gone      uint64 // the log has dropped entries up to this one
		last      uint64 // 0: there is no end
		newest    string
	}{
		"spans behind a snapshot":                        {whole, []uint64{1}, 1, 11, span(9)},
		"a snapshot alone":                               {nil, []uint64{8}, 1, 8, manifest(8)},
		"spans before the newest snapshot":               {whole[:1], []uint64{1, 8}, 1, 4, span(2)},
		"the log begins behind these spans":              {whole[:1], []uint64{1, 8}, 4, 4, span(2)},
		"the log has lost what comes next":               {whole[:1], []uint64{1, 8}, 5, 8, manifest(8)},
		"spans up to the snapshot, a log without more":   {whole[:2], []uint64{1, 8}, 9, 8, span(5)},
		"a hole before the newest snapshot":              {[]objstore.Object{whole[0], whole[2]}, []uint64{1, 8}, 1, 11, span(9)},
		"a span that goes over the only snapshot":        {whole[1:2], []uint64{5}, 1, 8, span(5)},
		"a span that begins with the snapshot and ends":  {spansOf(t, h, behind(4), 5), []uint64{5}, 1, 5, span(5)},
		"spans behind a hole behind the only snapshot":   {whole[2:], []uint64{4}, 1, 4, manifest(4)},
		"the same, and the log does not have the hole":   {whole[2:], []uint64{4}, 6, 4, manifest(4)},
		"spans, and no snapshot":                         {whole, nil, 1, 0, ""},
		"spans before the newest of three, a hole after": {[]objstore.Object{whole[0], whole[2]}, []uint64{1, 3, 6}, 1, 4, span(2)},
	} {
		s := stored(t, c.all...)
		m, last := newMember(h), &taken{}
		m.truncate(c.gone)
		if n := len(c.snapshots); n > 0 {
			last = &taken{index: c.snapshots[n-1], term: 1}
		}
		b, err := newTerm(New(m, s, Options{}), 1).endOf(c.snapshots, last, 0, 0)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case b == nil:
			if c.last > 0 {
				t.Errorf("%s: there is no end, want %d", name, c.last)
			}
		case b.tip.Last != c.last || b.newest != c.newest:
			t.Errorf("%s: it ends with entry %d in %s, want %d in %s", name, b.tip.Last, b.newest, c.last, c.newest)
		}
	}
}

// TestTheNewestEntryIsComparedToo: a member compares every entry of a span that it has applied, the last one included. It compares the rest
// later.
func TestTheNewestEntryIsComparedToo(t *testing.T) {
	h := newHistory()
	h.add(9, 10)
	other := h.fork("clone")
	h.add(1, 10) // entry 11, which the two have otherwise
	other.add(1, 10)
	for behind, want := range map[uint64]bool{0: true, 1: false} {
		o := spansOf(t, h, format.Tip{Cluster: cluster, Timeline: cluster, Last: 8}, 11)[0]
		span, err := format.DecodeSpan(o.Name, o.Data)
		if err != nil {
			t.Fatal(err)
		}
		m := newMember(other)
		m.behind = behind
		err = newTerm(New(m, objstore.NewMemory(), Options{}), 1).compare(span, false)
		var found *otherHistory
		if errors.As(err, &found) != want {
			t.Errorf("with %d entries that are not applied: %v", behind, err)
		}
	}
}

// TestWhatFollowsOtherEntriesIsNamed: the alarm names the first entry of the span, before which the two histories differ.
func TestWhatFollowsOtherEntriesIsNamed(t *testing.T) {
	h := newHistory()
	h.add(20, 10)
	before := format.Tip{Cluster: cluster, Timeline: cluster, Last: 8, Term: 1, Hash: format.Hash{1}}
	term := newTerm(New(newMember(h), objstore.NewMemory(), Options{}), 1)
	err := term.joins("an object", cluster, format.Hash{2}, &before, format.Tip{Cluster: cluster, Last: 11, Term: 1}, h.stateAt(11)+1)
	if err == nil || !strings.Contains(err.Error(), "before 9@1") {
		t.Errorf("behind entry 8: %v", err)
	}
}

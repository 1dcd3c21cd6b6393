package ship

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/objstore"
)

// hasRead returns a term whose archive ends with entry 1. The term has read these entries of the log, and has cut no span yet.
func hasRead(w *Worker, entries []node.Entry) *term {
	term := newTerm(w, 1)
	term.reset(format.Tip{Cluster: cluster, Timeline: cluster, Last: 1})
	term.reading = &batch{done: true, entries: entries, cancel: func() {}}
	term.absorb()
	return term
}

// TestWhereASpanEnds: a span ends with the last entry that has room. It ends earlier at the entry of a snapshot, so that a restore from that
// snapshot begins with a new object. An entry that is larger than a span gets a span of its own.
func TestWhereASpanEnds(t *testing.T) {
	h := newHistory()
	h.add(12, 100) // entries 2 to 13, of one size
	cost := len(h.entries[0].Data) + entryCharge
	for name, c := range map[string]struct {
		room int // bytes of a span
		mark uint64
		last uint64
	}{
		"three have room":                {3 * cost, 0, 4},
		"a byte too little for three":    {3*cost - 1, 0, 3},
		"four have room":                 {4*cost + 1, 0, 5},
		"the first one is larger":        {cost - 1, 0, 2},
		"all have room":                  {100 * cost, 0, 13},
		"a snapshot before":              {5 * cost, 1, 6},
		"a snapshot at the first one":    {5 * cost, 2, 2},
		"a snapshot at another one":      {5 * cost, 4, 4},
		"a snapshot at the last one":     {5 * cost, 6, 6},
		"a snapshot behind the last one": {5 * cost, 7, 6},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &noSpans{Memory: objstore.NewMemory()}
			s.refuse.Store(true) // the upload stays on its way
			w := New(newMember(h), s, Options{})
			w.span = c.room
			term := hasRead(w, h.entries)
			defer term.end()
			term.mark = c.mark
			if !term.cut() || len(term.flight) != 1 {
				t.Fatalf("%s: %d spans", name, len(term.flight))
			}
			u := term.flight[0]
			if u.before.Last != 1 || u.own.Last != c.last || term.enc.Tip() != u.own {
				t.Errorf("%s: entries %d to %d are cut off, want 2 to %d", name, u.before.Last+1, u.own.Last, c.last)
			}
			span, err := format.DecodeSpan(u.name, u.data)
			if err != nil || span.Last != c.last || span.State != h.stateAt(c.last) {
				t.Errorf("%s: the object is %+v, %v", name, span, err)
			}
			left := int(h.last() - c.last)
			if len(term.pending) != left || term.bytes != left*cost || left > 0 && term.pending[0].Index != c.last+1 {
				t.Errorf("%s: %d entries of %d bytes are left", name, len(term.pending), term.bytes)
			}
			// The stamps of entries in the span are dropped. A stamp behind the span may be the only one that can close the next span.
			var stamps []uint64
			for index := uint64(1); index <= 10; index += 3 {
				if index > c.last {
					stamps = append(stamps, index)
				}
			}
			var kept []uint64
			for _, s := range term.stamps {
				kept = append(kept, s.index)
			}
			if !slices.Equal(kept, stamps) {
				t.Errorf("%s: the stamps of entries %v are kept, want %v", name, kept, stamps)
			}
			time.Sleep(time.Hour)
			term.mu.Lock()
			if term.active != 1 {
				t.Errorf("%s: %d uploads are counted", name, term.active)
			}
			term.mu.Unlock()
		})
	}
}

// TestWhatASpanIsClosedWith: a span is closed with the state hash after its last entry. Where the member has forgotten that hash, the span
// ends at the last stamped entry that has room. If there is none, it ends at the first stamped one beyond. The hash of another entry would
// stop every restore.
func TestWhatASpanIsClosedWith(t *testing.T) {
	h := newHistory()
	h.add(30, 10)
	for name, c := range map[string]struct {
		n      int      // entries that have room, of entries 10 to 20
		behind uint64   // entries that were not applied
		memory uint64   // state hashes that the member remembers
		stamps []uint64 // entries
		last   uint64   // 0: none is known
	}{
		"it is remembered":                          {5, 0, 4096, nil, 14},
		"it is remembered, and another one stamped": {5, 0, 4096, []uint64{12}, 14},
		"nothing is known":                          {5, 0, 0, nil, 0},
		"stamps within, one at the end":             {5, 0, 0, []uint64{12, 14}, 14},
		"one within, one beyond":                    {5, 0, 0, []uint64{12, 16}, 12},
		"two beyond":                                {5, 0, 0, []uint64{16, 18}, 16},
		"the first entry":                           {5, 0, 0, []uint64{10}, 10},
		"an entry before":                           {5, 0, 0, []uint64{9}, 0},
		"an entry before, and one within":           {5, 0, 0, []uint64{9, 13}, 13},
		"the last entry that was read":              {5, 0, 0, []uint64{20}, 20},
		"an entry that was not read":                {5, 0, 0, []uint64{21}, 0},
		"the newest is remembered":                  {5, 11, 1, nil, 20},
		"a stamp comes before the newest":           {5, 11, 1, []uint64{17}, 17},
		"all that was read, and it is remembered":   {11, 11, 1, nil, 20},
		"all that was read, and it is forgotten":    {11, 0, 1, nil, 0},
	} {
		m := newMember(h)
		m.memory, m.behind = c.memory, c.behind
		term := newTerm(New(m, objstore.NewMemory(), Options{}), 1)
		term.pending = h.entries[8:19]
		for _, index := range c.stamps {
			term.stamps = append(term.stamps, stamp{index, h.stateAt(index)})
		}
		n, want, state := 0, 0, uint64(0)
		if c.last > 0 {
			want, state = int(c.last-10)+1, h.stateAt(c.last)
		}
		n, hash, err := term.stateAfter(c.n)
		if err != nil || n != want || hash != state {
			t.Errorf("%s: %d entries with state %x, %v; want %d with %x", name, n, hash, err, want, state)
		}
	}
}

// TestWhichStampsAreKept: the term keeps each stamped hash once, in the order of the index. Entries without a stamp, entries of raft and
// damaged entries add none.
func TestWhichStampsAreKept(t *testing.T) {
	stamped := func(index, hash uint64) node.Entry {
		return node.Entry{Term: 1, Data: entry.AppendHeader(nil, entry.Header{WallNs: 10 + int64(index), HashIndex: index, Hash: hash})}
	}
	other := stamped(9, 90)
	other.Type = 1
	entries := []node.Entry{stamped(0, 0), stamped(5, 50), stamped(5, 50), {Term: 2}, stamped(4, 40), other, {Term: 2, Data: []byte{0xff}}, stamped(7, 70)}
	bytes := 0
	for i := range entries {
		entries[i].Index = uint64(i) + 2
		bytes += len(entries[i].Data) + entryCharge
	}
	term := hasRead(New(newMember(newHistory()), objstore.NewMemory(), Options{}), entries)
	if want := []stamp{{5, 50}, {7, 70}}; !slices.Equal(term.stamps, want) {
		t.Errorf("%v, want %v", term.stamps, want)
	}
	if term.wallNs != 17 || term.bytes != bytes || term.next != 10 || len(term.pending) != len(entries) {
		t.Errorf("time %d, %d bytes of %d entries, %d is read next", term.wallNs, term.bytes, len(term.pending), term.next)
	}
}

// TestTheTimeOfAnEntry: an entry has the time of its header. An entry without a header counts as written with the newest one that was read.
func TestTheTimeOfAnEntry(t *testing.T) {
	head := entry.AppendHeader(nil, entry.Header{WallNs: 55})
	for name, c := range map[string]struct {
		e    node.Entry
		want int64
	}{
		"a command":           {node.Entry{Data: head}, 55},
		"the empty entry":     {node.Entry{}, 77},
		"a membership change": {node.Entry{Type: 1, Data: head}, 77},
		"a damaged one":       {node.Entry{Data: head[:3]}, 77},
	} {
		term := newTerm(New(newMember(newHistory()), objstore.NewMemory(), Options{}), 1)
		term.wallNs = 77
		if got := term.wallOf(c.e); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestAFullSpanReadsNoMore: a full span bounds what is held of the log. The term reads beyond it only to find a state hash.
func TestAFullSpanReadsNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		bytes        int // beyond a span
		further, gap bool
		reads        bool
	}{
		"a byte of room":             {-1, false, false, true},
		"full":                       {0, false, false, false},
		"more than full":             {1, false, false, false},
		"full without a state hash":  {0, true, false, true},
		"the log has nothing behind": {-1, false, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := New(newMember(newHistory()), objstore.NewMemory(), Options{})
			term := newTerm(w, 1)
			defer term.end()
			term.next, term.bytes, term.further, term.gap = 2, w.span+c.bytes, c.further, c.gap
			if term.read(); (term.reading != nil) != c.reads {
				t.Errorf("%s: reads %v", name, term.reading != nil)
			}
		})
	}
}

// TestAGapIsClosedOnlyBehindWhatIsOnItsWay: the snapshot over a gap waits for the spans in flight before it. The log line names the first
// entry that was lost, which is the one behind the last archived entry.
func TestAGapIsClosedOnlyBehindWhatIsOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		gap, rooting bool
		flight       int
		begins       bool
	}{
		"no gap":                  {false, false, 0, false},
		"a gap":                   {true, false, 0, true},
		"a span is on its way":    {true, false, 1, false},
		"the snapshot is put":     {true, true, 0, false},
		"no gap, and a span goes": {false, false, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, s, said := newHistory(), objstore.NewMemory(), &lines{}
			h.add(20, 10)
			w := New(newMember(h), s, Options{Logger: said.logger()})
			term := newTerm(w, 1)
			term.tip.Last, term.gap, term.rooting, term.flight = 7, c.gap, c.rooting, make([]*upload, c.flight)
			if wait, due := term.due(0); due || wait >= 0 {
				t.Errorf("%s: without an entry a span is due in %s, %v", name, wait, due)
			}
			synctest.Wait()
			if begun := len(roots(t, s)) == 1; begun != c.begins || term.rooting != (c.begins || c.rooting) {
				t.Errorf("%s: a snapshot is put: %v", name, begun)
			}
			if lost := strings.Contains(said.String(), "from=8"); lost != c.begins || w.Status().Gaps > 0 != c.begins {
				t.Errorf("%s: %d gaps\n%s", name, w.Status().Gaps, said)
			}
			term.end()
		})
	}
}

// TestTheLogIsKeptBehindTheLastLook: the log may drop the newest entry that the look has seen in the archive, and keeps the next one.
func TestTheLogIsKeptBehindTheLastLook(t *testing.T) {
	for done, want := range map[bool]uint64{true: 11, false: 0} {
		m := newMember(newHistory())
		term := newTerm(New(m, objstore.NewMemory(), Options{}), 1)
		term.glance = &glance{upTo: 10, done: done}
		term.settle()
		if at := m.kept(); at != want {
			t.Errorf("the look has ended: %v; the log is kept from %d, want %d", done, at, want)
		}
	}
}

// TestWhatTheLogHas: the log has every entry that it has not dropped. Entries that are not applied yet count, since they will come.
func TestWhatTheLogHas(t *testing.T) {
	for _, c := range []struct {
		gone, behind uint64 // the last entry that was dropped, and the number of entries that are not applied
		index        uint64
		has          bool
	}{
		{1, 0, 2, true}, {9, 0, 2, false}, {9, 0, 9, false}, {9, 0, 10, true}, {9, 0, 21, true}, {9, 0, 22, true}, {21, 0, 21, false},
		{21, 0, 22, true}, {9, 5, 16, true}, {9, 5, 17, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory()
			h.add(20, 10) // entries 2 to 21
			m := newMember(h)
			m.truncate(c.gone)
			m.behind = c.behind
			term := newTerm(New(m, objstore.NewMemory(), Options{}), 1)
			if has := term.has(c.index); has != c.has {
				t.Errorf("without the entries up to %d it has %d: %v", c.gone, c.index, has)
			}
		})
	}
}

package budget

import (
	"sync"
	"testing"
)

// house is a ledger of the core and three claims, with its holders' bounds and bytes.
type house struct {
	*Ledger
	floor int64 // of the store's cache, as far as it is lent: its memtables
	mu    sync.Mutex
	kept  map[string]int64
	bound map[string]int64
}

func newHouse(total int64, more ...Claim) *house {
	s := Of(total, append(more, Claim{Name: "leases", Weight: 5, Floor: mib, Kind: Kept}, Claim{Name: "keys", Weight: 28, Floor: 2 * mib, Kind: Cache},
		Claim{Name: "answers", Weight: 42, Floor: 6 * mib})...)
	h := &house{Ledger: s.Ledger, floor: 3 * s.Memtable, kept: map[string]int64{}, bound: map[string]int64{}}
	for _, name := range []string{"leases", "idents", "calls"} {
		h.Hold(name, Holder{Held: func() int64 { h.mu.Lock(); defer h.mu.Unlock(); return h.kept[name] }})
	}
	for _, name := range []string{"cache", "keys"} {
		h.Hold(name, Holder{Bound: func(bytes int64) { h.bound[name] = bytes }})
	}
	return h
}

func (h *house) keep(name string, bytes int64) {
	h.mu.Lock()
	h.kept[name] = bytes
	h.mu.Unlock()
	h.Balance()
}

// TestCachesLendToWhatIsKept: a Kept claim has its share first and then the caches' room above their floors. The sum of all never grows, no
// cache goes below its floor, and returned room is theirs again.
func TestCachesLendToWhatIsKept(t *testing.T) {
	h := newHouse(256 * mib)
	own := h.Own()
	if own.Loan != h.share["cache"]-h.floor+h.share["keys"]-2*mib {
		t.Fatalf("the loan is %d MiB of caches of %d and %d", own.Loan/mib, h.share["cache"]/mib, h.share["keys"]/mib)
	}
	room := h.Room("leases")
	if room != h.share["leases"]+own.Loan {
		t.Fatalf("leases may have %d MiB", room/mib)
	}
	h.keep("leases", h.share["leases"])
	if len(h.bound) != 0 {
		t.Fatalf("caches lent %v to a claim that was within its share", h.bound)
	}
	for kept := h.share["leases"]; kept <= room; kept += mib / 3 {
		h.keep("leases", kept)
		cache, keys := h.bound["cache"], h.bound["keys"]
		if kept == h.share["leases"] {
			continue
		}
		if sum := kept + cache + keys; sum > h.share["leases"]+h.share["cache"]+h.share["keys"] {
			t.Fatalf("%d MiB of leases beside caches of %d and %d", kept/mib, cache/mib, keys/mib)
		}
		if cache < h.floor || keys < 2*mib {
			t.Fatalf("a cache is below its floor: %d, %d", cache, keys)
		}
	}
	h.keep("leases", room+100*mib) // from when there was more memory
	if h.bound["cache"] != h.floor || h.bound["keys"] != 2*mib {
		t.Errorf("caches of %d and %d, want their floors", h.bound["cache"], h.bound["keys"])
	}
	if left := h.Room("idents"); left != h.share["idents"] {
		t.Errorf("users may have %d of a loan that is all taken, want their share %d", left, h.share["idents"])
	}
	h.keep("leases", 0)
	if h.bound["cache"] != h.share["cache"] || h.bound["keys"] != h.share["keys"] {
		t.Errorf("after all was given back, caches may have %v", h.bound)
	}
}

// TestTheLoanIsSharedOnce: what users have borrowed is not lent to leases again.
func TestTheLoanIsSharedOnce(t *testing.T) {
	h := newHouse(256 * mib)
	before := h.Room("leases")
	h.keep("idents", h.share["idents"]+5*mib)
	if after := h.Room("leases"); before-after != 5*mib {
		t.Errorf("users have borrowed 5 MiB, and leases may have %d bytes less", before-after)
	}
}

// TestACeilingIsNotExceeded: what a machine would refuse anyway is not lent.
func TestACeilingIsNotExceeded(t *testing.T) {
	if room := newHouse(4 << 30).Room("idents"); room != 64*mib {
		t.Errorf("users may have %d MiB", room/mib)
	}
}

// TestDividingChangesNothing: the least total is the same after any division, also after one among the core alone.
func TestDividingChangesNothing(t *testing.T) {
	before := Least()
	Of(4 << 30)
	if after := Least(); after != before {
		t.Errorf("the least total was %d MiB and is %d", before/mib, after/mib)
	}
}

// TestTheSmallestMemberDecides: Kept state is on every member, so the one with the least memory bounds it. One that does not know of a
// claim has no bound of it.
func TestTheSmallestMemberDecides(t *testing.T) {
	large, small := newHouse(1024*mib), newHouse(128*mib)
	if large.Room("leases") <= small.Room("leases") {
		t.Fatal("more memory holds no more")
	}
	large.Others([]Room{small.Own(), {Loan: 1}})
	small.Others([]Room{large.Own()})
	if large.Room("leases") != small.Room("leases") {
		t.Errorf("the large member takes %d bytes of leases, the small one %d", large.Room("leases"), small.Room("leases"))
	}
	large.keep("idents", large.share["idents"]) // more than the small one's share: it has borrowed there
	if want := small.Own().For("leases", large.held); large.Room("leases") != want {
		t.Errorf("leases may have %d bytes, want %d", large.Room("leases"), want)
	}
	large.Others(nil)
	if large.Room("leases") <= small.Room("leases") {
		t.Error("a member that has left still decides")
	}
}

// TestEntriesSayWhatThereIs: an operator sees each claim with what it may have at the moment.
func TestEntriesSayWhatThereIs(t *testing.T) {
	h := newHouse(256 * mib)
	h.keep("leases", h.share["leases"]+8*mib)
	all, lent := h.Entries()
	if lent != 8*mib {
		t.Errorf("%d bytes are lent", lent)
	}
	for _, e := range all {
		switch e.Claim {
		case "cache", "keys":
			if e.Kind != Cache || e.May != h.bound[e.Claim] || e.May >= e.Share || e.Held != -1 {
				t.Errorf("%+v, told %d", e, h.bound[e.Claim])
			}
		case "leases":
			if e.Kind != Kept || e.Held != h.share["leases"]+8*mib || e.May != h.Room("leases") {
				t.Errorf("%+v", e)
			}
		case "answers":
			if e.May != e.Share || e.Held != -1 {
				t.Errorf("%+v", e)
			}
		}
	}
}

// TestDefaultOf: a quarter of the machine's memory, within bounds.
func TestDefaultOf(t *testing.T) {
	for memory, want := range map[int64]int64{0: Small, 512 * mib: Small, 2 << 30: 512 * mib, 3<<30 + 4097: 768 * mib, 64 << 30: Large} {
		if got := DefaultOf(memory); got != want {
			t.Errorf("of %d MiB %d MiB, want %d", memory/mib, got/mib, want/mib)
		}
	}
}

// TestClientsThatStayBorrowToo: what is open on this member borrows from its caches beside what is kept, and the other members' memory does not
// bound it.
func TestClientsThatStayBorrowToo(t *testing.T) {
	h := newHouse(256*mib, Claim{Name: "calls", Weight: 5, Floor: mib, Kind: Open})
	h.Others([]Room{{Own: []Own{{"leases", mib}, {"calls", mib}}}})
	loan := h.Own().Loan
	if own := h.Own(); own.has("calls") || !own.has("leases") {
		t.Errorf("the other members hear of %v", own)
	}
	if room := h.Room("calls"); room != h.share["calls"]+loan {
		t.Fatalf("calls may have %d MiB", room/mib)
	}
	h.keep("calls", h.share["calls"]+4*mib)
	if lent := h.share["cache"] + h.share["keys"] - h.bound["cache"] - h.bound["keys"]; lent < 4*mib-2 || lent > 5*mib {
		t.Errorf("caches lent %d bytes to calls", lent)
	}
	h.keep("idents", h.share["idents"]+2*mib)
	if room := h.Room("calls"); room != h.share["calls"]+loan-2*mib {
		t.Errorf("calls may have %d MiB beside what users have borrowed", room/mib)
	}
	h.keep("calls", 0)
	h.keep("idents", 0)
	if h.bound["cache"] != h.share["cache"] {
		t.Error("the caches have not all of theirs back")
	}
}

// TestWorkLendsAsCachesDo: a Passing claim whose holder takes a bound lends down to its floor beside the caches, each in proportion. One
// without a bound keeps its share, and Kept and Open claims never lend.
func TestWorkLendsAsCachesDo(t *testing.T) {
	locks := Claim{Name: "locks", Weight: 30, Floor: 4 * mib}
	h := newHouse(256*mib, locks, Claim{Name: "calls", Weight: 5, Floor: mib, Kind: Open})
	before := h.Own().Loan
	for _, name := range []string{"locks", "idents", "calls"} {
		held := h.holders[name].Held
		h.Hold(name, Holder{Held: held, Bound: func(bytes int64) { h.bound[name] = bytes }})
	}
	loan := h.Own().Loan
	if more := h.share["locks"] - locks.Floor; loan-before != more || more < 4*mib {
		t.Fatalf("the loan is %d with locks and %d without, want %d more", loan, before, more)
	}
	h.keep("calls", h.share["calls"]+loan/2/mib*mib)
	part := func(name string, floor int64) float64 {
		return float64(h.share[name]-h.bound[name]) / float64(h.share[name]-floor)
	}
	if locks, keys := part("locks", locks.Floor), part("keys", 2*mib); locks < 0.45 || locks > 0.5 || locks-keys > 0.001 || keys-locks > 0.001 {
		t.Errorf("locks lend %.3f of what they can, keys %.3f", locks, keys)
	}
	all, _ := h.Entries()
	for _, e := range all {
		if e.Claim == "locks" && (e.Kind != Passing || e.May != h.bound["locks"]) {
			t.Errorf("%+v, told %d", e, h.bound["locks"])
		}
	}
	h.keep("calls", 1<<40)
	if h.bound["locks"] != locks.Floor {
		t.Errorf("locks may have %d bytes when all is lent", h.bound["locks"])
	}
	h.keep("calls", 0)
	if h.bound["locks"] != h.share["locks"] {
		t.Errorf("locks may have %d bytes of %d when all was given back", h.bound["locks"], h.share["locks"])
	}
	if h.bound["idents"] != 0 || h.bound["calls"] != 0 {
		t.Errorf("a borrower was told to lend: %v", h.bound)
	}
}

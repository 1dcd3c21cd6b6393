package machine

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// recent returns all timers set after seq, and the seq after them.
func (r *rig) recent(seq uint64) (all []Timer, next uint64) {
	r.T.Helper()
	for {
		some, to, ok, _ := r.m.Recent(seq)
		if !ok {
			r.T.Fatalf("the ring lost what follows %d", seq)
		}
		if all, seq = append(all, some...), to; some == nil {
			return all, seq
		}
	}
}

// TestRecentTimers: the worker hears of each timer that an entry leaves, once, and of none that the entry itself has ended.
func TestRecentTimers(t *testing.T) {
	r := newRig(t)
	r.must("begin before saga submitted")
	_, seq, ok, changed := r.m.Recent(math.MaxUint64)
	if !ok || changed == nil {
		t.Fatalf("to begin with: %v, %v", ok, changed)
	}
	r.must("resume")
	select {
	case <-changed:
		t.Error("an entry without timers woke the worker")
	default:
	}
	r.must("begin a saga submitted first=5")
	select {
	case <-changed:
	default:
		t.Error("the worker sleeps on")
	}
	r.must("change a pass", "change a next=0 pass", "change a next=0 pass", "change a to=succeed")
	r.apply(parse(t, "begin b saga submitted"), parse(t, "change b next=7"), parse(t, "begin c saga submitted"), parse(t, "change c to=failed"))
	got, seq := r.recent(seq)
	// The second one that is due at once is told again: who set it wants it to be looked at.
	if want := []Timer{{1005, 2}, {1000, 2}, {1000, 2}, {1007, 3}}; !slices.Equal(got, want) {
		t.Errorf("heard of %v, want %v", got, want)
	}
	if _, again, ok, changed := r.m.Recent(seq); again != seq || !ok || changed == nil {
		t.Error("there is nothing to wait for")
	}
}

func TestARingThatIsOverrun(t *testing.T) {
	const size = 100
	r := openRig(t, store.NewMem(), Options{RecentTimers: size})
	_, seq, _, _ := r.m.Recent(math.MaxUint64)
	for i := range size {
		r.must(fmt.Sprintf("begin g%d saga submitted first=%d", i, i))
	}
	if got, _ := r.recent(seq); len(got) != size || got[size-1].Tick != 1000+size-1 {
		t.Errorf("a full ring has %d timers", len(got))
	}
	r.must("begin more saga submitted")
	if _, next, ok, _ := r.m.Recent(seq); ok || next != seq+size+1 {
		t.Errorf("a ring of %d reaches back %d: %v, %d", size, size+1, ok, next)
	}
	if got, _ := r.recent(seq + 1); len(got) != size {
		t.Errorf("one later it has %d timers", len(got))
	}
	// One entry with more than it holds.
	var parts []*sagapart.Part
	for i := range 3 * size {
		parts = append(parts, parse(t, fmt.Sprintf("begin h%d saga submitted", i)))
	}
	_, seq = r.recent(seq + 1)
	r.apply(parts...)
	if _, _, ok, _ := r.m.Recent(seq); ok {
		t.Error("a part of an entry's timers was lost without a word")
	}
	if got, _ := r.recent(seq + 2*size); len(got) != size || got[size-1].Number != uint64(4*size+1) {
		t.Errorf("the last of them are %d timers", len(got))
	}
}

// TestRecentIsAskedInPieces: what one call returns is bounded, and nothing is left out between two.
func TestRecentIsAskedInPieces(t *testing.T) {
	r := newRig(t)
	_, seq, _, _ := r.m.Recent(math.MaxUint64)
	var parts []*sagapart.Part
	for i := range 3 * recentBatch {
		parts = append(parts, parse(t, fmt.Sprintf("begin g%d saga submitted", i)))
	}
	r.apply(parts...)
	if some, _, _, _ := r.m.Recent(seq); len(some) != recentBatch {
		t.Errorf("one call returns %d", len(some))
	}
	got, _ := r.recent(seq)
	for i, timer := range got {
		if timer.Number != uint64(i+1) {
			t.Fatalf("timer %d is of %d", i, timer.Number)
		}
	}
	if len(got) != len(parts) {
		t.Errorf("%d of %d", len(got), len(parts))
	}
}

// TestALoadEndsWhatWasRecent: after a snapshot was installed, what the ring held is of a state that is gone.
func TestALoadEndsWhatWasRecent(t *testing.T) {
	r := newRig(t)
	r.must("begin a saga submitted")
	_, seq := r.recent(1)
	_, _, _, changed := r.m.Recent(seq)
	if err := r.Applier.Load(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("who waited waits on")
	}
	if _, _, ok, _ := r.m.Recent(seq); ok {
		t.Error("the ring goes on as if nothing had happened")
	}
}

func TestDueInPages(t *testing.T) {
	r := newRig(t)
	var want []Timer
	for i := range 25 {
		r.must(fmt.Sprintf("begin g%d saga submitted first=%d", i, i/3*10))
		want = append(want, Timer{1000 + int64(i/3*10), uint64(i + 1)})
	}
	for _, limit := range []int{1, 3, 7, 100} {
		var got []Timer
		for after := (Timer{}); ; {
			some, err := r.m.Due(after, math.MaxInt64, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(some) == 0 {
				break
			}
			got, after = append(got, some...), some[len(some)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %v", limit, got)
		}
	}
	if got, _ := r.m.Due(Timer{1010, 5}, 1020, 100); !slices.Equal(got, want[5:9]) {
		t.Errorf("up to 1020: %v", got)
	}
	if got, _ := r.m.Due(Timer{}, 999, 100); len(got) != 0 {
		t.Errorf("before all: %v", got)
	}
}

// TestOpenTransactionsCostNoMemory: however many wait for their time, the machine keeps a bounded cache and the ring; and nothing of them
// is read at a start.
func TestOpenTransactionsCostNoMemory(t *testing.T) {
	const many, cacheBytes = 60_000, 64 << 10
	opt := Options{CacheBytes: cacheBytes, RecentTimers: 1000}
	r := openRig(t, store.NewMem(), opt)
	for i := 0; i < many; i += 500 {
		var parts []*sagapart.Part
		for j := range 500 {
			parts = append(parts, &sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.Submitted, FirstMs: 1e6,
				Definition: sagapart.Definition{Gid: fmt.Sprint("delayed-", i+j), Mode: sagapart.Msg}}})
		}
		r.apply(parts...)
		if r.m.cache.bytes > cacheBytes || len(r.m.cache.slots) != len(r.m.cache.ring) || len(r.m.cache.slots) > cacheBytes/slotBytes {
			t.Fatalf("after %d the cache has %d of %d bytes, %d slots", i, r.m.cache.bytes, cacheBytes, len(r.m.cache.slots))
		}
	}
	if n := len(r.m.timers.slots); n != 1000 || cap(r.m.dirty) > maxIdle || cap(r.m.set) > maxIdle {
		t.Errorf("a ring of %d timers, %d dirty", n, cap(r.m.dirty))
	}
	r.reopen(opt)
	if n := len(r.m.cache.slots); n != 0 {
		t.Errorf("a start reads %d", n)
	}
	n := 0
	for after := (Timer{}); ; {
		some, err := r.m.Due(after, math.MaxInt64, 1024)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			break
		}
		n, after = n+len(some), some[len(some)-1]
	}
	if n != many || r.m.Counts().Submitted != many {
		t.Errorf("%d timers, %+v", n, r.m.Counts())
	}
}

// TestOneTimerForEachOpenTransaction, after any changes, in one entry or in many.
func TestOneTimerForEachOpenTransaction(t *testing.T) {
	r := newRig(t)
	r.must("begin g msg prepared first=500", "begin g msg submitted first=300", "change g next=10 pass", "change g next=5000", "change g to=aborting",
		"begin g2 tcc prepared first=1", "register g2 branch=1,cancel,u")
	r.apply(parse(t, "change g next=1"), parse(t, "change g next=2"), parse(t, "begin g3 saga submitted first=9"), parse(t, "change g3 next=8"))
	if got, want := fmt.Sprint(r.due()), "[{1001 2} {1002 1} {1008 3}]"; got != want {
		t.Errorf("timers %s, want %s", got, want)
	}
	r.apply(parse(t, "change g next=1"), parse(t, "change g to=failed"), parse(t, "change g3 to=succeed next=4"))
	if got, want := fmt.Sprint(r.due()), "[{1001 2}]"; got != want {
		t.Errorf("timers %s, want %s", got, want)
	}
}

// TestElapse: time in which no member ran makes what waited for it due, and nothing that begins afterwards. A waiting worker hears of it.
func TestElapse(t *testing.T) {
	r := newRig(t)
	row := func() []byte { b, _, _ := r.Store.Get(nil, countersKey); return b }
	r.must("elapse ms=5000")
	if r.m.Elapsed() != 0 || row() != nil {
		t.Errorf("nothing waits, and the clock jumped by %d", r.m.Elapsed())
	}
	r.must("begin a msg submitted first=10000")
	_, seq, _, changed := r.m.Recent(math.MaxUint64)
	r.must("elapse ms=3600000")
	select {
	case <-changed:
	default:
		t.Error("the worker sleeps on")
	}
	if _, again, ok, _ := r.m.Recent(seq); !ok || again != seq {
		t.Errorf("timers were set: %d after %d, %v", again, seq, ok)
	}
	r.must("begin b msg submitted first=10000")
	for range 2 { // and after a restart
		clock := r.Tick + r.m.Elapsed()
		if got, want := r.due(), []Timer{{11_000, 1}, {clock + 10_000, 2}}; !slices.Equal(got, want) {
			t.Errorf("at %d: due %v, want %v", clock, got, want)
		}
		if a, b := r.find("a"), r.find("b"); a.CreatedTick != 1000 || b.CreatedTick != clock {
			t.Errorf("begun at %d and %d, want 1000 and %d", a.CreatedTick, b.CreatedTick, clock)
		}
		r.reopen(Options{})
	}
	r.must("elapse ms=1000")
	if got := r.m.Elapsed(); got != 3_601_000 {
		t.Errorf("elapsed %d", got)
	}
	r.must("elapse ms=3162240000000", "elapse ms=3162240000000") // never beyond what a clock can say
	if row() == nil {
		t.Error("no counters")
	}
	if got := after(math.MaxInt64-5, 10); got != math.MaxInt64-1 {
		t.Errorf("beyond all times: %d", got)
	}
}

// TestWhatIsKeptIsForgottenAfterTheOutage: retention goes by the same clock.
func TestWhatIsKeptIsForgottenAfterTheOutage(t *testing.T) {
	r := openRig(t, store.NewMem(), Options{RetentionMs: 60_000})
	r.must("begin a saga submitted", "change a to=succeed", "elapse ms=59000")
	r.find("a")
	r.must("elapse ms=1001")
	r.must("resume") // forgetting goes on with any entry
	if tx, err := r.m.Find("a"); tx != nil || err != nil {
		t.Errorf("it is still there: %v, %v", tx, err)
	}
}

// TestTheCacheTakesABound: with less room Apply keeps less from the next entry on, and as much as before when the room is back. A dropped row
// is read from the store.
func TestTheCacheTakesABound(t *testing.T) {
	r := openRig(t, store.NewMem(), Options{CacheBytes: 1 << 20})
	n := 0
	begin := func(many int) {
		t.Helper()
		for range many {
			n++
			r.apply(&sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.Submitted, FirstMs: 1e6,
				Definition: sagapart.Definition{Gid: fmt.Sprint("bound-", n), Mode: sagapart.Msg}}})
		}
	}
	begin(1000)
	before := r.m.CacheBytes()
	if before < 200_000 || before > 1<<20 {
		t.Fatalf("%d bytes of 1,000 transactions", before)
	}
	r.m.BoundCache(before / 3 * 2)
	begin(1)
	if now := r.m.CacheBytes(); now > before/3*2 || now < before/2 {
		t.Errorf("%d bytes of %d with room for two thirds", now, before)
	}
	r.m.BoundCache(slotBytes)
	begin(1)
	if now := r.m.CacheBytes(); now > 2*slotBytes {
		t.Errorf("%d bytes of %d with room for one", now, before)
	}
	if tx, err := r.m.Find("bound-1"); err != nil || tx == nil {
		t.Errorf("a transaction that is not kept: %v, %v", tx, err)
	}
	r.m.BoundCache(1 << 20)
	begin(500)
	if now := r.m.CacheBytes(); now < before/3 {
		t.Errorf("%d bytes of %d when the room is back", now, before)
	}
}

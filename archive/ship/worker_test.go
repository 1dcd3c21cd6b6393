package ship

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

// TestWhatAnOperatorDoesNotSay: zero fields of Options get the defaults that its comments name.
func TestWhatAnOperatorDoesNotSay(t *testing.T) {
	w := New(newMember(newHistory()), objstore.NewMemory(), Options{})
	o := w.opt
	if o.Interval != time.Second || o.Requests != 3_000_000 || o.KeepAge != 720*time.Hour || o.KeepCount != 2 || o.SnapshotBytes != 64<<20 ||
		o.Memory != 56<<20 || o.Logger == nil || o.Wall == nil {
		t.Errorf("%+v", o)
	}
	w = New(newMember(newHistory()), objstore.NewMemory(), Options{KeepAge: -1, KeepCount: 3})
	if w.opt.KeepAge >= 0 || w.opt.KeepCount != 3 {
		t.Errorf("%+v", w.opt)
	}
}

// TestTheMemoryThatShippingTakes: the memory is that of two pieces of a snapshot and of ten spans. A span has 256 KiB to 4 MiB.
func TestTheMemoryThatShippingTakes(t *testing.T) {
	for memory, want := range map[int64]int{0: 4 << 20, 1: 256 << 10, 16 << 20: 256 << 10, 26 << 20: 1 << 20, 36 << 20: 2 << 20, 56 << 20: 4 << 20, 1 << 30: 4 << 20} {
		if got := New(newMember(newHistory()), objstore.NewMemory(), Options{Memory: memory}).span; got != want {
			t.Errorf("of %d bytes a span has %d, want %d", memory, got, want)
		}
	}
}

// TestAMemberThatStartsAgain: a member that has used this archive opens the store anew, and never makes its directory. An archive that the
// operator has given up, or at another place, does not count. A term begins with the last look that is remembered of this place.
func TestAMemberThatStartsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		known  *Known
		lost   string
		stale  bool
		looked uint64
	}{
		"it has used none":             {nil, "", false, 0},
		"it has used one":              {&Known{URL: "s3://bucket/place", Identity: "a", Archived: 7}, "", true, 7},
		"that one is given up":         {&Known{URL: "s3://bucket/place", Identity: "a", Archived: 7}, "a", false, 7},
		"an earlier one is given up":   {&Known{URL: "s3://bucket/place", Identity: "a", Archived: 7}, "b", true, 7},
		"it has used one elsewhere":    {&Known{URL: "s3://bucket/other", Identity: "a", Archived: 7}, "", false, 0},
		"one that has no identity yet": {&Known{URL: "s3://bucket/place"}, "", false, 0},
	} {
		opt := memberDisk(t)
		opt.Lost = c.lost
		if c.known != nil {
			if err := c.known.write(opt.FS, opt.Dir); err != nil {
				t.Fatal(err)
			}
		}
		w := New(newMember(newHistory()), objstore.NewMemory(), opt)
		if w.stale != c.stale {
			t.Errorf("%s: the store is opened anew: %v", name, w.stale)
		}
		w.stop(errors.New("nothing is to be shipped"))
		if w.begin(1); w.looked != c.looked {
			t.Errorf("%s: the last look was at %d, want %d", name, w.looked, c.looked)
		}
	}
}

// TestNewsInATermDoNotEndIt: news within a term do not restart the shipping. A new term ends the previous one and looks for the end of the
// archive again.
func TestNewsInATermDoNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), count(objstore.NewMemory())
		m := newMember(h)
		w := run(t, m, s, Options{})
		now := func() *term {
			time.Sleep(2 * time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.term
		}
		number := h.elect()
		m.Lead(number)
		first, lists := now(), s.of("list")
		if first == nil || first.number != number || lists == 0 {
			t.Fatalf("term %+v, %d lists", first, lists)
		}
		m.Lead(number)
		if now() != first || first.isOver() || s.of("list") != lists {
			t.Errorf("after news about something else the end of the archive is looked for again, with %d lists", s.of("list")-lists)
		}
		h.add(3, 10)
		if now(); m.ArchivedIndex() != h.last() {
			t.Errorf("after news about something else %d is archived of %d", m.ArchivedIndex(), h.last())
		}
		m.Lead(h.elect())
		second := now()
		if second == first || second == nil || !first.isOver() || second.isOver() || s.of("list") == lists {
			t.Errorf("another term: %v, the first one is over: %v", second != first, first.isOver())
		}
		if m.Lead(0); now() != nil || !second.isOver() {
			t.Error("a member that was deposed ships on")
		}
	})
}

// TestAnAlarmEndsTheTerm: an alarm ends the term, if there is one. The operator is told the first alarm.
func TestAnAlarmEndsTheTerm(t *testing.T) {
	for _, leads := range []bool{true, false} {
		w := New(newMember(newHistory()), objstore.NewMemory(), Options{})
		term := newTerm(w, 1)
		if leads {
			w.term = term
		}
		w.stop(errors.New("the first"))
		w.stop(errors.New("the second"))
		if term.isOver() != leads || w.Status().Alarm != "the first" {
			t.Errorf("it leads: %v; its term is over: %v, the alarm is %q", leads, term.isOver(), w.Status().Alarm)
		}
	}
}

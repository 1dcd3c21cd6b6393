package ship

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestASnapshotIsTakenWhenTheLogIsAsLarge as the configured least, and every day with writes. The log is cut where it was taken, so that a
// reader continues with the next name.
func TestASnapshotIsTakenWhenTheLogIsAsLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), objstore.NewMemory()
		m := newMember(h)
		slow := objstore.NewFaulty(s, 1, task.Goroutines{}, objstore.Faults{Delay: 700 * time.Millisecond}) // it is due in the middle of a span
		run(t, m, slow, Options{SnapshotBytes: 100 << 10})
		m.Lead(h.elect())
		time.Sleep(2 * time.Second)
		for range 250 {
			h.add(1, 1000)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		all := roots(t, s)
		if len(all) != 3 {
			t.Fatalf("snapshots at %v of a log of %d entries", all, h.last())
		}
		for _, index := range all {
			if _, ok := s.Objects()[format.SpanName(cluster, index+1)]; !ok {
				t.Errorf("no span begins behind the snapshot at %d", index)
			}
			if last := chain(t, s, h, index); last != h.last() {
				t.Errorf("from the snapshot at %d the archive goes to %d of %d", index, last, h.last())
			}
		}
		time.Sleep(100 * time.Hour)
		if n := len(roots(t, s)); n != 3 {
			t.Errorf("%d snapshots after days without a write", n)
		}
		h.add(1, 10)
		time.Sleep(2 * time.Second)
		h.add(1, 10)
		time.Sleep(2 * time.Second)
		if n := len(roots(t, s)); n != 4 {
			t.Errorf("%d snapshots after a day and a write", n)
		}
	})
}

// TestANewLeaderKnowsHowOldTheSnapshotIs, and how much was shipped since.
func TestANewLeaderKnowsHowOldTheSnapshotIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), objstore.NewMemory()
		opt := Options{SnapshotBytes: 100 << 10}
		for i, known := range []bool{true, false, true, false} {
			m := newMember(h)
			if known && i > 0 {
				m.SetArchived(h.last() - 1)
			}
			term := h.elect()
			if known && i > 0 {
				m.SetArchived(h.last() - 1)
			}
			run(t, m, s, opt)
			m.Lead(term)
			time.Sleep(2 * time.Second)
			h.add(40, 1000) // less than it takes
			time.Sleep(2 * time.Second)
			m.Lead(0)
			want := []int{1, 1, 2, 2}[i]
			if n := len(roots(t, s)); n != want {
				t.Fatalf("after leader %d there are %d snapshots, want %d", i, n, want)
			}
		}
	})
}

// TestWhatIsOldGoes: with snapshots every day and two days to keep, a reader finds everything for any moment of them, and nothing older. A
// store that fails only delays that.
func TestWhatIsOldGoes(t *testing.T) {
	for _, keep := range []time.Duration{48 * time.Hour, -1} {
		synctest.Test(t, func(t *testing.T) {
			h, memory := newHistory(), objstore.NewMemory()
			s := objstore.NewFaulty(memory, 1, task.Goroutines{}, objstore.Faults{Refused: 0.1, Before: 0.1, After: 0.1, Half: 0})
			m := newMember(h)
			w := run(t, m, s, Options{KeepAge: keep})
			m.Lead(h.elect())
			var daily []uint64 // the log's end at each noon
			for range 12 {
				for range 24 {
					h.add(1, 1000)
					time.Sleep(time.Hour)
				}
				daily = append(daily, h.last())
			}
			h.add(1, 10)
			time.Sleep(time.Minute)
			all := roots(t, memory)
			if keep < 0 {
				if len(all) < 12 {
					t.Errorf("of what is kept for ever %d snapshots are left", len(all))
				}
				return
			}
			if len(all) < 3 || len(all) > 4 {
				t.Fatalf("snapshots at %v", all)
			}
			if needed := daily[len(daily)-3]; all[0] > needed {
				t.Errorf("the oldest snapshot is at %d, two days ago the log was at %d", all[0], needed)
			}
			if last := chain(t, memory, h, all[0]); last != h.last() {
				t.Errorf("the archive ends at %d of %d", last, h.last())
			}
			spans := 0
			for name := range memory.Objects() {
				_, first, ok := format.ParseSpanName(name)
				switch {
				case ok && first < all[0]-2*format.SpanHeadBytes:
					t.Errorf("%s is left", name)
				case ok:
					spans++
				case strings.HasPrefix(name, format.AllPiecesName(cluster)) && name < format.PiecesName(cluster, all[0]):
					t.Errorf("%s is left", name)
				}
			}
			if spans < 48 {
				t.Errorf("%d spans", spans)
			}
			if st := w.Status(); st.Alarm != "" {
				t.Error(st.Alarm)
			}
		})
	}
}

// TestASnapshotDoesNotHoldUpTheLog: while a snapshot cannot be put, entries are archived; it is there when the store takes it.
func TestASnapshotDoesNotHoldUpTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, memory := newHistory(), objstore.NewMemory()
		s := &noPieces{Memory: memory}
		m := newMember(h)
		run(t, m, s, Options{SnapshotBytes: 60 << 10})
		m.Lead(h.elect())
		time.Sleep(2 * time.Second)
		s.refuse.Store(true)
		for range 100 {
			h.add(1, 1000)
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		if m.ArchivedIndex() != h.last() || len(roots(t, memory)) != 1 {
			t.Errorf("archived %d of %d, snapshots at %v", m.ArchivedIndex(), h.last(), roots(t, memory))
		}
		s.refuse.Store(false)
		time.Sleep(time.Minute)
		if n := len(roots(t, memory)); n != 2 {
			t.Errorf("%d snapshots", n)
		}
	})
}

// TestRequestsAreSpreadOverTheMonth once three quarters of them are made, and never for longer than a minute.
func TestRequestsAreSpreadOverTheMonth(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	r := requests{wall: func() time.Time { return now }, budget: 1000}
	interval := func(made int64, left time.Duration) time.Duration {
		now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).Add(-left)
		r.turn()
		r.count = made
		return r.interval(time.Second)
	}
	for _, tc := range []struct {
		made int64
		left time.Duration
		want time.Duration
	}{
		{0, 720 * time.Hour, time.Second},
		{749, time.Hour, time.Second},
		{750, time.Hour, 14400 * time.Millisecond},
		{900, time.Hour, 36 * time.Second},
		{900, time.Second, time.Second},
		{990, 10 * time.Hour, time.Minute},
		{1000, time.Hour, time.Minute},
		{5000, time.Hour, time.Minute},
	} {
		if got := interval(tc.made, tc.left); got != tc.want {
			t.Errorf("%d made of 1000, %s left: %s, want %s", tc.made, tc.left, got, tc.want)
		}
	}
	r.count, r.total = 800, 800
	now = time.Date(2026, 12, 1, 0, 0, 1, 0, time.UTC)
	if r.add(1); r.count != 1 || r.total != 801 || r.interval(time.Second) != time.Second {
		t.Errorf("in a new month: %d, %d", r.count, r.total)
	}
}

// TestNearTheEndOfTheBudgetNobodyIsKeptWaiting: callers that wait for the archive are served; other entries wait longer.
func TestNearTheEndOfTheBudgetNobodyIsKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHistory(), objstore.NewMemory()
		m := newMember(h)
		run(t, m, s, Options{Requests: 1})
		m.Lead(h.elect())
		time.Sleep(2 * time.Minute)
		h.add(1, 10)
		time.Sleep(30 * time.Second)
		if m.ArchivedIndex() == h.last() {
			t.Error("requests are not spared")
		}
		m.want(h.last())
		time.Sleep(10 * time.Millisecond)
		if m.ArchivedIndex() != h.last() {
			t.Error("an entry that is waited for is not archived")
		}
	})
}

package ship

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestWhenTheStoreIsLookedAt: after a minute, after so much log, and a second after a failure.
func TestWhenTheStoreIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		for name, c := range map[string]struct {
			since    time.Duration // since the last look
			log      int64
			troubles int // since then
			due      bool
		}{
			"at once":                    {0, 0, 0, false},
			"almost a minute":            {lookAfter - 1, lookBytes - 1, 0, false},
			"a minute":                   {lookAfter, 0, 0, true},
			"so much log":                {0, lookBytes, 0, true},
			"a failure, and too soon":    {lookSoon - 1, 0, 1, false},
			"a failure":                  {lookSoon, 0, 1, true},
			"a second without a failure": {lookSoon, 0, 0, false},
		} {
			m := newMember(newHistory())
			term := newTerm(New(m, objstore.NewMemory(), Options{}), 1)
			time.Sleep(time.Hour)
			term.lookedAt, term.sinceLook, term.troubles, term.troublesSeen = m.Mono()-c.since, c.log, 3+c.troubles, 3
			if due := term.lookDue(); due != c.due {
				t.Errorf("%s: due %v", name, due)
			}
		}
	})
}

// TestWhenASnapshotIsTaken: when there is as much log as the last one is large, or Options.SnapshotBytes, and after a
// day on which something was written. The first one is due, one of a log without a time is not old.
func TestWhenASnapshotIsTaken(t *testing.T) {
	const now = int64(100 * daily)
	for name, c := range map[string]struct {
		snapped taken
		last    uint64 // entry that is archived
		shipped int64
		due     bool
	}{
		"too little log":                     {taken{index: 5, wallNs: now, shipped: 100}, 9, 100 + 999, false},
		"enough log":                         {taken{index: 5, wallNs: now, shipped: 100}, 9, 100 + 1000, true},
		"less than the state":                {taken{index: 5, wallNs: now, bytes: 5000}, 9, 4999, false},
		"as much as the state":               {taken{index: 5, wallNs: now, bytes: 5000}, 9, 5000, true},
		"almost a day":                       {taken{index: 5, wallNs: now - int64(daily) + 1}, 9, 0, false},
		"a day":                              {taken{index: 5, wallNs: now - int64(daily)}, 9, 0, true},
		"a day on which nothing was written": {taken{index: 9, wallNs: now - int64(daily)}, 9, 0, false},
		"a log that had no time":             {taken{index: 5}, 9, 0, false},
		"none":                               {taken{}, 9, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory()
			h.add(20, 10)
			term := newTerm(New(newMember(h), objstore.NewMemory(), Options{SnapshotBytes: 1000}), 1)
			term.snapped, term.tip.Last, term.shipped, term.wallNs = c.snapped, c.last, c.shipped, now
			term.snapshots()
			term.mu.Lock()
			due := term.taking
			term.mu.Unlock()
			if due != c.due {
				t.Errorf("%s: taken %v", name, due)
			}
			term.end()
			synctest.Wait()
		})
	}
}

// TestAFollowerRemembersTheLeadersArchive: another archive at once, the same one once in a minute. So not each upload of the leader is a
// write to each member's disk. A forgotten archive is asked for again.
func TestAFollowerRemembersTheLeadersArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, opt := newMember(newHistory()), memberDisk(t)
		faulty := disk.NewFaulty(opt.FS)
		opt.FS = faulty
		w := New(m, objstore.NewMemory(), opt)
		says := func(identity string, looked string) {
			m.OnCall(func(string, []byte) ([]byte, error) {
				return []byte(`{"url":"s3://bucket/place","identity":"` + identity + `","looked":` + looked + `}`), nil
			})
		}
		follow := func(what, identity string, archived uint64) {
			t.Helper()
			if !w.follow(1000) {
				t.Errorf("%s: it has to be asked again", what)
			}
			k, err := ReadKnown(opt.FS, opt.Dir)
			if err != nil || k.Identity != identity || k.Archived != archived {
				t.Errorf("%s: archive %q up to %d is remembered, %v", what, k.Identity, k.Archived, err)
			}
		}
		time.Sleep(time.Hour)
		says("", "5")
		follow("one without an identity", "", 0)
		says("a", "10")
		follow("the first", "a", 10)
		says("a", "20")
		time.Sleep(lookAfter - 1)
		follow("almost a minute later", "a", 10)
		time.Sleep(time.Nanosecond)
		follow("a minute later", "a", 20)
		says("b", "21")
		follow("another one", "b", 21)
		says("c", "22")
		faulty.FailWrite(func(string) bool { return true }, errors.New("no room"))
		if w.follow(1000) {
			t.Error("it is not remembered, and not asked for again")
		}
		faulty.FailWrite(nil, nil)
		follow("after the disk has room", "c", 22)
	})
}

// TestAFollowerAsksWhenThereIsSomethingNew: once for what was archived, and not while nothing is.
func TestAFollowerAsksWhenThereIsSomethingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(newHistory())
		asked := 0
		m.OnCall(func(string, []byte) ([]byte, error) {
			asked++
			return []byte(`{"looked":10}`), nil
		})
		run(t, m, objstore.NewMemory(), Options{})
		for i, at := range []uint64{0, 10, 20} {
			m.SetArchived(at)
			time.Sleep(time.Minute)
			synctest.Wait()
			if asked != i {
				t.Errorf("archived is %d, and the leader was asked %d times", at, asked)
			}
		}
	})
}

// TestWhatWasShippedSinceTheSnapshotIsCounted: the spans behind it, up to where this term goes on; what this term ships
// is counted when it arrives.
func TestWhatWasShippedSinceTheSnapshotIsCounted(t *testing.T) {
	all, s := tiny(t, 3, 1, 4, 2), objstore.NewMemory() // entries 2 to 4, 5, 6 to 9, 10 and 11
	if err := s.Put(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		snapshot, last uint64
		spans          []int
	}{
		{1, 11, []int{0, 1, 2, 3}}, {4, 9, []int{1, 2}}, {5, 9, []int{2}}, {4, 5, []int{1}}, {9, 10, []int{3}}, {9, 9, nil},
	} {
		term, want := newTerm(New(newMember(newHistory()), s, Options{}), 1), int64(0)
		for _, i := range c.spans {
			want += int64(len(all[i].Data))
		}
		if term.survey(c.snapshot, c.last); term.shipped != want {
			t.Errorf("behind a snapshot at %d, up to %d: %d bytes, want %d", c.snapshot, c.last, term.shipped, want)
		}
	}
}

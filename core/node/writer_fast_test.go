package node

import (
	"testing"
	"time"
)

// The loop syncs the log itself while the disk is fast, and one sync of some milliseconds does not make it slow.
func TestTheLoopWaitsForAFastDiskOnly(t *testing.T) {
	var w writer
	if !w.fast() {
		t.Fatal("a disk that nothing is known of is slow")
	}
	for _, c := range []struct {
		what  string
		took  time.Duration
		times int
		want  bool
	}{
		{"a fast disk", 200 * time.Microsecond, 50, true},
		{"a sync that took longer", 6 * time.Millisecond, 1, true},
		{"one that stalled", 11 * time.Millisecond, 1, false},
		{"the next after that", 200 * time.Microsecond, 1, true},
		{"a slow disk", 1100 * time.Microsecond, 100, false},
		{"it becomes fast", 200 * time.Microsecond, 3, true},
		{"a disk of which half are slow", 1500 * time.Microsecond, 30, false},
	} {
		for range c.times {
			w.synced(c.took)
		}
		if w.fast() != c.want {
			t.Errorf("%s: mean %s, last %s: fast is %v", c.what, time.Duration(w.meanSync.Load()), time.Duration(w.lastSync.Load()), !c.want)
		}
	}
	if want := int64(50*200+6000+11000+200+100*1100+3*200+30*1500) * 1000; w.allSyncs.Load() != want {
		t.Errorf("all syncs took %d ns instead of %d", w.allSyncs.Load(), want)
	}
}

// A disk that stalls is seen while it does, and not only when the sync has ended.
func TestASyncUnderWayCounts(t *testing.T) {
	var w writer
	w.synced(time.Second)
	w.began.Store(int64(10 * time.Second))
	if got := w.syncs(13 * time.Second).Total; got != 4*time.Second {
		t.Errorf("a sync that has gone on for 3 s after one of 1 s: %s", got)
	}
	w.synced(5 * time.Second)
	if got := w.syncs(20 * time.Second).Total; got != 6*time.Second {
		t.Errorf("when it has ended after 5 s: %s", got)
	}
}

package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// files are those of a day and a half: groups, files of level 1, and snapshots at the hours that are given.
func filesOf(now time.Time, snapshots ...time.Duration) (all []replica.File) {
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	txid := func(ago time.Duration) replica.TXID {
		return replica.TXID(40*time.Hour-ago) / replica.TXID(time.Minute)
	}
	for ago := 36 * time.Hour; ago >= 0; ago -= time.Hour {
		last := txid(ago)
		for id := last - 2; id <= last; id++ {
			all = append(all, replica.File{Min: id, Max: id, Time: at(ago), Size: 500})
		}
		all = append(all, replica.File{Level: 1, Min: last - 59, Max: last, Time: at(ago), Size: 500})
	}
	for _, ago := range snapshots {
		all = append(all, replica.File{Level: snapshotLevel, Min: 1, Max: txid(ago), Time: at(ago), Size: 500})
	}
	return all
}

// TestEveryMomentWithinTheRetentionStays: of what a manifest does without, nothing is needed to restore any moment of the last day.
func TestEveryMomentWithinTheRetentionStays(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		snapshots []time.Duration
		stay      []time.Duration // of the snapshots
	}{
		"the only one is older than the retention":   {[]time.Duration{30 * time.Hour}, []time.Duration{30 * time.Hour}},
		"one is older, and one is not":               {[]time.Duration{30 * time.Hour, 6 * time.Hour}, []time.Duration{30 * time.Hour, 6 * time.Hour}},
		"two are older: the newer of them is enough": {[]time.Duration{35 * time.Hour, 30 * time.Hour, 6 * time.Hour}, []time.Duration{30 * time.Hour, 6 * time.Hour}},
		"none is older": {[]time.Duration{20 * time.Hour, 6 * time.Hour}, []time.Duration{20 * time.Hour, 6 * time.Hour}},
	} {
		all := filesOf(now, c.snapshots...)
		d := &database{agent: &Agent{cfg: Config{Retention: 24 * time.Hour, L0Retention: 5 * time.Minute}}}
		d.known = all
		d.stored.TXID = 40 * 60
		keep, gone := d.sort(now)
		if len(keep)+len(gone) != len(all) {
			t.Errorf("%s: %d files were kept and %d removed of %d", name, len(keep), len(gone), len(all))
		}
		var stay []time.Duration
		for _, f := range keep {
			if f.Level == snapshotLevel {
				stay = append(stay, now.Sub(f.Time))
			}
		}
		slices.Sort(c.stay)
		if !slices.Equal(slices.Sorted(slices.Values(stay)), c.stay) {
			t.Errorf("%s: the snapshots of %v ago stay, and not those of %v", name, stay, c.stay)
		}
		base := slices.Max(stay)
		for _, f := range gone {
			switch ago := now.Sub(f.Time); {
			case f.Level == 1 && ago < base:
				t.Errorf("%s: %s of %v ago is removed, and the snapshot before it stays", name, f, ago)
			case f.Level == 0 && ago < 5*time.Minute:
				t.Errorf("%s: %s of %v ago is removed", name, f, ago)
			}
		}
		for _, f := range keep {
			if ago := now.Sub(f.Time); f.Level == 0 && ago > time.Hour || f.Level == 1 && ago > base && base > 24*time.Hour {
				t.Errorf("%s: %s of %v ago stays", name, f, ago)
			}
		}
	}
}

// TestTheFirstGroupStaysUntilAFileEndsSoonAfterIt: a snapshot that comes a day later is no replacement for the states before it.
func TestTheFirstGroupStaysUntilAFileEndsSoonAfterIt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	group := func(id replica.TXID, ago time.Duration) replica.File {
		return replica.File{Min: id, Max: id, Time: at(ago), Size: 500}
	}
	d := &database{agent: &Agent{cfg: Config{Retention: 24 * time.Hour, L0Retention: 5 * time.Minute}}}
	d.known = []replica.File{
		group(1, 20*time.Hour), group(2, 19*time.Hour), group(3, 4*time.Minute), group(4, 3*time.Minute), group(5, time.Minute),
		{Level: 1, Min: 3, Max: 5, Time: at(time.Minute), Size: 500},
		{Level: snapshotLevel, Min: 1, Max: 5, Time: at(time.Minute), Size: 500},
	}
	d.stored.TXID = 5
	if _, gone := d.sort(now); len(gone) > 0 {
		t.Errorf("%v are removed, and no other file has the states of the last day", gone)
	}
	// The groups of one file of level 1 go together, when its last one is old enough.
	if _, gone := d.sort(now.Add(3 * time.Minute)); len(gone) > 0 {
		t.Errorf("%v are removed, and others of the same file are not", gone)
	}
	d.known = append(d.known, group(6, -4*time.Minute))
	d.stored.TXID = 6
	if _, gone := d.sort(now.Add(5 * time.Minute)); !slices.EqualFunc(gone, d.known[2:5], func(a, b replica.File) bool { return a.Min == b.Min }) {
		t.Errorf("%v are removed, and not the groups of the file of level 1", gone)
	}
}

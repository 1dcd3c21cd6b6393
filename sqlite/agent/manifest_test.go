package agent

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
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

// TestWhenTheManifestIsWritten: when the database has been left alone for five intervals, a minute after the last one, and at the end.
func TestWhenTheManifestIsWritten(t *testing.T) {
	r := newRig(t)
	r.cfg.Interval = time.Second
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	now, stored, files := h.now(), h.stored, h.files
	for name, c := range map[string]struct {
		changed, tidy time.Duration // ago
		set           func()
		want          bool
	}{
		"a commit has just come":              {0, 0, nil, false},
		"it is left alone for a moment less":  {5*time.Second - 1, 5 * time.Second, nil, false},
		"it is left alone":                    {5 * time.Second, 5 * time.Second, nil, true},
		"commits come for less than a minute": {0, time.Minute - 1, nil, false},
		"commits come for a minute":           {0, time.Minute, nil, true},
		"the agent ends":                      {0, 0, func() { h.ending = now }, true},
		"there is nothing new to say":         {time.Hour, time.Hour, func() { h.stale = false }, false},
		"it is on its way":                    {time.Hour, time.Hour, func() { h.mending = true }, false},
		"the database is not open":            {time.Hour, time.Hour, func() { h.files = nil }, false},
		"nothing is stored":                   {time.Hour, time.Hour, func() { h.stored = replica.Head{} }, false},
		"a fence is all that this owner has":  {time.Hour, time.Hour, func() { h.stored.Fence = true }, false},
	} {
		h.stale, h.mending, h.files, h.stored, h.ending = true, false, files, stored, time.Time{}
		h.changed, h.tidy = now.Add(-c.changed), now.Add(-c.tidy)
		if c.set != nil {
			c.set()
		}
		h.manifest(now)
		if got := h.jobs == 1; got != c.want {
			t.Errorf("%s: it is written: %v", name, got)
		}
		h.work()
		if h.jobs != 0 {
			t.Fatalf("%s: %d jobs are left", name, h.jobs)
		}
		if c.want && (h.stale || h.mending || h.tidy != now) {
			t.Errorf("%s: it is to be written again", name)
		}
	}
	h.files, h.stored = files, stored
}

// TestAManifestThatCannotBeWritten: what that means for the database depends on the reason.
func TestAManifestThatCannotBeWritten(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		phase gate.Refuse
		stale bool
	}{
		"another agent has the replica":        {replica.ErrFenced, gate.Fenced, false},
		"an earlier owner wrote one since":     {replica.ErrOutdated, gate.Opening, false},
		"the store is another one":             {objstore.ErrSwapped, gate.InDoubt, false},
		"the attempt has to be made once more": {capture.ErrChanged, gate.Open, true},
	} {
		r := newRig(t)
		db := r.connect()
		r.exec(db, "create table t (x)")
		h := r.followed(gate.Archive)
		h.stale, h.changed = true, time.Time{}
		r.store.fails.Store(&c.err)
		h.manifest(h.now())
		h.work()
		if h.phase != c.phase || h.stale != c.stale || h.jobs != 0 || h.mending {
			t.Errorf("%s: phase %d, to be written again: %v, %d jobs, on its way: %v", name, h.phase, h.stale, h.jobs, h.mending)
		}
	}
}

// TestAManifestOfAnEarlierTimeChangesNothing: the database was left and taken over again before the answer came.
func TestAManifestOfAnEarlierTimeChangesNothing(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	h.stale, h.changed = true, time.Time{}
	h.manifest(h.now())
	h.times++
	h.work()
	if !h.mending || h.jobs != 0 {
		t.Errorf("the manifest of the later time is on its way: %v, %d jobs", h.mending, h.jobs)
	}
}

// TestWhatAFileReplacesIsRemovedBehindTheManifest: one request, or none where nothing is replaced. One that fails is a warning.
func TestWhatAFileReplacesIsRemovedBehindTheManifest(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := newRig(t)
		db := r.connect()
		r.exec(db, "create table t (x)")
		h := r.followed(gate.Archive)
		first := h.known[0]
		write := func() (requests int64) {
			before := h.agent.requests.count
			h.stale, h.changed = true, time.Time{}
			h.manifest(h.now())
			h.work()
			return h.agent.requests.count - before
		}
		if n := write(); n != 1 {
			t.Errorf("a manifest that replaces nothing takes %d requests", n)
		}
		r.exec(db, "insert into t values (1)")
		h.time.Advance(h.agent.cfg.Interval)
		h.turn()
		f := replica.File{Level: 1, Min: 1, Max: h.stored.TXID, Time: h.now()}
		h.known = append(h.known, f)
		h.time.Advance(h.agent.cfg.L0Retention + time.Second)
		if fails {
			r.store.Store = undeleted{r.store.Store}
		}
		if n := write(); n != 2 {
			t.Errorf("a manifest that replaces a group takes %d requests", n)
		}
		_, _, err := r.store.GetVersion(t.Context(), r.replica().Name(first))
		if gone := errors.Is(err, objstore.ErrAbsent); gone == fails {
			t.Errorf("the group is gone: %v, and removing it fails: %v", gone, fails)
		}
		if slices.Contains(h.known, first) {
			t.Error("the group is still known")
		}
		if n := r.log.count("remove files that others replace"); (n == 1) != fails {
			t.Errorf("removing fails: %v, and %d warnings", fails, n)
		}
	}
}

// undeleted is a store that removes nothing.
type undeleted struct{ objstore.Store }

func (undeleted) Delete(context.Context, ...string) error { return errDown }

// TestWhatARestoreMayNeedStays, to the moment. A file goes when it is older than the time for which it is kept, and not when it is as old.
func TestWhatARestoreMayNeedStays(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const day, short = 24 * time.Hour, 5 * time.Minute
	file := func(level int, min, max replica.TXID, ago time.Duration) replica.File {
		return replica.File{Level: level, Min: min, Max: max, Time: now.Add(-ago)}
	}
	last := file(0, 99, 99, 0)
	for name, c := range map[string]struct {
		known []replica.File
		gone  []int // of known
	}{
		"the groups of a file of level 1 that is as old as they are kept": {[]replica.File{file(0, 5, 5, time.Hour), file(1, 5, 6, short)}, nil},
		"the groups of an older one":                                      {[]replica.File{file(0, 5, 5, time.Hour), file(0, 6, 6, time.Hour), file(1, 5, 6, short+1)}, []int{0, 1}},
		"a group that begins before it":                                   {[]replica.File{file(0, 4, 4, time.Hour), file(1, 5, 6, short+1)}, nil},
		"a group that ends behind it":                                     {[]replica.File{file(0, 7, 7, time.Hour), file(1, 5, 6, short+1)}, nil},
		"a group that a file of level 2 has":                              {[]replica.File{file(0, 5, 5, time.Hour), file(2, 5, 6, time.Hour)}, nil},
		"a file of level 1 that another has":                              {[]replica.File{file(1, 5, 5, time.Hour), file(1, 5, 6, time.Hour)}, nil},
		"a group that is as old as groups are kept":                       {[]replica.File{file(0, 5, 5, short), file(1, 5, 6, time.Hour)}, nil},
		"before a snapshot that is as old as they are kept":               {[]replica.File{file(1, 2, 4, 2*day), file(9, 1, 5, day)}, nil},
		"before an older one":                                             {[]replica.File{file(1, 2, 4, 2*day), file(9, 1, 5, day+1)}, []int{0}},
		"up to the end of an older one":                                   {[]replica.File{file(1, 2, 5, 2*day), file(9, 1, 5, day+1)}, []int{0}},
		"past an older one":                                               {[]replica.File{file(1, 2, 6, 2*day), file(9, 1, 5, day+1)}, nil},
		"before an older one, and not old itself":                         {[]replica.File{file(1, 2, 4, day), file(9, 1, 5, day+1)}, nil},
		"a fence before an older one":                                     {[]replica.File{{Min: 3, Max: 3, Fence: true, Time: now.Add(-2 * day)}, file(9, 1, 5, day+1)}, nil},
		"a file whose time is not known":                                  {[]replica.File{{Min: 3, Max: 3}, file(9, 1, 5, day+1)}, nil},
	} {
		d := &database{agent: &Agent{cfg: Config{Retention: day, L0Retention: short}}}
		d.known, d.stored.TXID = append(slices.Clone(c.known), last), 99
		keep, gone := d.sort(now)
		var want []replica.File
		for _, i := range c.gone {
			want = append(want, c.known[i])
		}
		if !slices.Equal(gone, want) || len(keep)+len(gone) != len(d.known) || !slices.Contains(keep, last) {
			t.Errorf("%s: %v are removed, want %v; %v stay", name, gone, want, keep)
		}
	}
}

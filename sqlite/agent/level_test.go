package agent

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// TestASnapshotIsDueWhenTheLastOneIsOld: an agent that takes a replica over makes the next snapshot Config.Snapshot after the newest one.
// It makes none where a snapshot already has the newest state.
func TestASnapshotIsDueWhenTheLastOneIsOld(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	snapshot := func(max replica.TXID, ago time.Duration) replica.File {
		return replica.File{Level: snapshotLevel, Min: 1, Max: max, Time: now.Add(-ago)}
	}
	group := replica.File{Min: 9, Max: 9, Time: now}
	head := replica.Head{TXID: 9, Time: now}
	for name, c := range map[string]struct {
		chain replica.Chain
		want  time.Time // zero: none is due
		from  replica.TXID
	}{
		"an empty replica":               {replica.Chain{}, time.Time{}, 0},
		"no snapshot: at once":           {replica.Chain{Head: head, Files: []replica.File{group}}, time.Time{}.Add(24 * time.Hour), 0},
		"an old one":                     {replica.Chain{Head: head, Files: []replica.File{group, snapshot(5, time.Hour)}}, now.Add(23 * time.Hour), 5},
		"two old ones":                   {replica.Chain{Head: head, Files: []replica.File{snapshot(7, time.Hour), snapshot(5, 2*time.Hour)}}, now.Add(23 * time.Hour), 7},
		"one that has the newest state":  {replica.Chain{Head: head, Files: []replica.File{group, snapshot(9, time.Hour)}}, time.Time{}, 9},
		"the first group has everything": {replica.Chain{Head: replica.Head{TXID: 1}, Files: []replica.File{{Min: 1, Max: 1, Time: now}}}, time.Time{}, 1},
	} {
		d := &database{agent: &Agent{cfg: Config{Snapshot: 24 * time.Hour, Levels: []time.Duration{time.Minute, time.Hour}}}}
		d.makeLevels(&c.chain)
		if len(d.levels) != 3 {
			t.Fatalf("%s: %d levels", name, len(d.levels))
		}
		for i, want := range []int{1, 2, snapshotLevel} {
			if l := d.levels[i]; l.number != want || want != snapshotLevel && (l.from != c.chain.Head || !l.due.IsZero()) {
				t.Errorf("%s: level %d begins at %+v, due %v", name, l.number, l.from, l.due)
			}
		}
		if l := d.levels[2]; !l.due.Equal(c.want) || l.from.TXID != c.from {
			t.Errorf("%s: a snapshot behind TXID %d is due at %v, want %d and %v", name, l.from.TXID, l.due, c.from, c.want)
		}
	}
}

// TestATakeoverOfAWholeReplicaMakesNoSnapshot: only missing files make one due before its time.
func TestATakeoverOfAWholeReplicaMakesNoSnapshot(t *testing.T) {
	r := newRig(t)
	r.exec(r.connect(), "create table t (x)")
	h := r.followed(gate.Archive)
	if l := h.levels[len(h.levels)-1]; l.number != snapshotLevel || l.due.Sub(h.now()) < time.Hour {
		t.Errorf("a snapshot is due %v after the takeover", l.due.Sub(h.now()))
	}
}

// TestTheNextFileOfALevel is the one that is due first. A database does not come to rest for less time than it is left alone before.
func TestTheNextFileOfALevel(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := &database{agent: &Agent{cfg: Config{Interval: time.Second}}}
	rest := d.agent.restful()
	for _, c := range []struct {
		due  []time.Duration // from now; 0: none
		next time.Duration
		soon bool
	}{
		{nil, 0, false},
		{[]time.Duration{0, 0}, 0, false},
		{[]time.Duration{time.Hour, time.Minute, 0}, time.Minute, false},
		{[]time.Duration{time.Minute, time.Hour}, time.Minute, false},
		{[]time.Duration{time.Minute, -time.Second}, -time.Second, true},
		{[]time.Duration{rest - 1}, rest - 1, true},
		{[]time.Duration{rest}, rest, false},
	} {
		d.levels = nil
		for _, due := range c.due {
			l := &level{}
			if due != 0 {
				l.due = now.Add(due)
			}
			d.levels = append(d.levels, l)
		}
		if at := d.nextDue(); at.IsZero() != (c.next == 0) || c.next != 0 && !at.Equal(now.Add(c.next)) {
			t.Errorf("due in %v: the next one is at %v", c.due, at)
		}
		if got := d.dueSoon(now); got != c.soon {
			t.Errorf("due in %v: too soon to rest: %v", c.due, got)
		}
	}
}

// levelsThere are the numbers of the levels that the manifest has files of, once it says all that is known.
func (h *hand) levelsThere() (numbers []int) {
	h.turns(func() bool { return !h.stale && !h.mending })
	for _, f := range h.r.chain().Files {
		if !slices.Contains(numbers, f.Level) {
			numbers = append(numbers, f.Level)
		}
	}
	return numbers
}

// TestAFileOfALevelIsMadeWhenItIsDue, also where the files were closed meanwhile because no program had them open. Then the database rests.
func TestAFileOfALevelIsMadeWhenItIsDue(t *testing.T) {
	r := newRig(t)
	r.cfg.Levels = []time.Duration{time.Minute}
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	db.Close()
	for h.files.Open() { // its last connection has gone
		h.rests()
	}
	if got := h.levelsThere(); slices.Contains(got, 1) {
		t.Fatalf("there are files of the levels %v before one is due", got)
	}
	h.time.Advance(time.Minute)
	h.levelsDue(h.now())
	if h.jobs != 1 {
		t.Errorf("%d files are on their way, want that of level 1", h.jobs)
	}
	h.work()
	if got := h.levelsThere(); !slices.Contains(got, 1) || h.jobs != 0 {
		t.Errorf("there are files of the levels %v, and %d are on their way", got, h.jobs)
	}
	h.rests()
}

// TestAFileOfALevelIsNotMadeOfADatabaseThatIsGone.
func TestAFileOfALevelIsNotMadeOfADatabaseThatIsGone(t *testing.T) {
	r := newRig(t)
	r.cfg.Levels = []time.Duration{time.Minute}
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	db.Close()
	h.files.Close()
	if err := os.Rename(r.path, r.path+".gone"); err != nil {
		t.Fatal(err)
	}
	h.time.Advance(time.Minute)
	h.levelsDue(h.now())
	if h.jobs != 0 || h.nextDue().After(h.now()) {
		t.Errorf("%d files are on their way, and the next one is due at %v", h.jobs, h.nextDue())
	}
}

// TestALargeSnapshotIsNotKeptInMemory: one larger than a third of the waiting room is read from the database while it is sent. The database
// stays unchanged until then. A smaller one is kept, and the database goes on at once.
func TestALargeSnapshotIsNotKeptInMemory(t *testing.T) {
	for _, c := range []struct {
		bytes int
		view  bool
	}{{100 << 10, false}, {mostKept/3 + 100<<10, true}} {
		r := newRig(t)
		db := r.connect()
		r.exec(db, "create table t (x)")
		r.exec(db, "insert into t values (zeroblob(?))", c.bytes)
		h := r.followed(gate.Archive)
		h.snapshotNow()
		h.levelsDue(h.now())
		if h.jobs != 1 || h.view != c.view {
			t.Errorf("%d bytes: %d files are on their way, one that reads the database: %v", c.bytes, h.jobs, h.view)
		}
		h.work()
		if h.jobs != 0 || h.view || !slices.Contains(h.levelsThere(), snapshotLevel) {
			t.Errorf("%d bytes: %d files are on their way, one that reads the database: %v; the levels are %v", c.bytes, h.jobs, h.view, h.levelsThere())
		}
	}
}

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestCommitsAreToldApart: by their place in the WAL, whether the message or the capture comes first.
func TestCommitsAreToldApart(t *testing.T) {
	now := time.Now()
	salt := [8]byte{1}
	group := func(frames ...uint32) *capture.Group {
		return &capture.Group{State: capture.State{Position: walfile.Position{Salt: salt}}, Salt: salt, Commits: frames, Pages: make([]capture.Page, 1)}
	}
	found := &capture.Group{Pages: make([]capture.Page, 1), Found: true}
	late := now.Add(2 * witnessGrace)
	for name, c := range map[string]struct {
		do    func(w *witness)
		at    time.Time
		excus time.Time
		conns int
		want  int64
		left  int
	}{
		"announced before":           {func(w *witness) { w.announce(position{salt, 3}); w.captured(group(3), now) }, now, time.Time{}, 1, 0, 0},
		"announced after":            {func(w *witness) { w.captured(group(3), now); w.announce(position{salt, 3}) }, now, time.Time{}, 1, 0, 0},
		"one of two":                 {func(w *witness) { w.announce(position{salt, 5}); w.captured(group(3, 5), now) }, late, time.Time{}, 1, 1, 0},
		"of another WAL":             {func(w *witness) { w.announce(position{[8]byte{2}, 3}); w.captured(group(3), now) }, late, time.Time{}, 1, 1, 0},
		"no connection at all":       {func(w *witness) { w.captured(group(3, 4), now) }, now, time.Time{}, 0, 2, 0},
		"not announced yet":          {func(w *witness) { w.captured(group(3), now) }, now, time.Time{}, 1, 0, 1},
		"never announced":            {func(w *witness) { w.captured(group(3), now) }, late, time.Time{}, 1, 1, 0},
		"a connection ended":         {func(w *witness) { w.captured(group(3), now) }, late, now, 1, 0, 0},
		"one ended long before":      {func(w *witness) { w.captured(group(3), now) }, late, now.Add(-time.Minute), 1, 1, 0},
		"found by reading":           {func(w *witness) { w.captured(found, now) }, late, time.Time{}, 0, 1, 0},
		"found, and announced":       {func(w *witness) { w.announce(position{salt, 3}); w.captured(found, now) }, late, time.Time{}, 1, 0, 0},
		"an old announcement is not": {func(w *witness) { w.announce(position{salt, 3}); w.captured(found, now); w.captured(group(3), now) }, late, time.Time{}, 1, 1, 0},
	} {
		var w witness
		c.do(&w)
		if n := w.judge(c.at, c.excus, c.conns); n != c.want || len(w.silent) != c.left {
			t.Errorf("%s: %d commits without the extension, %d undecided, want %d and %d", name, n, len(w.silent), c.want, c.left)
		}
	}
}

// TestACommitWithoutTheExtensionIsSaid at the first one, under archive and not under local, beside connections that have it and without
// any. Where it is required, the agent is to be ended.
func TestACommitWithoutTheExtensionIsSaid(t *testing.T) {
	for _, beside := range []bool{false, true} {
		for _, ack := range []gate.Ack{gate.Local, gate.Archive} {
			t.Run(ack.String()+map[bool]string{true: "-beside"}[beside], func(t *testing.T) {
				r := saying(t)
				r.cfg.RequireExtension = true
				db := r.connect()
				r.exec(db, "create table t (x)")
				a := r.start(ack)
				if beside {
					e := r.extension()
					if code := r.announced(db, e, "insert into t values (1)"); code != gate.Done {
						t.Fatal(code)
					}
					if _, err := a.Sync(t.Context(), r.path); err != nil {
						t.Fatal(err)
					}
				}
				r.quiet(a) // before there was one
				r.exec(db, "insert into t values (2)")
				if ack == gate.Local {
					wait.Until(t, "it is stored", func() bool { v := a.Views()[0]; return v.Stored > 1 && !v.Uncaptured })
					if a.Fault() != nil || alarms(a) != "" {
						t.Errorf("under local: %v, alarms %s", a.Fault(), alarms(a))
					}
					r.stop(a)
					return
				}
				select {
				case <-a.Broken():
				case <-time.After(wait.Limit(t)):
					t.Fatal("the agent goes on")
				}
				if err := a.Fault(); !strings.Contains(err.Error(), r.path) || alarms(a) != "extension" || a.Views()[0].Without < 1 {
					t.Errorf("%v, alarms %s, %d commits", err, alarms(a), a.Views()[0].Without)
				}
				r.stop(a)
				if n := r.log.count("a commit was made by a program without the extension"); n != 1 {
					t.Errorf("it is said %d times", n)
				}
			})
		}
	}
}

// TestCommitsThatAreAnnouncedRaiseNothing, however fast they come, and with another one that leaves.
func TestCommitsThatAreAnnouncedRaiseNothing(t *testing.T) {
	r := saying(t)
	r.cfg.RequireExtension = true
	db := r.connect()
	r.exec(db, "create table t (x)")
	a := r.start(gate.Archive)
	e := r.extension()
	for range 100 {
		if code := r.announced(db, e, "insert into t values (1)"); code != gate.Done {
			t.Fatal(code)
		}
	}
	began := time.Now()
	r.exec(db, "insert into t values (1)")
	e.conn.Close() // killed before it could say so
	r.slowest = max(r.slowest, time.Since(began))
	time.Sleep(3 * witnessGrace / 2)
	r.quiet(a)
	r.stop(a)
}

// TestTheTimesOfAWitness: an announcement may come 200 ms behind its commit's capture, and a message that names no commit explains those within two
// seconds of it.
func TestTheTimesOfAWitness(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after   time.Duration // of the capture
		excused time.Duration // before the capture; 0: never
		conns   int
		n       int64
		left    int
	}{
		{0, 0, 1, 0, 1},
		{witnessGrace - 1, 0, 1, 0, 1},
		{witnessGrace, 0, 1, 1, 0},
		{0, 0, 0, 1, 0}, // no connection could announce it
		{time.Minute, witnessExcuse - 1, 1, 0, 0},
		{time.Minute, witnessExcuse, 1, 1, 0},
		{time.Minute, 1 - witnessExcuse, 1, 0, 0},
		{time.Minute, -witnessExcuse, 1, 1, 0},
	} {
		w := witness{silent: []silent{{at: now}}}
		excused := time.Time{}
		if c.excused != 0 {
			excused = now.Add(-c.excused)
		}
		if n := w.judge(now.Add(c.after), excused, c.conns); n != c.n || len(w.silent) != c.left {
			t.Errorf("%v after the capture, explained %v before it, %d connections: %d commits without the extension and %d undecided, want %d and %d", c.after, c.excused,
				c.conns, n, len(w.silent), c.n, c.left)
		}
		if len(w.silent) == 0 && w.silent != nil {
			t.Error("a witness of nothing keeps memory")
		}
	}
}

// TestAWitnessIsBounded, however many commits are announced and never captured, or captured and never announced.
func TestAWitnessIsBounded(t *testing.T) {
	var w witness
	for i := range uint32(witnessMost + 10) {
		w.announce(position{frame: i})
	}
	if len(w.announced) != witnessMost {
		t.Errorf("%d announcements are kept, want %d", len(w.announced), witnessMost)
	}
	commits := make([]uint32, 2*witnessMost)
	for i := range commits {
		commits[i] = uint32(i)
	}
	w.captured(&capture.Group{Commits: commits, Pages: make([]capture.Page, 1)}, time.Now())
	if len(w.silent) != witnessMost || len(w.announced) != 0 {
		t.Errorf("%d commits and %d announcements are kept, want %d and none", len(w.silent), len(w.announced), witnessMost)
	}
	// Each announcement that comes late takes its own commit out.
	first, last := w.silent[0].position, w.silent[witnessMost-1].position
	w.announce(w.silent[1].position)
	if len(w.silent) != witnessMost-1 || w.silent[0].position != first || w.silent[len(w.silent)-1].position != last || w.announced != nil {
		t.Errorf("%d commits are left, from %v to %v, want %d from %v to %v", len(w.silent), w.silent[0].position, w.silent[len(w.silent)-1].position, witnessMost-1, first, last)
	}
	w = witness{}
	w.captured(&capture.Group{}, time.Now()) // a group without a page is no commit
	if len(w.silent) != 0 {
		t.Error("a group without a page counts as a commit")
	}
}

// TestWhatAMessageExplains: one that names the place of a commit is an announcement. One of a connection with exclusive access explains
// commits near in time. Callers of Sync, and databases under ack local, explain nothing.
func TestWhatAMessageExplains(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	conn := gate.NewConn(gate.Hello{}, nil)
	for name, c := range map[string]struct {
		ack       gate.Ack
		w         waiter
		announced int
		excused   bool
	}{
		"a commit":                {gate.Archive, waiter{conn: conn}, 1, false},
		"a commit of a lone one":  {gate.Archive, waiter{conn: conn, commit: gate.Commit{Lone: true}}, 0, true},
		"a caller of Sync":        {gate.Archive, waiter{commit: gate.Commit{Lone: true}}, 0, false},
		"a commit under local":    {gate.Local, waiter{conn: conn}, 0, false},
		"a lone one, under local": {gate.Local, waiter{conn: conn, commit: gate.Commit{Lone: true}}, 0, false},
	} {
		d := &database{target: Target{Ack: c.ack}}
		c.w.came = at
		d.heard(&c.w)
		if len(d.witness.announced) != c.announced || d.excused.Equal(at) != c.excused {
			t.Errorf("%s: %d announcements, and something is explained: %v", name, len(d.witness.announced), d.excused)
		}
	}
}

// TestCommitsWithoutTheExtensionAreCounted, with the time of the first. Where the extension is required the first one ends the agent, and its reason stays.
func TestCommitsWithoutTheExtensionAreCounted(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	first := h.now()
	for i := range 3 {
		h.agent.cfg.RequireExtension = i > 0
		h.witness.silent = []silent{{at: h.now()}, {at: h.now()}}
		h.watchCommits(h.now())
		if v := h.stands(); v.Without != int64(2*i+2) || !v.WithoutSince.Equal(first) {
			t.Errorf("turn %d: %d commits since %v", i, v.Without, v.WithoutSince)
		}
		if err := h.agent.Fault(); (err != nil) != (i > 0) || err != nil && !strings.Contains(err.Error(), h.target.Path) {
			t.Errorf("turn %d: the agent is to be ended because of %v", i, err)
		}
		h.time.Advance(time.Hour)
	}
	h.watchCommits(h.now()) // nothing came
	h.joins(gate.Hello{})
	h.witness.silent = []silent{{at: h.now()}}
	h.watchCommits(h.now()) // it may be announced yet
	if v := h.stands(); v.Without != 6 {
		t.Errorf("%d commits, want 6", v.Without)
	}
	h.target.Ack = gate.Local
	h.watchCommits(h.now().Add(time.Hour))
	if v := h.stands(); v.Without != 6 || len(h.witness.silent) != 1 {
		t.Errorf("under local: %d commits, want 6", v.Without)
	}
}

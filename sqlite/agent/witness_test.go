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

// TestACommitWithoutTheExtensionIsSaid at the first one, under archive and not under local, beside connections that have it and without any; where it is
// required, the agent is to be ended.
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

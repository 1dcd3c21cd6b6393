package agent

import (
	"os"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// resting is a database of which everything is stored and whose loop has ended; db, which is still open, has it open.
func resting(t *testing.T) (h *hand, r *rig, exec func(text string), leave func()) {
	r = newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h = r.followed(gate.Local)
	h.rests()
	h.running = true // the test decides when it rests
	return h, r, func(text string) { r.exec(db, text) }, func() { db.Close() }
}

// TestWhatKeepsADatabaseFromResting: any event between the loop's last look and its end.
func TestWhatKeepsADatabaseFromResting(t *testing.T) {
	h, _, exec, leave := resting(t)
	for name, c := range map[string]struct{ set, reset func() }{
		"a commit is announced":             {func() { h.arrived = make([]*waiter, 1) }, func() { h.arrived = nil }},
		"a program has written something":   {func() { h.noted = true }, func() { h.noted = false }},
		"the agent is to end":               {func() { h.ending = h.now() }, func() { h.ending = time.Time{} }},
		"work beside the loop has a result": {func() { h.returned = make([]func(), 1) }, func() { h.returned = nil }},
	} {
		c.set()
		if h.rest() || !h.running {
			t.Errorf("%s: it rests", name)
		}
		c.reset()
	}
	exec("insert into t values (1)")
	if h.rest() || !h.running {
		t.Error("a commit that is not captured: it rests")
	}
	h.rests()
	if h.running || !h.files.Open() {
		t.Error("it does not rest with its files open, which a program shares")
	}
	leave()
	h.rests()
	if h.files.Open() {
		t.Error("no program has the files open, and they are not closed")
	}
	h.mu.Lock()
	h.ended, h.running = true, false
	h.mu.Unlock()
	h.arrived = make([]*waiter, 1)
	if !h.rest() {
		t.Error("a loop that has ended for good goes on")
	}
	h.arrived = nil
}

// TestWhatWakesADatabaseThatRests: files that were written to, and the file of a level that is due. When its last connection has gone, its files are
// closed, so that the next one may have them for itself.
func TestWhatWakesADatabaseThatRests(t *testing.T) {
	h, _, exec, leave := resting(t)
	h.rests()
	woken := func() bool {
		h.look()
		was := len(h.tasks) > 0
		h.tasks = nil // the loop is turned by the test
		h.running = false
		if was {
			h.agent.work.Done()
		}
		return was
	}
	h.due = time.Time{}
	if woken() || !h.files.Open() {
		t.Error("nothing has happened, and it is woken")
	}
	h.due = h.now()
	if woken() {
		t.Error("a level that is due at this moment wakes it: the loop would find nothing due")
	}
	h.due = h.now().Add(-1)
	if !woken() {
		t.Error("a level that is due does not wake it")
	}
	h.due = h.now().Add(time.Hour)
	exec("insert into t values (1)")
	if !woken() || !h.noted {
		t.Error("a commit does not wake it")
	}
	exec("insert into t values (2)")
	for name, c := range map[string]struct{ set, reset func() }{
		"a loop that runs":     {func() { h.running = true }, func() {}},
		"a loop that ended":    {func() { h.ended = true }, func() { h.ended = false }},
		"another agent has it": {func() { h.phase = gate.Fenced }, func() { h.phase = gate.Open }},
	} {
		c.set()
		if woken() {
			t.Errorf("%s is woken", name)
		}
		c.reset()
	}
	if !woken() {
		t.Error("the commit does not wake it")
	}
	h.rests()
	h.due = time.Time{}
	leave()
	woken() // closing copied the WAL into the database
	h.rests()
	if h.files.Open() {
		t.Error("the files of a database that no program has open stay open")
	}
}

// TestAnEndStoresWhatIsThere, makes it durable, and leaves a state with which the next agent resumes. It captures once, and once more behind work that
// was on its way.
func TestAnEndStoresWhatIsThere(t *testing.T) {
	var captures [2]int64 // by the jobs on their way when the end is asked for
	for _, c := range []struct {
		name   string
		jobs   int
		closed bool // the files
	}{{"at rest", 0, false}, {"beside other work", 1, false}, {"with its files closed", 0, true}} {
		name := c.name
		r := newRig(t)
		db := r.connect()
		r.exec(db, "create table t (x)")
		h := r.followed(gate.Local)
		if c.closed {
			db.Close()
			h.turns(func() bool { return !h.files.Open() })
		} else {
			r.exec(db, "insert into t values (1)")
		}
		syncs := h.said.syncs
		h.jobs += c.jobs
		h.ending = h.now()
		if next := h.turn(); next < 0 {
			t.Errorf("%s: it ends before its last commits are captured", name)
		}
		h.jobs -= c.jobs
		for next := time.Duration(0); next >= 0; h.time.Advance(max(next, 0)) {
			if next = h.turn(); h.ended != (next < 0) {
				t.Fatalf("%s: the loop wants its next turn after %v, and has ended: %v", name, next, h.ended)
			}
		}
		if !c.closed {
			captures[c.jobs] = h.said.syncs - syncs
		}
		if !h.outcome.Stored() || h.outcome.TXID != h.stored.TXID || h.files.Open() {
			t.Errorf("%s: it ends with %s; the files are open: %v", name, h.outcome, h.files.Open())
		}
		if k, ok, err := h.readState(); err != nil || !ok || !k.Clean || k.TXID != h.stored.TXID || k.Owner != h.owner {
			t.Errorf("%s: the state is %+v, %v, %v", name, k, ok, err)
		}
		if lines := h.warned(); len(lines) > 0 {
			t.Errorf("%s: the log warns: %q", name, lines)
		}
	}
	if captures[1] != captures[0]+1 {
		t.Errorf("%d captures beside other work, want one more than %d", captures[1], captures[0])
	}
}

// TestAnEndWithSomethingLeftIsNotClean: the next agent begins with a fence.
func TestAnEndWithSomethingLeftIsNotClean(t *testing.T) {
	for name, set := range map[string]func(h *hand){
		"a group is on its way":            func(h *hand) { h.ships = []*ship{{}} },
		"the file of a level is":           func(h *hand) { h.jobs = 1 },
		"nothing was stored":               func(h *hand) { h.stored.TXID = 0 },
		"its files cannot be opened again": func(h *hand) { h.files.Close(); _ = os.Rename(h.target.Path, h.target.Path+".gone") }, // checked below
	} {
		r := newRig(t)
		db := r.connect()
		r.exec(db, "create table t (x)")
		h := r.followed(gate.Local)
		set(h)
		h.abandoned, h.ending = true, h.now()
		if !h.concluded() || !h.ended {
			t.Errorf("%s: it does not end although nobody waits for it any more", name)
		}
		if k, _, err := h.readState(); err != nil || k.Clean {
			t.Errorf("%s: the state is %+v, %v", name, k, err)
		}
	}
}

// TestAnEndWaitsForWhatIsOnItsWay.
func TestAnEndWaitsForWhatIsOnItsWay(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	if h.concluded() {
		t.Fatal("it ends and nobody has asked for it")
	}
	h.ending, h.finalCapture, h.sure = h.now(), true, h.stored
	for name, c := range map[string]struct{ set, reset func() }{
		"a commit":                {func() { h.waiters = make([]*waiter, 1) }, func() { h.waiters = nil }},
		"a commit that just came": {func() { h.first = h.now() }, func() { h.first = time.Time{} }},
		"a group":                 {func() { h.ships = make([]*ship, 1) }, func() { h.ships = nil }},
		"the file of a level":     {func() { h.jobs = 1 }, func() { h.jobs = 0 }},
		"the manifest":            {func() { h.stale = true }, func() { h.stale = false }},
	} {
		c.set()
		if h.concluded() {
			t.Fatalf("it ends before %s is stored", name)
		}
		c.reset()
	}
	if !h.concluded() || !h.ended {
		t.Error("everything is stored, and it does not end")
	}
}

// TestAnEmptyFileIsNoDatabase, and neither is a missing one.
func TestAnEmptyFileIsNoDatabase(t *testing.T) {
	h := newRig(t).byHand(gate.Local)
	if h.isEmpty() {
		t.Error("a file that is not there is called empty")
	}
	if err := os.WriteFile(h.target.Path, nil, 0o600); err != nil || !h.isEmpty() {
		t.Errorf("a file without content is called full, %v", err)
	}
	if err := os.WriteFile(h.target.Path, []byte("x"), 0o600); err != nil || h.isEmpty() {
		t.Errorf("a file with a byte is called empty, %v", err)
	}
}

// TestAnEndWithoutADatabaseIsTheLoopsEnd.
func TestAnEndWithoutADatabaseIsTheLoopsEnd(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	h.turn()
	h.ending = h.now()
	if next := h.turn(); next >= 0 || !h.ended || h.outcome.Stored() {
		t.Errorf("the loop wants its next turn after %v, and ends with %q", next, h.outcome)
	}
}

package agent

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestHowMuchMayBeOnItsWay: eight groups, and twelve MiB of them in memory. The first group of a replica goes alone, and so does that of an owner
// without a fence.
func TestHowMuchMayBeOnItsWay(t *testing.T) {
	some := replica.Head{TXID: 1}
	for name, c := range map[string]struct {
		ships  int
		bytes  int64
		stored replica.Head
		alone  bool
		want   bool
	}{
		"nothing is on its way":              {0, 0, some, false, true},
		"seven groups":                       {perDatabase - 1, 0, some, false, true},
		"eight groups":                       {perDatabase, 0, some, false, false},
		"twelve MiB":                         {1, mostKept, some, false, true},
		"more than twelve MiB":               {1, mostKept + 1, some, false, false},
		"the first group of a replica":       {0, 0, replica.Head{}, false, true},
		"the second one":                     {1, 0, replica.Head{}, false, false},
		"the first group without a fence":    {0, 0, some, true, true},
		"the second group without a fence":   {1, 0, some, true, false},
		"a fence is all that is stored here": {1, 0, replica.Head{TXID: 3, Fence: true}, false, true},
	} {
		d := &database{chain: chain{ships: make([]*ship, c.ships), bytes: c.bytes, stored: c.stored, alone: c.alone}}
		if got := d.room(); got != c.want {
			t.Errorf("%s: another group may be made: %v", name, got)
		}
	}
}

// TestACommitWaitsForTheGroupThatHasIt and not for a later one. A message that does not say where its commit ends waits for all that was captured.
func TestACommitWaitsForTheGroupThatHasIt(t *testing.T) {
	salt, before := [8]byte{2}, [8]byte{1}
	at := func(salt [8]byte, frame uint32) walfile.Position { return walfile.Position{Salt: salt, Frame: frame} }
	d := &database{chain: chain{seq: 9, ships: []*ship{{seq: 6, end: at(before, 50)}, {seq: 7, end: at(salt, 10)}, {seq: 8, end: at(salt, 20)}}}}
	conn := gate.NewConn(gate.Hello{}, func([]byte) {})
	for name, c := range map[string]struct {
		w    waiter
		want uint64
	}{
		"inside the first group of this WAL":      {waiter{conn: conn, commit: gate.Commit{Salt: salt, Frame: 4}}, 7},
		"at the end of that group":                {waiter{conn: conn, commit: gate.Commit{Salt: salt, Frame: 10}}, 7},
		"behind it":                               {waiter{conn: conn, commit: gate.Commit{Salt: salt, Frame: 11}}, 8},
		"in the WAL before":                       {waiter{conn: conn, commit: gate.Commit{Salt: before, Frame: 50}}, 6},
		"behind every group that is on its way":   {waiter{conn: conn, commit: gate.Commit{Salt: salt, Frame: 21}}, 9},
		"in no WAL that is known":                 {waiter{conn: conn, commit: gate.Commit{Salt: [8]byte{3}, Frame: 1}}, 9},
		"of a connection that has it for itself":  {waiter{conn: conn, commit: gate.Commit{Lone: true, Salt: salt, Frame: 4}}, 9},
		"of a caller of Sync, which has no place": {waiter{commit: gate.Commit{Salt: salt, Frame: 4}}, 9},
	} {
		if got := d.covering(&c.w); got != c.want {
			t.Errorf("%s: the commit waits for group %d, want %d", name, got, c.want)
		}
	}
}

// TestWhenACommitIsReady: its group is stored, or captured if it asks for no more. A capture that reads the database while it is sent is not enough for
// a connection that has the database for itself.
func TestWhenACommitIsReady(t *testing.T) {
	for name, c := range map[string]struct {
		w       waiter
		streams int
		want    bool
	}{
		"not captured":                                 {waiter{need: 1}, 0, false},
		"stored":                                       {waiter{known: true, need: 5, commit: gate.Commit{Stored: true}}, 0, true},
		"stored, by an earlier group":                  {waiter{known: true, need: 4, commit: gate.Commit{Stored: true}}, 0, true},
		"captured, and to be stored":                   {waiter{known: true, need: 6, commit: gate.Commit{Stored: true}}, 0, false},
		"captured":                                     {waiter{known: true, need: 6}, 0, true},
		"captured beside a group that is read":         {waiter{known: true, need: 6}, 1, true},
		"captured, and alone":                          {waiter{known: true, need: 6, commit: gate.Commit{Lone: true}}, 0, true},
		"captured, and alone, and the group is read":   {waiter{known: true, need: 6, commit: gate.Commit{Lone: true}}, 1, false},
		"stored, and alone, and a later one is read":   {waiter{known: true, need: 5, commit: gate.Commit{Lone: true}}, 1, true},
		"not captured, and nothing of it is stored":    {waiter{need: 9, commit: gate.Commit{Stored: true}}, 0, false},
		"not captured, and asks for no more than that": {waiter{need: 9}, 0, false},
	} {
		d := &database{chain: chain{through: 5, streams: c.streams}}
		if got := d.ready(&c.w); got != c.want {
			t.Errorf("%s: it is ready: %v", name, got)
		}
	}
}

// TestNobodyIsLeftToCommit where every connection waits. Callers of Sync are no connections.
func TestNobodyIsLeftToCommit(t *testing.T) {
	for _, c := range []struct {
		clients, waiting, callers int
		want                      bool
	}{{0, 0, 0, false}, {2, 0, 0, false}, {2, 1, 0, false}, {2, 1, 1, false}, {2, 2, 0, true}, {2, 2, 3, true}, {1, 2, 0, true}, {0, 0, 2, false}} {
		d := &database{clients: make([]*gate.Conn, c.clients)}
		for range c.waiting {
			d.waiters = append(d.waiters, &waiter{conn: gate.NewConn(gate.Hello{}, nil)})
		}
		for range c.callers {
			d.waiters = append(d.waiters, &waiter{})
		}
		if got := d.everybodyWaits(); got != c.want {
			t.Errorf("%d connections, %d of them wait beside %d callers of Sync: nobody is left: %v", c.clients, c.waiting, c.callers, got)
		}
	}
}

// TestACommitThatIsLate is answered once AckTimeout has passed, and writes are refused until everything is stored. A caller of Sync has its own patience.
func TestACommitThatIsLate(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	c := h.joins(gate.Hello{})
	came := h.now()
	h.waiters = []*waiter{
		{conn: c.Conn, came: came, known: true, need: h.seq + 1, commit: gate.Commit{Stored: true}},
		{result: make(chan struct{}), came: came, known: true, need: h.seq + 1, commit: gate.Commit{Stored: true}},
	}
	h.seq++
	h.settle(came.Add(h.agent.cfg.AckTimeout))
	if len(c.done) != 0 || len(h.waiters) != 2 || !h.in(gate.Open) {
		t.Errorf("at AckTimeout: answers %v, %d wait", c.done, len(h.waiters))
	}
	h.settle(came.Add(h.agent.cfg.AckTimeout + 1))
	if !slices.Equal(c.done, []gate.Code{gate.NotStored}) || len(h.waiters) != 1 || !h.in(gate.InDoubt) {
		t.Errorf("behind AckTimeout: answers %v, %d wait", c.done, len(h.waiters))
	}
	h.through = h.seq
	caller := h.waiters[0]
	h.waiters = append(h.waiters, &waiter{result: make(chan struct{}), came: came})
	h.settle(came.Add(h.agent.cfg.AckTimeout + 2))
	if caller.err != nil || len(h.waiters) != 1 || !h.in(gate.InDoubt) {
		t.Errorf("everything is stored, and somebody waits: %v, %d wait", caller.err, len(h.waiters))
	}
	h.waiters = nil
	h.settle(came.Add(h.agent.cfg.AckTimeout + 3))
	if !h.in(gate.Open) {
		t.Error("everything is stored, and writes are refused")
	}
	h.enter(gate.InDoubt, "again")
	files := h.files
	h.files = nil
	h.settle(came)
	if !h.in(gate.InDoubt) {
		t.Error("writes are let through to a database that is not open")
	}
	h.files = files
	h.enter(gate.Fenced, "another agent")
	h.settle(came)
	if !h.in(gate.Fenced) {
		t.Error("writes are let through to a database of another agent")
	}
}

// TestWhatFailsForGoodAnswersCallers of Sync, and no commit: that one may still be stored in time.
func TestWhatFailsForGoodAnswersCallers(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	c := h.joins(gate.Hello{})
	caller := &waiter{result: make(chan struct{}), came: h.now()}
	h.waiters = []*waiter{{conn: c.Conn, came: h.now()}, caller}
	h.settle(h.now())
	if len(h.waiters) != 2 {
		t.Fatalf("%d wait, want both", len(h.waiters))
	}
	h.hopeless = errors.New("no such bucket")
	h.settle(h.now())
	if len(h.waiters) != 1 || len(c.done) != 0 || caller.err == nil {
		t.Errorf("%d wait, the commit is answered with %v and the caller with %v", len(h.waiters), c.done, caller.err)
	}
}

// TestACaptureThatFailsIsCounted, and raises an alarm until one succeeds.
func TestACaptureThatFailsIsCounted(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	for n := int64(1); n <= 2; n++ {
		h.uncaptured(errors.New("another mode"))
		if v := h.stands(); v.Failures != n || len(v.Alarms) != 1 || v.Trouble != "another mode" {
			t.Errorf("failure %d: %+v", n, v)
		}
	}
}

// TestTheStatusTellsTheLastTrouble, of every kind.
func TestTheStatusTellsTheLastTrouble(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	h.trouble(errors.New("first"))
	h.trouble(errors.New("second"))
	if v := h.stands(); v.Trouble != "second" {
		t.Errorf("the trouble is %q", v.Trouble)
	}
}

// TestACommitIntoAFileThatIsGoneIsRefusedAtOnce: another file has taken its place, and cannot be opened at the moment.
func TestACommitIntoAFileThatIsGoneIsRefusedAtOnce(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	is := h.files.ID()
	this, gone, old := h.joins(gate.Hello{File: is}), h.joins(gate.Hello{File: place.ID{Dev: is.Dev, Ino: is.Ino + 1}}), h.joins(gate.Hello{})
	old.Hello.File = place.ID{} // it does not say which file it has
	for _, c := range []*heardBy{this, gone, old} {
		h.commits(c, r.position())
	}
	h.files.Close()
	h.cannotOpen = walfile.ErrBusy
	h.turn()
	if len(this.done) != 0 || len(old.done) != 0 || !slices.Equal(gone.done, []gate.Code{gate.NotStored}) {
		t.Errorf("the commits are answered with %v, %v and %v", this.done, gone.done, old.done)
	}
	h.cannotOpen = nil
	h.turns(func() bool { return len(this.done) > 0 && len(old.done) > 0 })
}

// TestTheLoopLooksAgainWhenACommitMayStillBeAnnounced, and otherwise when the next capture is due.
func TestTheLoopLooksAgainWhenACommitMayStillBeAnnounced(t *testing.T) {
	r := newRig(t)
	r.cfg.Interval = time.Second
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	db.Close()
	h.rests()
	h.joins(gate.Hello{})
	for commits, want := range []time.Duration{time.Second, witnessGrace} {
		h.changed, h.witness.silent = h.now(), nil
		for range commits {
			h.witness.silent = append(h.witness.silent, silent{at: h.now()})
		}
		if next := h.turn(); next != want {
			t.Errorf("%d commits are not announced yet: the next turn comes after %v, want %v", commits, next, want)
		}
	}
}

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// TestTheStatusSaysHowADatabaseStands, in a line.
func TestTheStatusSaysHowADatabaseStands(t *testing.T) {
	for _, c := range []struct {
		v    View
		want string
	}{
		{View{URL: "u", Ack: gate.Local}, "ack local, nothing is stored in u yet"},
		{View{URL: "u", Ack: gate.Local, Followed: true}, "ack local, stored up to TXID 0000000000000000 in u, captured up to 0000000000000000, 0 on the way"},
		{View{URL: "u", Ack: gate.Archive, Stored: 2, Captured: 4, OnTheWay: 2},
			"ack archive, stored up to TXID 0000000000000002 in u, captured up to 0000000000000004, 2 on the way"},
		{View{URL: "u", Ack: gate.Local, Phase: gate.InDoubt, Reason: "late"}, "ack local, nothing is stored in u yet; writes are refused: late"},
		{View{URL: "u", Ack: gate.Local, Unfenced: true}, "ack local, nothing is stored in u yet; fencing is off, because the store ignores conditions"},
		{View{URL: "u", Ack: gate.Local, Trouble: "x"}, "ack local, nothing is stored in u yet; last trouble: x"},
		{View{URL: "u", Ack: gate.Local, Trouble: "x", Alarms: []Alarm{{Kind: "store", Text: "y"}}}, "ack local, nothing is stored in u yet; ALARM store: y"},
	} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.v, got, c.want)
		}
	}
}

// TestAViewTellsWhatIsOnItsWay: how many groups, the age of the oldest, and whether something was written since the last capture.
func TestAViewTellsWhatIsOnItsWay(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	h.report()
	if v := h.stands(); !v.Followed || v.OnTheWay != 0 || v.Behind != 0 || v.Uncaptured || v.Stored == 0 || v.Stored != v.Captured {
		t.Errorf("everything is stored: %+v", v)
	}
	r.exec(db, "insert into t values (1)")
	if v := h.stands(); !v.Uncaptured || v.Behind != 0 {
		t.Errorf("a commit that is not captured: %+v", v)
	}
	stored := h.stored.TXID
	h.time.Advance(h.agent.cfg.Interval)
	h.step(h.now()) // the upload does not begin
	h.time.Advance(time.Second)
	if v := h.stands(); v.OnTheWay != 1 || v.Behind != time.Second || v.Stored != stored || v.Captured != stored+1 {
		t.Errorf("a group on its way for a second: %+v", v)
	}
	h.time.Jump(-time.Minute)
	if v := h.stands(); v.Behind != 0 {
		t.Errorf("a clock that was set back: the oldest commit waits for %v", v.Behind)
	}
	h.time.Jump(time.Minute)
	h.work()
	h.report()
	if v := h.stands(); v.OnTheWay != 0 || v.Behind != 0 || v.Stored != stored+1 || v.Puts == 0 || v.PutBytes == 0 || v.PutFailures != 0 {
		t.Errorf("everything is stored again: %+v", v)
	}
	h.raise(alarmCapture, "another mode")
	h.report()
	if h.stands().Followed {
		t.Error("a database that cannot be captured is called followed")
	}
}

// TestTheOutcomeSaysWhatIsNotStored, and the reason.
func TestTheOutcomeSaysWhatIsNotStored(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Archive)
	files, stored := h.files, h.stored
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		set  func()
		want string // "": everything is stored
		txid replica.TXID
	}{
		"everything":                          {func() {}, "", stored.TXID},
		"another agent took it":               {func() { h.phase, h.reason = gate.Fenced, "taken" }, "taken", stored.TXID},
		"there is no database":                {func() { h.files, h.nowhere, h.stored = nil, true, replica.Head{} }, "there is no database at", 0},
		"it could not be read":                {func() { h.files, h.nowhere = nil, true; h.raise(alarmCapture, "another mode") }, "another mode", stored.TXID},
		"it was not opened":                   {func() { h.files = nil; h.raise(alarmOpen, "no answer") }, "no answer", stored.TXID},
		"it was not opened, nobody knows why": {func() { h.files = nil; h.reason = "soon" }, "it ended before the database was followed: soon", stored.TXID},
		"two alarms, the graver one first": {func() {
			h.files = nil
			h.raise(alarmStore, "slow")
			h.raise(alarmRefused, "refused")
		}, "refused", stored.TXID},
		"groups are on their way":            {func() { h.ships = make([]*ship, 2) }, "2 groups of commits are not in memory", stored.TXID},
		"groups are on their way, and why":   {func() { h.ships = make([]*ship, 1); h.raise(alarmStore, "no answer") }, "1 groups of commits are not in memory: no answer", stored.TXID},
		"the last commits cannot be read":    {func() { h.raise(alarmCapture, "another mode") }, "another mode", stored.TXID},
		"the store failed, and all is there": {func() { h.raise(alarmStore, "slow") }, "", stored.TXID},
		"the last capture was not made":      {func() { h.finalCapture = false }, "it ended before the last commits were captured", stored.TXID},
		"a commit came since":                {func() { h.first = at }, "it ended before the last commits were captured", stored.TXID},
		"nothing was ever stored":            {func() { h.stored = replica.Head{} }, "nothing of it is stored", 0},
		"a fence is all that came since": {func() {
			h.files, h.stored = nil, replica.Head{TXID: 99, Fence: true}
			h.lastGroup = replica.Head{TXID: 7}
			h.reason = "soon"
		}, "it ended before the database was followed", 7},
		"a fence, and the database is open": {func() { h.stored = replica.Head{TXID: 99, Fence: true} }, "", 99},
	} {
		h.phase, h.reason, h.files, h.nowhere, h.stored, h.alarms, h.ships, h.first, h.finalCapture = gate.Open, "", files, false, stored, nil, nil, time.Time{}, true
		c.set()
		o := h.conclusion()
		if o.Stored() != (c.want == "") || !strings.Contains(o.Why, c.want) || o.TXID != c.txid {
			t.Errorf("%s: %+v, want %q behind TXID %d", name, o, c.want, c.txid)
		}
	}
	h.files, h.ships = files, nil
}

// TestAnOutcomeIsALine.
func TestAnOutcomeIsALine(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		o    Outcome
		want string
	}{
		{Outcome{TXID: 9, Time: at}, "stored up to TXID 0000000000000009 at 2026-03-01T12:00:00Z"},
		{Outcome{TXID: 9, Time: at, Unfenced: true}, "stored up to TXID 0000000000000009 at 2026-03-01T12:00:00Z, without fencing"},
		{Outcome{Why: "x"}, "NOT STORED: x"},
		{Outcome{TXID: 9, Time: at, Why: "x"}, "NOT STORED: x; stored up to TXID 0000000000000009 at 2026-03-01T12:00:00Z"},
	} {
		if got := c.o.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
}

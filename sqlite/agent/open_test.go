package agent

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/capture"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestWhenOpeningIsTried: at once when a file appears, and when the agent ends. Otherwise it is tried after the pause that the last attempt
// has set, and never during another attempt.
func TestWhenOpeningIsTried(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	h.turn()
	if !h.nowhere || h.files != nil || !h.in(gate.Open) {
		t.Fatalf("there is no database: %s", h.Status())
	}
	now, missing := h.now(), h.missing
	for name, c := range map[string]struct {
		ago  time.Duration // since the last attempt
		set  func()
		want time.Duration // 0: it is tried
	}{
		"nothing has come": {time.Hour, func() {}, -1},
		"somebody waits":   {time.Hour, func() { h.waiters = make([]*waiter, 1) }, 0},
		"somebody waits, and the pause is not over": {time.Second - 1, func() { h.waiters = make([]*waiter, 1) }, 1},
		"the pause is over":                         {time.Second, func() { h.waiters = make([]*waiter, 1) }, 0},
		"a file comes":                              {20*time.Millisecond - 1, func() { h.missing.DB.Inode = 99 }, 1},
		"a file has come":                           {20 * time.Millisecond, func() { h.missing.DB.Inode = 99 }, 0},
		"another attempt is under way":              {time.Hour, func() { h.jobs, h.missing.DB.Inode = 1, 99 }, later},
		"an attempt has failed":                     {time.Second - 1, func() { h.nowhere = false }, 1},
		"it has failed a second ago":                {time.Second, func() { h.nowhere = false }, 0},
		"the agent ends, as it was to before":       {time.Second - 1, func() { h.nowhere, h.ending = false, now.Add(-time.Hour) }, 1},
		"the agent is to end since":                 {20 * time.Millisecond, func() { h.nowhere, h.ending = false, now }, 0},
		"a transaction is in the way":               {time.Second - 1, func() { h.nowhere, h.inUse = false, true }, 1},
		"a transaction is in the way of the end":    {20 * time.Millisecond, func() { h.nowhere, h.inUse, h.ending = false, true, now.Add(-time.Hour) }, 0},
	} {
		h.nowhere, h.inUse, h.missing, h.waiters, h.jobs, h.ending, h.pause, h.tasks = true, false, missing, nil, 0, time.Time{}, time.Second, nil
		h.opened = now.Add(-c.ago)
		c.set()
		jobs := h.jobs
		next := h.open(now)
		if tried := h.jobs == jobs+1 && len(h.tasks) == 1 && next == later; tried != (c.want == 0) || !tried && next != c.want {
			t.Errorf("%s: it is tried: %v, and the next turn comes after %v, want %v", name, tried, next, c.want)
		}
		if len(h.tasks) == 1 {
			h.agent.work.Done() // it is never done
		}
	}
	h.waiters, h.ending = nil, time.Time{}
}

// TestAttemptsBecomeRare: a tenth of a second after the first failure, then twice as long each time, up to five seconds.
func TestAttemptsBecomeRare(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	var pauses []time.Duration
	for range 8 {
		h.take(nil, errDown, h.now())
		pauses = append(pauses, h.pause/time.Millisecond)
	}
	if want := []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000}; !slices.Equal(pauses, want) {
		t.Errorf("the pauses are %d ms, want %d", pauses, want)
	}
	if h.alarm(alarmOpen) == "" || !h.in(gate.Opening) {
		t.Errorf("the phase is %d, the alarms are %v", h.phase, h.alarms)
	}
}

// TestWhatAnAttemptComesTo, by its error.
func TestWhatAnAttemptComesTo(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		set     func(h *hand)
		phase   gate.Refuse
		alarm   alarmKind // "": none
		nowhere bool
	}{
		"another journal mode":                  {capture.ErrMode, nil, gate.Open, alarmCapture, true},
		"a journal mode that cannot be changed": {lastingError{capture.ErrMode}, nil, gate.Opening, alarmOpen, false},
		"a person has to decide":                {stopf("decide"), nil, gate.Fenced, alarmRefused, false},
		"the store fails":                       {errDown, nil, gate.Opening, alarmOpen, false},
		"another store, at the start":           {objstore.ErrSwapped, nil, gate.Opening, alarmSwapped, false},
		"another store, after a start":          {objstore.ErrSwapped, func(h *hand) { h.replicaID = "x" }, gate.InDoubt, alarmSwapped, false},
		"a transaction is in the way":           {errInUse, nil, gate.Opening, alarmOpen, false},
	} {
		h := newRig(t).byHand(gate.Archive)
		if c.set != nil {
			c.set(h)
		}
		h.take(nil, c.err, h.now())
		if h.phase != c.phase || len(h.alarms) != 1 || h.alarms[0].Kind != string(c.alarm) || h.nowhere != c.nowhere || h.inUse != (c.err == errInUse) || !h.tried {
			t.Errorf("%s: phase %d, alarms %v, nowhere: %v, in use: %v", name, h.phase, h.alarms, h.nowhere, h.inUse)
		}
	}
}

// TestCallersThatCameBeforeNothingWasFoundAreAnswered, and neither commits nor callers that came later.
func TestCallersThatCameBeforeNothingWasFoundAreAnswered(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	began := h.now()
	c := h.joins(gate.Hello{})
	before := &waiter{result: make(chan struct{}), came: began.Add(-1)}
	after := &waiter{result: make(chan struct{}), came: began}
	commit := &waiter{conn: c.Conn, came: began.Add(-1)}
	h.pause = time.Hour
	h.waiters = []*waiter{before, after, commit}
	h.nothing(began)
	if !slices.Equal(h.waiters, []*waiter{after, commit}) || len(c.done) != 0 || h.pause != 0 {
		t.Errorf("%d wait, the commit is answered with %v, the next attempt comes %v later", len(h.waiters), c.done, h.pause)
	}
	h.pause = time.Hour
	h.waiters = []*waiter{{result: make(chan struct{}), came: began.Add(-1)}}
	if h.nothing(began); len(h.waiters) != 0 || h.pause != time.Hour {
		t.Errorf("%d wait, and the next attempt comes %v later, want an hour", len(h.waiters), h.pause)
	}
}

// TestWhenADatabaseIsLeftThatIsNotOpen: the agent ends, and an attempt that began since did not succeed, or there is nothing to open.
func TestWhenADatabaseIsLeftThatIsNotOpen(t *testing.T) {
	r := newRig(t)
	h := r.byHand(gate.Archive)
	now := h.now()
	for name, c := range map[string]struct {
		set  func()
		want bool
	}{
		"the agent goes on":                       {func() { h.ending, h.tried, h.abandoned = time.Time{}, true, true }, false},
		"no attempt was made yet":                 {func() {}, false},
		"the caller's patience has ended":         {func() { h.abandoned = true }, true},
		"another agent has the replica":           {func() { h.phase = gate.Fenced }, true},
		"an attempt has failed":                   {func() { h.tried, h.opened = true, now.Add(1) }, true},
		"an attempt that began before has failed": {func() { h.tried, h.opened = true, now.Add(-1) }, false},
		"an attempt is under way":                 {func() { h.tried, h.opened, h.jobs = true, now.Add(1), 1 }, false},
		"a transaction was in the way":            {func() { h.tried, h.opened, h.inUse = true, now.Add(1), true }, false},
		"there is no database":                    {func() { h.nowhere = true }, true},
		"a file has come":                         {func() { h.nowhere, h.missing.DB.Inode = true, 99 }, false},
	} {
		h.ending, h.abandoned, h.phase, h.tried, h.opened, h.jobs, h.inUse, h.nowhere, h.missing = now, false, gate.Opening, false, time.Time{}, 0, false, false, walfile.Look{}
		c.set()
		if got := h.leaving(); got != c.want {
			t.Errorf("%s: it is left: %v", name, got)
		}
	}
}

// TestAReplicaThatIsKnownIsAskedWhoItIs before it is taken over again. A place that is empty now is not a new one.
func TestAReplicaThatIsKnownIsAskedWhoItIs(t *testing.T) {
	r := newRig(t)
	r.exec(r.connect(), "create table t (x)")
	h := r.followed(gate.Archive)
	h.fail(errDown)
	right := r.store.swap(objstore.NewMemory())
	h.time.Advance(time.Hour)
	h.turn()
	if !h.in(gate.InDoubt) || h.files != nil || h.alarm(alarmSwapped) == "" || h.jobs != 0 {
		t.Errorf("another store: phase %d, alarms %v, %d jobs", h.phase, h.alarms, h.jobs)
	}
	r.store.swap(right)
	h.turns(func() bool { return h.in(gate.Open) })
	if h.files == nil || h.alarm(alarmSwapped) != "" {
		t.Errorf("the right store is back: %s", h.Status())
	}
}

// TestARequestHasAMinute, and an upload ten seconds and one more for each MiB.
func TestARequestHasAMinute(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	nothing := func(context.Context) error { return nil }
	_ = h.ask(t.Context(), nothing) // it succeeds
	for _, size := range []int64{0, 1<<20 - 1, 1 << 20, 5 << 20} {
		_ = h.once(t.Context(), size, nothing) // it succeeds
	}
	if want := []time.Duration{time.Minute, 10 * time.Second, 10 * time.Second, 11 * time.Second, 15 * time.Second}; !slices.Equal(h.limits, want) {
		t.Errorf("requests may take %v, want %v", h.limits, want)
	}
	if h.agent.requests.count != 5 {
		t.Errorf("%d requests are counted, want 5", h.agent.requests.count)
	}
}

// TestTheFirstGroupWaitsForTransactions that are in its way, and for nothing else: two milliseconds between its attempts, and none of them before the first.
func TestTheFirstGroupWaitsForTransactions(t *testing.T) {
	for _, busy := range []int{0, 20} { // a capture itself waits for a few
		r := newRig(t)
		r.exec(r.connect(), "create table t (x)")
		h := r.byHand(gate.Archive)
		h.busy = busy
		h.turns(func() bool { return h.in(gate.Open) && len(h.ships) == 0 })
		var waits int
		for _, d := range h.pauses {
			if d == 2*time.Millisecond {
				waits++
			}
		}
		if (waits > 0) != (busy > 0) || h.stored.TXID != 1 {
			t.Errorf("%d transactions are in the way: the agent waits %d times for two milliseconds, and has stored TXID %d", busy, waits, h.stored.TXID)
		}
	}
}

// TestADatabaseThatTakesForEverIsReadAgain: a transaction is in the way of each attempt, and the takeover begins anew.
func TestADatabaseThatTakesForEverIsReadAgain(t *testing.T) {
	r := newRig(t)
	r.exec(r.connect(), "create table t (x)")
	h := r.byHand(gate.Archive)
	h.busy = 1 << 30
	h.turn()
	if !h.in(gate.Opening) || h.files != nil || !strings.Contains(h.Status(), "read again") {
		t.Errorf("phase %d: %s", h.phase, h.Status())
	}
	h.busy = 0
	h.turns(func() bool { return h.in(gate.Open) })
}

// TestTheTakeoverOfADirectoryThatWasReplacedFails, and one of a file with two names.
func TestTheTakeoverOfADirectoryThatWasReplacedFails(t *testing.T) {
	r := newRig(t)
	r.exec(r.connect(), "create table t (x)")
	h := r.byHand(gate.Archive)
	if err := os.Link(r.path, r.path+".backup"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.takeOver(t.Context()); err == nil || !strings.Contains(err.Error(), "names") {
		t.Errorf("a file with two names: %v", err)
	}
	if err := os.Remove(r.path + ".backup"); err != nil {
		t.Fatal(err)
	}
	h.agent.cfg.Places = moved{h.agent.cfg.Places}
	if _, err := h.takeOver(t.Context()); !errors.Is(err, errPlace) {
		t.Errorf("another directory: %v", err)
	}
}

// moved are places whose directories were all replaced.
type moved struct{ Places }

func (moved) Stands(place.Place) bool { return false }

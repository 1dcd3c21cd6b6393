package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// TestWhenAStoreIsAskedWhoItIs: when that was a minute ago, after a failure, and when the clock was set back.
func TestWhenAStoreIsAskedWhoItIs(t *testing.T) {
	r := newRig(t)
	r.exec(r.connect(), "create table t (x)")
	h := r.followed(gate.Archive)
	now := h.now()
	for name, c := range map[string]struct {
		confirmed time.Time
		identity  string
		want      int64
	}{
		"it has just said so":              {now, h.replicaID, 0},
		"it has said so within the minute": {now.Add(1 - time.Minute), h.replicaID, 0},
		"it has said so a minute ago":      {now.Add(-time.Minute), h.replicaID, 1},
		"a request has failed":             {time.Time{}, h.replicaID, 1},
		"the clock was set back":           {now.Add(1), h.replicaID, 1},
		"nobody knows who it was":          {time.Time{}, "", 0},
	} {
		before := r.store.identities.Load()
		h.confirmed = c.confirmed
		s := &ship{identity: c.identity}
		if err := h.confirm(t.Context(), s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := r.store.identities.Load() - before; n != c.want || s.confirmed != (n == 1) {
			t.Errorf("%s: it is asked %d times, want %d, and counts as asked: %v", name, n, c.want, s.confirmed)
		}
		if c.want == 1 && !h.confirmed.Equal(now) {
			t.Errorf("%s: it counts as asked at %v", name, h.confirmed)
		}
	}
}

// TestTheStoreIsAskedOnceAtTheEnd, if something was stored since it was asked last. A failure to answer changes nothing.
func TestTheStoreIsAskedOnceAtTheEnd(t *testing.T) {
	r := newRig(t)
	r.exec(r.connect(), "create table t (x)")
	h := r.followed(gate.Archive)
	files, identity, stored := h.files, h.replicaID, h.stored
	for name, c := range map[string]struct {
		set  func()
		want int64
		sure replica.TXID
	}{
		"something was stored":            {func() {}, 1, stored.TXID},
		"nothing was stored":              {func() { h.sure = stored }, 0, stored.TXID},
		"it was asked":                    {func() { h.asked = true }, 0, 0},
		"the database is not open":        {func() { h.files = nil }, 0, 0},
		"nobody knows who it was":         {func() { h.replicaID = "" }, 0, 0},
		"it does not answer":              {func() { r.store.fails.Store(&errDown) }, 1, 0},
		"something was stored once again": {func() {}, 1, stored.TXID},
	} {
		h.asked, h.files, h.replicaID, h.sure = false, files, identity, replica.Head{}
		r.store.fails.Store(nil)
		c.set()
		before := r.store.identities.Load()
		unsure := h.unsure()
		if unsure != (c.want == 1) || unsure && h.jobs != 1 {
			t.Errorf("%s: it is being asked: %v, %d jobs", name, unsure, h.jobs)
		}
		h.work()
		if n := r.store.identities.Load() - before; n != c.want || h.jobs != 0 || h.sure.TXID != c.sure {
			t.Errorf("%s: it is asked %d times, want %d; %d jobs; sure up to TXID %d, want %d", name, n, c.want, h.jobs, h.sure.TXID, c.sure)
		}
		if h.unsure() {
			t.Errorf("%s: it is asked once more", name)
		}
	}
	h.files = files
}

// TestAnotherStoreAtTheEnd is an alarm.
func TestAnotherStoreAtTheEnd(t *testing.T) {
	r := newRig(t)
	r.exec(r.connect(), "create table t (x)")
	h := r.followed(gate.Archive)
	h.sure = replica.Head{}
	r.store.swap(objstore.NewMemory())
	if !h.unsure() {
		t.Fatal("the store is not asked")
	}
	h.work()
	if h.alarm(alarmSwapped) == "" || !h.in(gate.InDoubt) {
		t.Errorf("the phase is %d: %s", h.phase, h.reason)
	}
}

// TestWhatAnotherStoreIsCalled: a store without an identity, one with another identity, and one that does not answer.
func TestWhatAnotherStoreIsCalled(t *testing.T) {
	r := newRig(t)
	h := r.byHand(gate.Archive)
	const was = "00112233445566778899aabbccddeeff"
	same := func(identity string) error { return h.sameStore(t.Context(), identity, h.ask) }
	if err := same(was); !isSwapped(err) || !strings.Contains(err.Error(), "it has no holdfast/identity") {
		t.Errorf("a store without an identity: %v", err)
	}
	if err := same(""); err != nil {
		t.Errorf("a store that never had an identity: %v", err)
	}
	is, err := r.replica().Identity(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := same(is); err != nil {
		t.Errorf("the same store: %v", err)
	}
	if err := same(was); !isSwapped(err) || !strings.Contains(err.Error(), "its identity is "+is+", and was "+was) {
		t.Errorf("another store: %v", err)
	}
	r.store.fails.Store(&errDown)
	if err := same(is); !errors.Is(err, errDown) || isSwapped(err) {
		t.Errorf("a store that does not answer: %v", err)
	}
}

// TestWhatMayBeLostIsNamed: the groups that were acknowledged since the store was known to be the right one.
func TestWhatMayBeLostIsNamed(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		stored, sure replica.TXID
		at           time.Time
		want         string // "": nothing is named
	}{
		"nothing":                    {5, 5, at, ""},
		"one group":                  {6, 5, at, fmt.Sprintf("TXIDs %s to %s were acknowledged since it was last seen to be the right one (2026-03-01T12:00:00Z)", replica.TXID(6), replica.TXID(6))},
		"all since the agent began":  {9, 0, time.Time{}, fmt.Sprintf("TXIDs %s to %s were acknowledged since it was last seen to be the right one (the agent began)", replica.TXID(1), replica.TXID(9))},
		"a store that has gone back": {5, 6, at, ""},
	} {
		h := newRig(t).byHand(gate.Archive)
		h.stored.TXID, h.sure.TXID, h.sureAt = c.stored, c.sure, c.at
		h.swapped(&swappedError{"another one"})
		text := h.alarm(alarmSwapped)
		if got := strings.Contains(text, "were acknowledged"); got != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: the alarm says %q, want %q", name, text, c.want)
		}
	}
}

// TestRequestsThatFailAreRepeated: after 50 ms, then twice as long each time, up to 2 s, or 10 s for what only a person can mend.
func TestRequestsThatFailAreRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want time.Duration // of all pauses
		most time.Duration
	}{
		"for a moment":       {errDown, (50 + 100 + 200 + 400 + 800 + 1600 + 2000 + 2000 + 2000) * time.Millisecond, 2 * time.Second},
		"until it is mended": {objstore.ErrUnconditional, (50 + 100 + 200 + 400 + 800 + 1600 + 3200 + 6400 + 10_000) * time.Millisecond, 10 * time.Second},
	} {
		h := newRig(t).byHand(gate.Archive)
		var all, most time.Duration
		h.slept = func(d time.Duration) {
			all, most = all+d, max(most, d)
			if h.failing != 1 || h.alarm(alarmStore) == "" {
				t.Errorf("%s: %d requests fail, and the alarm is %q", name, h.failing, h.alarm(alarmStore))
			}
		}
		tries := 0
		h.confirmed = h.now()
		if err := h.insist(t.Context(), "put x", 3<<20, func(context.Context) error {
			if tries++; tries < 10 {
				return c.err
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if all != c.want || most != c.most {
			t.Errorf("%s: %v between the attempts, %v at most, want %v and %v", name, all, most, c.want, c.most)
		}
		if h.failing != 0 || h.alarm(alarmStore) != "" || h.hopeless != nil {
			t.Errorf("%s: %d requests fail after all, and the alarm is %q", name, h.failing, h.alarm(alarmStore))
		}
		if !h.confirmed.IsZero() {
			t.Errorf("%s: the store is believed to be the right one", name)
		}
		for _, limit := range h.limits {
			if limit != attempt+3*time.Second {
				t.Errorf("%s: an attempt to send three MiB may take %v", name, limit)
			}
		}
	}
}

// TestSomeFailuresAreNotRepeated: those that an attempt cannot mend, and those at the end of the agent.
func TestSomeFailuresAreNotRepeated(t *testing.T) {
	for _, want := range []error{replica.ErrFenced, replica.ErrOutdated, objstore.ErrSwapped} {
		h := newRig(t).byHand(gate.Archive)
		tries := 0
		err := h.insist(t.Context(), "put x", 0, func(context.Context) error { tries++; return want })
		if !errors.Is(err, want) || tries != 1 || h.failing != 0 {
			t.Errorf("%v: %d attempts, %v", want, tries, err)
		}
	}
	h := newRig(t).byHand(gate.Archive)
	ctx, cancel := context.WithCancel(t.Context())
	h.slept = func(time.Duration) { cancel() }
	tries := 0
	if err := h.insist(ctx, "put x", 0, func(context.Context) error { tries++; return errDown }); !errors.Is(err, context.Canceled) || tries != 1 || h.failing != 0 {
		t.Errorf("the agent ends between two attempts: %d attempts, %v, %d requests fail", tries, err, h.failing)
	}
}

// TestUploadsAreCounted: those that succeed with their bytes, and each attempt that fails.
func TestUploadsAreCounted(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	tries := 0
	for range 2 {
		if err := h.put(t.Context(), "x", 100, func(context.Context) error {
			if tries++; tries <= 3 {
				return errDown
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if v := h.stands(); v.Puts != 2 || v.PutBytes != 200 || v.PutFailures != 3 {
		t.Errorf("%d uploads of %d bytes and %d failures, want 2, 200 and 3", v.Puts, v.PutBytes, v.PutFailures)
	}
	if n := h.agent.requests.count; n != 5 {
		t.Errorf("%d requests are counted, want 5", n)
	}
}

// TestTheStoresAlarmLastsWhileAnyRequestFails.
func TestTheStoresAlarmLastsWhileAnyRequestFails(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	for i, s := range []struct {
		by   int
		text string
		want string
	}{{1, "first", "first"}, {1, "second", "second"}, {0, "second, again", "second, again"}, {-1, "", "second, again"}, {-1, "", ""}} {
		h.confirmed = h.now()
		h.storeFails(s.by, s.text)
		if believed := !h.confirmed.IsZero(); believed != (s.by <= 0) {
			t.Errorf("step %d: the store is believed to be the right one: %v", i, believed)
		}
		if got := h.alarm(alarmStore); got != s.want {
			t.Errorf("step %d: the alarm is %q, want %q", i, got, s.want)
		}
	}
}

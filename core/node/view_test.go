package node

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// A command of several machines is in a View whole or not at all, and what comes later is not in it.
func TestAViewIsOneAppliedIndex(t *testing.T) {
	n := startAlone(t, t.TempDir(), withLater)
	if _, err := n.Propose(within(t), LaneSystem, raise(laterLevel, n.id)); err != nil {
		t.Fatal(err)
	}
	both := func(v string) {
		parts := []entry.Part{putPart("k", v), {Machine: laterID, Body: []byte(v)}}
		if _, err := n.Propose(within(t), LaneKV, parts...); err != nil {
			t.Error(err)
		}
	}
	both("0")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				both(string(rune('a' + i%26)))
			}
		}
	}()
	last, seen := uint64(0), map[string]bool{}
	for end := time.Now().Add(wait.Limit(t)); len(seen) < 20 && time.Now().Before(end); {
		v, err := n.View()
		if err != nil {
			t.Fatal(err)
		}
		one, _, err := v.Get(nil, []byte("zv"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := valueIn(v, "k")
		if err != nil || other != string(one) || v.Index < last {
			t.Fatalf("at %d (after %d): %q in one machine, %q in the other, %v", v.Index, last, one, other, err)
		}
		last = v.Index
		seen[other] = true
		v.Close()
	}
	close(stop)
	<-done
	if len(seen) < 20 {
		t.Errorf("only %d states were seen", len(seen))
	}
}

// valueIn reads a key from the rows of the kv machine.
func valueIn(v *View, key string) (string, error) {
	c, err := kvmachine.ReadContents(v)
	if err != nil {
		return "", err
	}
	res, err := c.Range(&kvpart.Range{Key: []byte(key)}, 1<<20)
	if err != nil || len(res.KVs) == 0 {
		return "", err
	}
	return string(res.KVs[0].Value), nil
}

// alive is the error of a read, nil if the View has not ended.
func alive(v *View) error { _, _, err := v.Get(nil, []byte("x")); return err }

// A View ends by itself when it is too old, by time or by what it pins, and with the node.
func TestViewsEnd(t *testing.T) {
	m := newManual(t, 1)
	n := m.nodes[0]
	open := func() *View {
		v, err := n.View()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	look := func(now time.Duration, superseded, size uint64) {
		n.views.expire(now, superseded, n.applier.Applied(), func() int64 { return int64(size) })
	}

	young := open()
	look(young.born+ViewAge, young.before+ViewBytes, 1<<40)
	if err := alive(young); err != nil {
		t.Fatalf("not too old yet: %v", err)
	}
	look(young.born+ViewAge+1, young.before, 1<<40)
	if err := alive(young); !errors.Is(err, ErrViewEnded) {
		t.Errorf("after its time: %v", err)
	}
	full := open()
	look(full.born, full.before+ViewBytes+1, 1<<40)
	if _, err := full.NewIter(nil, nil); !errors.Is(err, ErrViewEnded) {
		t.Errorf("after too many bytes: %v", err)
	}
	// One without a bound in time lives as long as its bytes allow, and no View pins more than there was when it was opened.
	n.views.letGo()
	dump, small := open(), open()
	dump.Limit(0, 3<<30)
	small.Limit(0, 2<<30)
	look(dump.born+24*time.Hour, dump.before+50<<30, 2<<30)
	if err := alive(dump); err != nil || dump.pinned(dump.before+50<<30) != 2<<30 {
		t.Errorf("it pins %d bytes after a day: %v", dump.pinned(dump.before+50<<30), err)
	}
	if err := alive(small); err != nil {
		t.Errorf("it pins no more than it may: %v", err)
	}
	dump.Limit(0, 1<<30)
	look(dump.born+24*time.Hour, dump.before+50<<30, 1)
	if err := alive(dump); !errors.Is(err, ErrViewEnded) {
		t.Errorf("with less than it pins: %v", err)
	}
	small.Limit(ViewAge, 2<<30) // as a transaction that begins to write
	look(small.born+24*time.Hour, small.before, 1)
	if err := alive(small); !errors.Is(err, ErrViewEnded) {
		t.Errorf("bounded in time later: %v", err)
	}
	if c := n.ViewCounts(); c.Open != 0 || c.TooOld != 2 || c.TooLarge != 2 {
		t.Errorf("counted: %+v", c)
	}
	// The loop looks by itself.
	by := open()
	m.clock.Advance(ViewAge + time.Minute)
	m.step()
	if err := alive(by); !errors.Is(err, ErrViewEnded) {
		t.Errorf("the loop let it live: %v", err)
	}
	var held []*View
	for range mostShared + 1 { // of one index they have one state
		held = append(held, open())
	}
	if err := held[0].Close(); err != nil || !errors.Is(alive(held[0]), store.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	for range mostShared - 1 { // as if an entry came between any two
		n.views.letGo()
		held = append(held, open())
	}
	n.views.letGo()
	if _, err := n.View(); !errors.Is(err, ErrTooManyViews) {
		t.Errorf("one state more than may be: %v", err)
	}
	if err := held[len(held)-1].Close(); err != nil {
		t.Error(err)
	}
	last := open()
	n.Stop()
	if err := alive(last); !errors.Is(err, ErrStopped) {
		t.Errorf("after the node: %v", err)
	}
	if _, err := n.View(); !errors.Is(err, ErrStopped) {
		t.Errorf("opened after the node: %v", err)
	}
}

// Views of one applied index read one state of the store, which is closed with the last of them. An unread one is not kept when it is old.
func TestViewsOfOneIndexShareOneState(t *testing.T) {
	n := startAlone(t, t.TempDir(), nil)
	put := func(v string) {
		if _, err := n.Propose(within(t), LaneKV, putPart("k", v)); err != nil {
			t.Fatal(err)
		}
	}
	states := func() int64 { return n.store.Metrics().Views }
	open := func(want string) *View {
		v, err := n.View()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := valueIn(v, "k"); err != nil || got != want {
			t.Errorf("a view shows %q, want %q: %v", got, want, err)
		}
		return v
	}
	put("1")
	one, two := open("1"), open("1")
	if one.Index != two.Index || states() != 1 {
		t.Fatalf("%d states for two views at %d and %d", states(), one.Index, two.Index)
	}
	put("2")
	three := open("2")
	if three.Index <= one.Index || states() != 2 {
		t.Errorf("%d states for views at %d and %d", states(), one.Index, three.Index)
	}
	if one.Pinned() == 0 || three.Pinned() != 0 {
		t.Errorf("they pin %d and %d bytes", one.Pinned(), three.Pinned())
	}
	one.Close()
	one.Close() // once more does nothing
	if got, err := valueIn(two, "k"); err != nil || got != "1" {
		t.Errorf("the other one shows %q behind that: %v", got, err)
	}
	two.Close()
	three.Close()
	if states() != 1 { // for the next one
		t.Errorf("%d states without a view", states())
	}
	put("3")
	wait.Until(t, "the old state is let go", func() bool { return states() == 0 })
}

// TestGetHasWhatWasApplied: a row that a result stands for is there without a View, and a node that has stopped says so.
func TestGetHasWhatWasApplied(t *testing.T) {
	n := startAlone(t, t.TempDir(), withLater)
	if _, err := n.Propose(within(t), LaneSystem, raise(laterLevel, n.id)); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		want := string(rune('a' + i))
		if _, err := n.Propose(within(t), LaneKV, entry.Part{Machine: laterID, Body: []byte(want)}); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := n.Get(nil, []byte("zv")); err != nil || !ok || string(got) != want {
			t.Fatalf("behind its result %q is %q (%v, %v)", want, got, ok, err)
		}
	}
	if _, ok, err := n.Get(nil, []byte("zx")); err != nil || ok {
		t.Errorf("a row that is not there: %v, %v", ok, err)
	}
	n.Stop()
	if _, _, err := n.Get(nil, []byte("zv")); !errors.Is(err, ErrStopped) {
		t.Errorf("a node that has stopped: %v", err)
	}
}

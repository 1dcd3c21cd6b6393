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

// A View ends by itself when it is too old, by time or by what was written since, and with the node.
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
	alive := func(v *View) error { _, _, err := v.Get(nil, []byte("x")); return err }

	young := open()
	n.views.expire(young.born+viewAge, young.before+viewBytes)
	if err := alive(young); err != nil {
		t.Fatalf("not too old yet: %v", err)
	}
	n.views.expire(young.born+viewAge+1, young.before)
	if err := alive(young); !errors.Is(err, ErrViewEnded) {
		t.Errorf("after its time: %v", err)
	}
	full := open()
	n.views.expire(full.born, full.before+viewBytes+1)
	if _, err := full.NewIter(nil, nil); !errors.Is(err, ErrViewEnded) {
		t.Errorf("after too many bytes: %v", err)
	}
	// The loop looks by itself.
	by := open()
	m.clock.Advance(viewAge + time.Minute)
	m.step()
	if err := alive(by); !errors.Is(err, ErrViewEnded) {
		t.Errorf("the loop let it live: %v", err)
	}
	var held []*View
	for range maxViews {
		held = append(held, open())
	}
	if _, err := n.View(); !errors.Is(err, ErrTooManyViews) {
		t.Errorf("one more than may be: %v", err)
	}
	if err := held[0].Close(); err != nil || !errors.Is(alive(held[0]), store.ErrClosed) {
		t.Errorf("closed: %v", err)
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

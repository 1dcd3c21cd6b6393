package machine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestNobodyReadsHalfAnEntry: no read begins while an entry becomes visible, under the lock or by the version.
func TestNobodyReadsHalfAnEntry(t *testing.T) {
	st := &machinetest.Watched{Mem: store.NewMem()}
	r := openRig(t, st, Options{})
	seen := false
	st.During = func() {
		seen = true
		if r.m.gate.TryRLock() {
			t.Error("a reader came in")
		}
		if _, open := r.m.gate.Version(); open {
			t.Error("the version says that the gate is open")
		}
	}
	if r.ApplyData(nil, false); !seen {
		t.Fatal("nothing was committed")
	}
	if !r.m.gate.TryRLock() {
		t.Fatal("readers stay out")
	}
	r.m.gate.RUnlock()
}

// TestReadersSeeWholeEntries: each entry ends a pass over two transactions, and all branches of one get the same status. Readers beside it
// see an entry's whole result, by every read.
func TestReadersSeeWholeEntries(t *testing.T) {
	r := newRig(t)
	r.must("begin a tcc prepared steps=20", "begin b saga submitted steps=1", "begin c tcc prepared")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	reader := func(f func() error) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := f(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	whole := func(got *Transaction, err error) error {
		if err != nil {
			return err
		}
		for i := range got.Branches {
			b := &got.Branches[i]
			if b.Status != got.Branches[0].Status || b.Updated != got.Updated {
				return fmt.Errorf("after pass %d branch %d is %s and branch 0 %s", got.Passes, i, b.Status, got.Branches[0].Status)
			}
		}
		return nil
	}
	reader(func() error { return whole(r.m.Find("a")) })
	reader(func() error { return whole(r.m.FindNumber(1)) })
	reader(func() error {
		all, _, err := r.list(0, 10, Filter{})
		if err != nil {
			return err
		}
		if a, b := all[len(all)-1], all[len(all)-2]; a.Gid != "a" || b.Gid != "b" || a.Passes != b.Passes || a.DueTick != b.DueTick {
			return fmt.Errorf("pass %d over a, due %d, and %d over b, due %d", a.Passes, a.DueTick, b.Passes, b.DueTick)
		}
		return nil
	})
	reader(func() error { // branches join: a head that counts them has them
		got, err := r.m.Find("c")
		if err == nil && len(got.Branches) != int(got.Passes) {
			err = fmt.Errorf("%d branches joined and %d are there", got.Passes, len(got.Branches))
		}
		return err
	})
	reader(func() error {
		due, err := r.m.Due(Timer{}, 1<<40, 10)
		if err == nil && (len(due) != 3 || due[1].Tick != due[2].Tick) {
			err = fmt.Errorf("timers %v", due)
		}
		return err
	})
	for i := range 700 {
		r.Tick++
		c := &sagapart.ChangePart{Gid: "a", From: sagapart.Open, Pass: true, Timer: true, NextMs: 1000}
		for place := range 40 {
			c.Results = append(c.Results, sagapart.BranchResult{Branch: uint32(place), Status: []sagapart.Status{sagapart.Succeed, sagapart.Failed}[i%2]})
		}
		r.apply(&sagapart.Part{Kind: sagapart.Change, Change: c}, parse(t, "change b next=1000 pass"),
			parse(t, fmt.Sprintf("register c branch=%d,cancel,u", i)), parse(t, "change c pass"))
	}
	close(stop)
	wg.Wait()
}

// between is a store in whose Gets of one space of rows something else happens first.
type between struct {
	*store.Mem
	space byte
	first func()
}

func (b *between) Get(dst, key []byte) ([]byte, bool, error) {
	if f := b.first; f != nil && key[0] == letter && key[1] == b.space {
		b.first = nil // what happens reads rows too
		f()
	}
	return b.Mem.Get(dst, key)
}

// TestAReadAcrossEntriesIsReadAgain: an entry that becomes visible between two rows of a reader would otherwise mix a transaction's old and
// new state. Here it ends and is forgotten, and its gid is another one's.
func TestAReadAcrossEntriesIsReadAgain(t *testing.T) {
	for _, space := range []byte{spaceGid, spaceDefinition, spaceHead} {
		st := &between{Mem: store.NewMem(), space: space}
		r := openRig(t, st, Options{RetentionMs: 1000})
		r.must("begin g saga submitted steps=1", "begin other saga submitted")
		st.first = func() {
			r.must("change g to=failed")
			r.Tick += 1000
			r.Apply()
			r.must("begin g msg prepared")
		}
		if got := r.find("g"); got.Number != 3 || got.Mode != sagapart.Msg || got.Status != sagapart.Prepared {
			t.Errorf("before a row %c: %s", space, showTransaction(got))
		}
		if got, err := r.m.FindNumber(1); got != nil || err != nil {
			t.Errorf("the old one is %v, %v", got, err)
		}
		st.first = func() {
			r.must("change other to=failed")
			r.Tick += 1000
			r.Apply()
		}
		if got, err := r.m.FindNumber(2); space != spaceGid && (got != nil || err != nil) { // by its number it is found without a row of its gid
			t.Errorf("before a row %c: %s, %v", space, showTransaction(got), err)
		}
		// A busy log: it changes at every attempt, so a View is read.
		var again func()
		again = func() { r.must("change g pass"); st.first = again }
		st.first = again
		if got := r.find("g"); got.Passes < attempts {
			t.Errorf("read after %d attempts", got.Passes)
		}
		st.first = nil
	}
}

// TestMembersComeToTheSameState: two machines with other bounds of memory, of which one starts anew in between, have the same hash after
// every entry.
func TestMembersComeToTheSameState(t *testing.T) {
	one := openRig(t, store.NewMem(), Options{})
	two := openRig(t, store.NewMem(), Options{CacheBytes: 1, FilterBytes: 1, RecentTimers: 1})
	script := []string{"begin order-1 saga submitted steps=2 payload=2000", "begin order-100 tcc prepared", "register order-100 branch=1,cancel,u",
		"begin order-2 msg prepared steps=1", "change order-1 results=1:succeed", "begin order-1 saga prepared", "change order-1 to=aborting next=5 pass",
		"subscribe t http://a", "begin order-2 msg submitted", "register order-100 branch=1,cancel,u branch=2,confirm,u", "change order-1 to=failed",
		"subscribe t http://b", "change order-100 to=succeed", "unsubscribe t http://a", "resume", "begin order-1 saga submitted", "drop t"}
	for round := range 5 {
		for i := 0; i < len(script); i += 3 {
			one.Tick += 40_000_000
			two.Tick = one.Tick
			for _, r := range []*rig{one, two} {
				var parts []*sagapart.Part
				for _, line := range script[i:min(i+3, len(script))] {
					parts = append(parts, parse(t, line))
				}
				r.apply(parts...)
			}
			index, want := one.Applier.Hash()
			if at, got := two.Applier.Hash(); at != index || got != want {
				t.Fatalf("round %d: after entry %d the hashes are %x and %x", round, index, want, got)
			}
			if (round+i)%4 == 0 {
				two.reopen(Options{CacheBytes: 1, FilterBytes: 1, RecentTimers: 1})
			}
		}
	}
	if a, b := one.Dump(), two.Dump(); a != b {
		t.Fatalf("two members differ:\n%s\n%s", a, b)
	}
}

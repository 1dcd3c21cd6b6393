package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
)

func TestApplier(t *testing.T) {
	b := newBench(t, store.NewMem())
	err := b.apply(1, 3, data(entry.Header{},
		command(1, 3, "k1"),
		command(2, 2, "kold"),      // of another term
		command(3, 3, "m3", "kno"), // rejected as a whole
		command(4, 3, "k4", "m4"),  // both parts
		command(100, 3, "k100"),    // no caller waits
		command(5, 3),              // no parts
		command(6, 3, "kno", "mboom") /* the rejection comes first */))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 at 1.0 [did 1]",
		"3 at 1.2 rejected rejected by machine k part 1: code 7: ",
		"4 at 1.3 [did 4 did 4]",
		"5 at 1.5 []",
		"6 at 1.6 rejected rejected by machine k part 0: code 7: ",
	}
	if !slices.Equal(b.done, want) {
		t.Fatalf("answers\n%s\nwant\n%s", strings.Join(b.done, "\n"), strings.Join(want, "\n"))
	}
	if got, want := strings.Join(b.k.calls, " "), "kdo 1 kdo 4 kdo 100 kfinish kpublish"; got != want {
		t.Fatalf("calls %q, want %q", got, want)
	}
	if b.st.Applied() != 1 {
		t.Fatalf("applied %d", b.st.Applied())
	}
}

func TestUnfinished(t *testing.T) {
	b := newBench(t, store.NewMem())
	if b.a.Unfinished() {
		t.Fatal("unfinished from the start")
	}
	if err := b.apply(1, 1, data(entry.Header{}, command(1, 1, "mmuch"))); err != nil {
		t.Fatal(err)
	}
	if !b.a.Unfinished() {
		t.Fatal("one machine has work left")
	}
}

func TestEmptyEntriesMoveTheAppliedIndex(t *testing.T) {
	b := newBench(t, store.NewMem())
	if err := b.a.ApplyWith(4, 1, nil, func(w store.Batch) error { w.Set([]byte("\x00conf"), []byte("3 voters")); return nil }, nil, nil); err != nil {
		t.Fatal(err)
	}
	if v, _, _ := b.st.Get(nil, []byte("\x00conf")); string(v) != "3 voters" || b.st.Applied() != 4 {
		t.Fatalf("%q at %d", v, b.st.Applied())
	}
	if i, h := b.a.Hash(); i != 4 || h == 0 {
		t.Fatalf("hash %x at %d", h, i)
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	b := newBench(t, store.NewMem())
	for i, h := range []entry.Header{{TickMs: 10, WallNs: 100}, {TickMs: 5, WallNs: 50}, {TickMs: 11, WallNs: 60}} {
		if err := b.apply(uint64(i+1), 1, data(h, command(1, 1, "kx"))); err != nil {
			t.Fatal(err)
		}
	}
	got := ""
	for _, st := range b.k.stamps {
		got += fmt.Sprintf("%d/%d ", st.TickMs, st.WallNs)
	}
	if got != "10/100 10/100 11/100 " {
		t.Fatal(got)
	}
	again := newBench(t, b.st)
	if st := again.a.Stamp(); st.TickMs != 11 || st.WallNs != 100 {
		t.Fatalf("after a restart %+v", st)
	}
}

func TestHashStamps(t *testing.T) {
	leader, follower := newBench(t, store.NewMem()), newBench(t, store.NewMem())
	both := func(index uint64, d []byte) (err error) {
		if err = leader.apply(index, 1, d); err != nil {
			t.Fatal(err)
		}
		return follower.apply(index, 1, d)
	}
	stamp := func() entry.Header {
		i, h := leader.a.Hash()
		return entry.Header{HashIndex: i, Hash: h}
	}
	for i := uint64(1); i < 10; i++ {
		if err := both(i, data(stamp(), command(i, 1, "k"+fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
	}
	// A restart keeps the chain.
	follower = newBench(t, follower.st)
	old := stamp()
	if err := both(10, data(old, command(10, 1, "kx"))); err != nil {
		t.Fatal(err)
	}
	// One bit in the store of one member goes another way.
	err := follower.a.ApplyWith(11, 1, nil, func(w store.Batch) error { w.Set([]byte("k"), []byte("flipped")); return nil }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.apply(11, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := both(12, data(old, command(12, 1, "ky"))); err != nil {
		t.Fatalf("a stamp from before is still right: %v", err)
	}
	if err := both(13, data(stamp(), command(13, 1, "kz"))); !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "index 12") {
		t.Fatalf("the difference went unnoticed: %v", err)
	}
}

func TestFatal(t *testing.T) {
	for name, d := range map[string][]byte{
		"unknown machine": data(entry.Header{}, command(1, 1, "z")),
		"machine error":   data(entry.Header{}, command(1, 1, "kboom")),
		"cut command":     data(entry.Header{}, command(1, 1, "k1")[:5]),
		"version":         {9},
	} {
		b := newBench(t, store.NewMem())
		if err := b.apply(1, 1, d); err == nil {
			t.Errorf("%s: no error", name)
		}
		if b.st.Applied() != 0 || len(b.done) != 0 {
			t.Errorf("%s: applied %d, %d answers", name, b.st.Applied(), len(b.done))
		}
	}
}

func TestReplace(t *testing.T) {
	src := newBench(t, store.NewMem())
	for i := uint64(1); i <= 5; i++ {
		if err := src.apply(i, 1, data(entry.Header{TickMs: int64(i)}, command(i, 1, "k"+fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
	}
	dst := newBench(t, store.NewMem())
	err := dst.a.Replace(func() error {
		in, err := dst.st.Incoming()
		if err != nil {
			return err
		}
		it, err := src.st.NewIter(nil, nil)
		if err != nil {
			return err
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				return err
			}
			if string(it.Key()) == string(store.AppliedKey) {
				continue
			}
			if err := in.Set(it.Key(), v); err != nil {
				return err
			}
		}
		if err := in.Finish(5); err != nil {
			return err
		}
		return dst.st.Install(in)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(dst.k.calls, " "); got != "kload" || dst.k.val != "5" {
		t.Fatalf("%s, value %q", got, dst.k.val)
	}
	i1, h1 := src.a.Hash()
	if i2, h2 := dst.a.Hash(); i1 != i2 || h1 != h2 || dst.a.Stamp().TickMs != 5 {
		t.Fatalf("hash %x at %d, want %x at %d", h2, i2, h1, i1)
	}
}

// full is a store whose disk has no room.
type full struct{ *store.Mem }

var errFull = errors.New("no space left")

func (full) Commit(store.Batch, uint64) error { return errFull }

// A failed commit lets readers go on: requests that wait behind the gate would keep the node from stopping.
func TestFailedCommitLetsReadersGoOn(t *testing.T) {
	k := &register{id: 'k'}
	a := NewApplier(full{store.NewMem()}, k)
	if err := a.Load(); err != nil {
		t.Fatal(err)
	}
	k.calls = nil
	if err := a.Apply(1, 1, nil, nil, nil); !errors.Is(err, errFull) {
		t.Fatalf("apply on a full disk: %v", err)
	}
	if want := []string{"kfinish"}; !slices.Equal(k.calls, want) {
		t.Errorf("calls %q, want %q", k.calls, want)
	}
	if _, open := k.gate.Version(); !open || !k.gate.TryRLock() {
		t.Error("readers stay out")
	}
}

// Leaders' clocks differ. With any stamps of a later leader, time along the log does not go back, neither for the machines nor after a
// restart.
func TestStampsNeverGoBack(t *testing.T) {
	st := store.NewMem()
	r := &register{id: 'a'}
	a := NewApplier(st, r)
	if err := a.Load(); err != nil {
		t.Fatal(err)
	}
	want := entry.Stamp{}
	for i, h := range []entry.Header{{TickMs: 100, WallNs: 1000}, {TickMs: 50, WallNs: 400}, {TickMs: 120, WallNs: 900}, {TickMs: 90, WallNs: 2000}, {}} {
		cmd := entry.AppendCommand(nil, &entry.Command{Origin: 1, Seq: uint64(i + 1), Term: 1, Parts: []entry.Part{{Machine: 'a', Body: []byte("v")}}})
		if err := a.Apply(uint64(i+1), 1, entry.AppendPacked(entry.AppendHeader(nil, h), cmd), nil, nil); err != nil {
			t.Fatal(err)
		}
		want.TickMs, want.WallNs = max(want.TickMs, h.TickMs), max(want.WallNs, h.WallNs)
		if got := a.Stamp(); got.TickMs != want.TickMs || got.WallNs != want.WallNs {
			t.Fatalf("entry %d of tick %d and wall time %d: stamped %d and %d, want %d and %d", i, h.TickMs, h.WallNs, got.TickMs, got.WallNs, want.TickMs, want.WallNs)
		}
		if got := r.stamps[len(r.stamps)-1]; got.TickMs != want.TickMs || got.WallNs != want.WallNs {
			t.Fatalf("entry %d: the machine was told %d and %d", i, got.TickMs, got.WallNs)
		}
	}
	again := NewApplier(st, &register{id: 'a'})
	if err := again.Load(); err != nil {
		t.Fatal(err)
	}
	if got := again.Stamp(); got.TickMs != want.TickMs || got.WallNs != want.WallNs {
		t.Fatalf("after a restart: %d and %d", got.TickMs, got.WallNs)
	}
}

// TestAViewIsBetweenTwoEntries: no View is taken while an entry becomes visible, so its rows are those of its index.
func TestAViewIsBetweenTwoEntries(t *testing.T) {
	mem := store.NewMem()
	st := &meanwhile{Mem: mem}
	a := NewApplier(st, &register{id: 'k'})
	if err := a.Load(); err != nil {
		t.Fatal(err)
	}
	taken := make(chan uint64, 1)
	st.during = func() {
		go func() {
			v, index := a.View()
			defer v.Close()
			row, _, err := v.Get(nil, []byte("k"))
			if err != nil || string(row) != fmt.Sprint(index) {
				t.Errorf("%q in a view of index %d, %v", row, index, err)
			}
			taken <- index
		}()
		select {
		case index := <-taken:
			t.Errorf("a view of index %d while an entry became visible", index)
			taken <- index
		case <-time.After(20 * time.Millisecond):
		}
	}
	for i := range uint64(3) {
		if err := a.Apply(i+1, 1, data(entry.Header{}, command(i+1, 1, fmt.Sprintf("k%d", i+1))), nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := <-taken; got != i+1 {
			t.Errorf("the view that waited for entry %d is of %d", i+1, got)
		}
	}
}

// meanwhile calls during in the middle of a commit.
type meanwhile struct {
	*store.Mem
	during func()
}

func (m *meanwhile) Commit(b store.Batch, index uint64) error {
	m.during()
	return m.Mem.Commit(b, index)
}

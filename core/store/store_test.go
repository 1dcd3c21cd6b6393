package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// both runs a test against the two stores: what they have in common is the contract.
func both(t *testing.T, test func(t *testing.T, s Store)) {
	t.Run("mem", func(t *testing.T) { test(t, NewMem()) })
	t.Run("pebble", func(t *testing.T) { test(t, openTest(t, vfs.NewMem(), Options{})) })
}

func openTest(t testing.TB, fs vfs.FS, opts Options) *db {
	t.Helper()
	if opts.OnFatal == nil {
		opts.OnFatal = func(err error) { t.Errorf("fatal: %v", err) }
	}
	s, err := open(fs, "data", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// set commits key=value pairs in one batch.
func set(t testing.TB, s Store, applied uint64, pairs ...string) {
	t.Helper()
	b := s.NewBatch()
	for _, p := range pairs {
		k, v, _ := bytes.Cut([]byte(p), []byte("="))
		b.Set(k, v)
	}
	if err := s.Commit(b, applied); err != nil {
		t.Fatal(err)
	}
}

// dump lists r's machine keys as "k=v" forwards, and checks that backwards gives the same.
func dump(t testing.TB, r Reader) []string {
	t.Helper()
	it, err := r.NewIter([]byte{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var fwd, back []string
	for ok := it.First(); ok; ok = it.Next() {
		fwd = append(fwd, pairString(t, it))
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		back = append(back, pairString(t, it))
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(back)
	if !slices.Equal(fwd, back) {
		t.Fatalf("forwards %q, backwards %q", fwd, back)
	}
	return fwd
}

func pairString(t testing.TB, it Iter) string {
	v, err := it.Value()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s=%s", it.Key(), v)
}

func wantDump(t testing.TB, r Reader, want ...string) {
	t.Helper()
	if got := dump(t, r); !slices.Equal(got, want) {
		t.Fatalf("store holds %q, want %q", got, want)
	}
}

func TestCommitAndRead(t *testing.T) {
	both(t, func(t *testing.T, s Store) {
		set(t, s, 1, "a=1", "b=2", "c=3")
		b := s.NewBatch()
		b.Set([]byte("d"), []byte("4"))
		b.Delete([]byte("a"))
		b.DeleteRange([]byte("b"), []byte("c"))
		b.Set([]byte("b2"), nil)
		if err := s.Commit(b, 2); err != nil {
			t.Fatal(err)
		}
		wantDump(t, s, "b2=", "c=3", "d=4")
		v, ok, err := s.Get([]byte("x"), []byte("c"))
		if string(v) != "x3" || !ok || err != nil {
			t.Fatalf("get c: %q %v %v", v, ok, err)
		}
		v, ok, err = s.Get([]byte("x"), []byte("a"))
		if string(v) != "x" || ok || err != nil {
			t.Fatalf("get a: %q %v %v", v, ok, err)
		}
		if _, ok, _ := s.Get(nil, []byte("b2")); !ok {
			t.Fatal("an empty value is still a value")
		}
		if s.Applied() != 2 {
			t.Fatalf("applied %d", s.Applied())
		}
	})
}

func TestAppliedNeverGoesBack(t *testing.T) {
	both(t, func(t *testing.T, s Store) {
		set(t, s, 7, "a=1")
		if err := s.Commit(s.NewBatch(), 6); err == nil {
			t.Fatal("applied went back")
		}
		set(t, s, 7, "a=2")
	})
}

func TestDurableAppliedFollowsFlush(t *testing.T) {
	both(t, func(t *testing.T, s Store) {
		want := func(n uint64) {
			t.Helper()
			if got, err := s.DurableApplied(); got != n || err != nil {
				t.Fatalf("durable applied %d, %v, want %d", got, err, n)
			}
		}
		want(0)
		set(t, s, 3, "a=1")
		want(0)
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		want(3)
		set(t, s, 4, "a=2")
		want(3)
	})
}

func TestViewIsFrozen(t *testing.T) {
	both(t, func(t *testing.T, s Store) {
		set(t, s, 1, "a=1", "b=1")
		v := s.NewView()
		it, err := s.NewIter([]byte{1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		set(t, s, 2, "a=2", "c=2")
		wantDump(t, v, "a=1", "b=1")
		wantDump(t, s, "a=2", "b=1", "c=2")
		if !it.First() || pairString(t, it) != "a=1" {
			t.Fatal("an open iterator saw a later write")
		}
		if err := errors.Join(it.Close(), v.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestReprIsOneEncoding: members hash Repr, so it may depend on nothing but the calls made.
func TestReprIsOneEncoding(t *testing.T) {
	p, m := openTest(t, vfs.NewMem(), Options{}), NewMem()
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		a, b := p.NewBatch(), m.NewBatch()
		for range rng.IntN(20) {
			k := fmt.Appendf(nil, "key%d", rng.IntN(1000))
			v := bytes.Repeat([]byte{'v'}, rng.IntN(300))
			if rng.IntN(8) == 0 {
				a.Grow(rng.IntN(10_000)) // where the bytes lie changes nothing in them
			}
			switch cut := rng.IntN(len(v) + 1); rng.IntN(6) {
			case 5:
				a.SetJoined(k, v[:cut], v[cut:])
				b.Set(k, v)
			case 4:
				a.Set(k, v)
				b.SetJoined(k, v[:cut], v[cut:])
			case 0:
				a.Delete(k)
				b.Delete(k)
			case 1:
				a.DeleteRange(k, append(k, v...))
				b.DeleteRange(k, append(k, v...))
			default:
				a.Set(k, v)
				b.Set(k, v)
			}
			a.Overwrote(5)
		}
		if !bytes.Equal(a.Repr(), b.Repr()) || a.Len() != b.Len() || a.Len() != len(a.Repr()) {
			t.Fatalf("round %d: %q and %q", round, a.Repr(), b.Repr())
		}
		if err := errors.Join(p.Commit(a, uint64(round)), m.Commit(b, uint64(round))); err != nil {
			t.Fatal(err)
		}
	}
	wantDump(t, p, dump(t, m)...)
}

// TestIterAgainstModel moves two iterators alike and compares every step.
func TestIterAgainstModel(t *testing.T) {
	p, m := openTest(t, vfs.NewMem(), Options{}), NewMem()
	rng := rand.New(rand.NewPCG(3, 4))
	var pairs []string
	for i := range 300 {
		pairs = append(pairs, fmt.Sprintf("k%03d=%d", rng.IntN(1000), i))
	}
	set(t, p, 1, pairs...)
	set(t, m, 1, pairs...)
	key := func() []byte { return fmt.Appendf(nil, "k%03d", rng.IntN(1100)-50) }
	for range 200 {
		lower, upper := key(), key()
		if bytes.Compare(lower, upper) > 0 {
			lower, upper = upper, lower
		}
		if rng.IntN(4) == 0 {
			upper = nil
		}
		a, err := p.NewIter(lower, upper)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := m.NewIter(lower, upper)
		ok := false
		for range 200 {
			k := key()
			var bok bool
			switch op := rng.IntN(12); {
			case op == 0:
				ok, bok = a.First(), b.First()
			case op == 1:
				ok, bok = a.Last(), b.Last()
			case op == 2:
				ok, bok = a.SeekGE(k), b.SeekGE(k)
			case op == 3:
				ok, bok = a.SeekLT(k), b.SeekLT(k)
			case !ok:
				continue
			case op < 8:
				ok, bok = a.Next(), b.Next()
			default:
				ok, bok = a.Prev(), b.Prev()
			}
			if ok != bok || ok != a.Valid() || ok != b.Valid() || ok && pairString(t, a) != pairString(t, b) {
				t.Fatalf("iterators disagree in [%s, %s) near %s", lower, upper, k)
			}
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func fill(t testing.TB, in Incoming, pairs ...string) {
	t.Helper()
	for _, p := range pairs {
		k, v, _ := bytes.Cut([]byte(p), []byte("="))
		if err := in.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInstallReplacesEverything(t *testing.T) {
	both(t, func(t *testing.T, s Store) {
		set(t, s, 5, "a=1", "z=1")
		v := s.NewView()
		it, err := s.NewIter([]byte{1}, nil)
		if err != nil || !it.First() {
			t.Fatal(err)
		}
		in, err := s.Incoming()
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Set(AppliedKey, nil); err == nil {
			t.Fatal("a key of the store's own was taken")
		}
		fill(t, in, "b=2", "c=3")
		if err := in.Set([]byte("b"), nil); err == nil {
			t.Fatal("a key out of order was taken")
		}
		if err := s.Install(in); err == nil {
			t.Fatal("an unfinished snapshot was installed")
		}
		set(t, s, 6, "a=2") // goes on while receiving
		if err := in.Finish(100); err != nil {
			t.Fatal(err)
		}
		stale := s.NewBatch()
		if err := s.Install(in); err != nil {
			t.Fatal(err)
		}
		wantDump(t, s, "b=2", "c=3")
		if n, err := s.DurableApplied(); s.Applied() != 100 || n != 100 || err != nil {
			t.Fatalf("applied %d, durable %d, %v", s.Applied(), n, err)
		}
		if _, _, err := v.Get(nil, []byte("a")); !errors.Is(err, ErrReplaced) {
			t.Fatalf("old view: %v", err)
		}
		if _, err := v.NewIter(nil, nil); !errors.Is(err, ErrReplaced) {
			t.Fatalf("old view: %v", err)
		}
		if it.Next() || !errors.Is(it.Error(), ErrReplaced) {
			t.Fatalf("old iterator: %v", it.Error())
		}
		if err := it.Close(); !errors.Is(err, ErrReplaced) {
			t.Fatalf("old iterator: %v", err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		stale.Set([]byte("y"), nil)
		if err := s.Commit(stale, 101); !errors.Is(err, ErrReplaced) {
			t.Fatalf("a batch of the replaced store was committed: %v", err)
		}
		set(t, s, 102, "d=4")
	})
}

func TestAbortLeavesTheStoreAlone(t *testing.T) {
	both(t, func(t *testing.T, s Store) {
		set(t, s, 1, "a=1")
		for range 2 {
			in, err := s.Incoming()
			if err != nil {
				t.Fatal(err)
			}
			fill(t, in, "b=2")
			if err := in.Abort(); err != nil {
				t.Fatal(err)
			}
		}
		wantDump(t, s, "a=1")
	})
}

func TestMemCrashLosesWhatWasNotFlushed(t *testing.T) {
	m := NewMem()
	set(t, m, 1, "a=1")
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	set(t, m, 2, "b=2")
	after := m.Crash()
	wantDump(t, after, "a=1")
	if after.Applied() != 1 {
		t.Fatalf("applied %d", after.Applied())
	}
	if err := m.Commit(m.NewBatch(), 3); !errors.Is(err, ErrClosed) {
		t.Fatalf("the crashed store still commits: %v", err)
	}
	set(t, after, 2, "b=3")
	wantDump(t, after, "a=1", "b=3")
}

// FuzzDecodeOps: any bytes are refused or are exactly the operations that encode to them.
func FuzzDecodeOps(f *testing.F) {
	var seed memBatch
	seed.Set([]byte("key"), []byte("value"))
	seed.Delete([]byte("key"))
	seed.DeleteRange([]byte("a"), []byte("b"))
	f.Add(seed.ops)
	f.Fuzz(func(t *testing.T, p []byte) {
		var again memBatch
		err := decodeOps(p, func(kind byte, key, value []byte) error {
			switch kind {
			case opSet:
				again.Set(key, value)
			case opDelete:
				again.Delete(key)
			case opDeleteRange:
				again.DeleteRange(key, value)
			}
			return nil
		})
		if err == nil && !bytes.Equal(again.ops, p) {
			t.Fatalf("%x decodes to %x", p, again.ops)
		}
	})
}

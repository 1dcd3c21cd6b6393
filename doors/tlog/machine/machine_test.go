package machine

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/golden"
)

// TestAgainstModel adds random batches, restarts now and then, and compares everything readers can ask for with a plain list.
func TestAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	r := newRig(t)
	l, s := r.create("default", false, false)
	o := &model{roots: []tiles.Hash{tiles.EmptyRoot()}}
	next := 0
	for round := 0; next < 70_000; round++ {
		n := 1 + rng.IntN(700)
		if round > 60 { // far enough for a second level of tiles, in large steps
			n = 4096
		}
		es := texts(next, n)
		for i := range es {
			if rng.IntN(300) == 0 {
				es[i] = nil
			}
		}
		at := r.add(l, es...)
		o.add(es...)
		for i, index := range at {
			if index != uint64(next+i) {
				t.Fatalf("entry %d of a batch at %d got index %d", i, next, index)
			}
		}
		next += n
		if round%20 == 0 {
			o.compare(t, l)
		}
		if round%3 == 0 {
			if res := r.apply(checkpointOf(sign(l, s)))[0]; res.Rejection != nil {
				t.Fatal(res.Rejection)
			}
		}
		if rng.IntN(10) == 0 {
			r.reopen()
			l = r.m.Find("default")
			if size, root, err := r.m.CheckEdge(l); err != nil || size != uint64(next) || root != o.f.Root() {
				t.Fatalf("edge at %d: %d, %v, %v", next, size, root, err)
			}
		}
	}
	o.compare(t, l)
	r.reopen()
	o.compare(t, r.m.Find("default"))
	for range 200 { // proofs about sizes long past
		size := rng.Uint64N(uint64(next)) + 1
		p := r.m.Find("default").Prover(r.m.Find("default").View(), size)
		if root, err := p.Root(); err != nil || root != o.roots[size] {
			t.Fatalf("root at %d: %v, %v", size, root, err)
		}
		index := rng.Uint64N(size)
		hs, err := p.Inclusion(index)
		if err != nil {
			t.Fatal(err)
		}
		if err := tiles.VerifyInclusion(index, size, tiles.LeafHash(o.entries[index]), hs, o.roots[size]); err != nil {
			t.Fatalf("inclusion of %d in %d: %v", index, size, err)
		}
	}
}

// TestLargeEntries: what does not fit in memory on the right edge comes from the store, and gives the same log.
func TestLargeEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	r := newRig(t)
	l, _ := r.create("default", false, false)
	o := &model{}
	for len(o.entries) < 600 {
		var es [][]byte
		for range 1 + rng.IntN(20) {
			e := make([]byte, rng.IntN(6000))
			for i := range e {
				e[i] = byte(rng.Uint32())
			}
			es = append(es, e)
		}
		r.add(l, es...)
		o.add(es...)
		if rng.IntN(5) == 0 {
			r.reopen()
			l = r.m.Find("default")
		}
		o.compare(t, l)
	}
}

// TestManyLogsShareAnEntry: logs are independent, and one raft entry may change several, one of them more than once.
func TestManyLogsShareAnEntry(t *testing.T) {
	r := newRig(t)
	a, _ := r.create("a", false, false)
	b, _ := r.create("b", true, false)
	ma, mb := &model{}, &model{}
	for i := range 100 {
		r.apply(batch(a, texts(i*7, 4)...), batch(b, texts(i*5, 5)...), batch(a, texts(i*7+4, 3)...))
		ma.add(texts(i*7, 7)...)
		mb.add(texts(i*5, 5)...)
	}
	ma.compare(t, a)
	mb.compare(t, b)
	if got := len(r.m.Logs()); got != 2 {
		t.Errorf("%d logs", got)
	}
}

// TestEqualEntriesGetTheFirstIndex, inside a batch, in later ones, after a restart, and however often.
func TestEqualEntriesGetTheFirstIndex(t *testing.T) {
	r := newRig(t)
	l, _ := r.create("d", true, false)
	expect := func(want []uint64, entries ...string) {
		t.Helper()
		var es [][]byte
		for _, e := range entries {
			es = append(es, []byte(e))
		}
		if got := r.add(l, es...); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %d, want %d", entries, got, want)
		}
	}
	expect([]uint64{0, 1, 0, 2}, "a", "b", "a", "c")
	expect([]uint64{2, 1, 0}, "c", "b", "a")
	r.reopen()
	l = r.m.Find("d")
	expect([]uint64{3, 0, 3, 4}, "x", "a", "x", "")
	expect([]uint64{4}, "")
	// Two commands of one raft entry.
	res := r.apply(batch(l, []byte("n"), []byte("a")), batch(l, []byte("n")))
	if a, b := res[0].Of(entry.MachineTlog).(*tlogpart.Appended), res[1].Of(entry.MachineTlog).(*tlogpart.Appended); a.At(0) != 5 || a.At(1) != 0 || b.At(0) != 5 {
		t.Errorf("in one raft entry: %+v, %+v", a, b)
	}
	if v := l.View(); v.Size != 6 {
		t.Errorf("%d entries", v.Size)
	}
	if at, err := l.Lookup(tiles.LeafHash([]byte("n")), 10); err != nil || len(at) != 1 || at[0] != 5 {
		t.Errorf("lookup: %d, %v", at, err)
	}
}

func TestLookup(t *testing.T) {
	r := newRig(t)
	l, _ := r.create("i", false, true)
	r.add(l, []byte("a"), []byte("b"), []byte("a"))
	r.add(l, []byte("a"))
	for want, hash := range map[string]tiles.Hash{"[0 2 3]": tiles.LeafHash([]byte("a")), "[1]": tiles.LeafHash([]byte("b")), "[]": {0xff, 0xff}} {
		if at, err := l.Lookup(hash, 10); err != nil || fmt.Sprint(at) != want {
			t.Errorf("%d, %v, want %s", at, err, want)
		}
	}
	if at, _ := l.Lookup(tiles.LeafHash([]byte("a")), 2); len(at) != 2 {
		t.Errorf("at most two: %d", at)
	}
}

func TestRejectedParts(t *testing.T) {
	r := newRig(t)
	l, s := r.create("default", false, false)
	torn := batch(l, text(1))
	torn.Entries = torn.Entries[:len(torn.Entries)-1]
	many := batch(l)
	many.Entries = make([]byte, 2*(tlogpart.MaxEntries+1))
	spec := func(name, origin string) *tlogpart.Part {
		return &tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: name, Key: *signer(t, origin).Verifier()}}
	}
	pq := spec("pq", "log.example/pq")
	pq.Spec.Key.Alg = tiles.MLDSA44
	for i, c := range []struct {
		part *tlogpart.Part
		want entry.Code
	}{
		{&tlogpart.Part{Kind: tlogpart.Append, Log: 2, Entries: torn.Entries}, tlogpart.UnknownLog},
		{&tlogpart.Part{Kind: tlogpart.Append, Log: 0}, tlogpart.UnknownLog},
		{batch(l), tlogpart.MalformedPart},
		{torn, tlogpart.MalformedPart},
		{many, tlogpart.MalformedPart},
		{spec("default", "log.example/other"), tlogpart.LogExists},
		{spec("other", s.Verifier().Name), tlogpart.LogExists},
		{pq, tlogpart.MalformedPart},
		{&tlogpart.Part{Kind: tlogpart.Resume, Log: 1}, tlogpart.NotHeld},
	} {
		if rej := r.apply(c.part)[0].Rejection; rej == nil || rej.Code != c.want {
			t.Errorf("%d: %v, want code %d", i, rej, c.want)
		}
	}
	if l.View().Size != 0 || len(r.m.Logs()) != 1 {
		t.Error("something changed")
	}
}

// TestSameRowsAfterRestarts: a member that restarts writes what one that runs through writes.
func TestSameRowsAfterRestarts(t *testing.T) {
	run := func(restart bool) string {
		r := newRig(t)
		l, s := r.create("default", true, true)
		for i := range 60 {
			r.apply(batch(l, texts(i*13, 30)...), batch(l, bytes.Repeat([]byte{byte(i)}, 20000)))
			if i%4 == 0 {
				r.apply(checkpointOf(sign(l, s)))
			}
			if restart {
				r.reopen()
				l = r.m.Find("default")
			}
		}
		index, hash := r.Applier.Hash()
		return fmt.Sprint(index, " ", hash)
	}
	if a, b := run(false), run(true); a != b {
		t.Errorf("state %s without restarts, %s with them", a, b)
	}
}

// TestHurryIsSeen: a batch with a client that waits makes the log wanted until a checkpoint covers it.
func TestHurryIsSeen(t *testing.T) {
	r := newRig(t)
	l, s := r.create("default", false, false)
	r.apply(checkpointOf(sign(l, s)))
	demand := r.m.Demand()
	p := batch(l, text(0))
	p.Hurry = true
	r.apply(p)
	select {
	case <-demand:
	default:
		t.Error("no demand")
	}
	if l.Wanted() != 1 {
		t.Errorf("wanted: %d", l.Wanted())
	}
	r.apply(checkpointOf(sign(l, s)))
	if l.Wanted() != 0 {
		t.Errorf("still wanted: %d", l.Wanted())
	}
}

// TestGolden pins the rows.
func TestGolden(t *testing.T) {
	r := newRig(t)
	l, s := r.create("default", true, false)
	i, _ := r.create("other", false, true)
	r.add(l, texts(0, 258)...)
	r.add(l, texts(258, 2)...)
	r.add(i, text(0))
	r.apply(checkpointOf(sign(l, s)))
	var out strings.Builder
	dedups := 0
	err := scan(r.Store, []byte{letter}, func(k, v []byte) error {
		if k[0] == spaceDedup {
			if dedups++; dedups > 2 {
				return nil
			}
		}
		if len(v) > 200 {
			fmt.Fprintf(&out, "t%q %x = %d bytes, leaf hash %v\n", k[0], k[1:], len(v), tiles.LeafHash(v))
			return nil
		}
		fmt.Fprintf(&out, "t%q %x = %s\n", k[0], k[1:], hex.EncodeToString(v))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/rows.txt", out.String())
}

func FuzzLogRow(f *testing.F) {
	spec := tlogpart.LogSpec{Name: "default", Key: *signer(f, "log.example/x").Verifier(), Dedup: true}
	f.Add(appendLogRow(nil, true, &spec))
	f.Fuzz(func(t *testing.T, b []byte) {
		if held, spec, err := decodeLogRow(b); err == nil && !bytes.Equal(appendLogRow(nil, held, &spec), b) {
			t.Fatalf("%x comes back as %x", b, appendLogRow(nil, held, &spec))
		}
	})
}

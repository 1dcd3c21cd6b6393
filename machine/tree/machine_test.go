package tree

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/entry"
	etree "github.com/holdfastdb/holdfast/entry/tree"
	"github.com/holdfastdb/holdfast/internal/golden"
	"github.com/holdfastdb/holdfast/store"
	"github.com/holdfastdb/holdfast/tiles"
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
	if a, b := res[0].Of(entry.MachineTree).(*etree.Appended), res[1].Of(entry.MachineTree).(*etree.Appended); a.At(0) != 5 || a.At(1) != 0 || b.At(0) != 5 {
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

// TestCheckpoints: only notes that are about this log's own tree and verify are published; one about another tree stops the
// node.
func TestCheckpoints(t *testing.T) {
	r := newRig(t)
	l, s := r.create("default", false, false)
	other := signer(t, "log.example/elsewhere")
	code := func(c ...etree.Signed) entry.Code {
		t.Helper()
		if rej := r.apply(checkpointOf(c...))[0].Rejection; rej != nil {
			return rej.Code
		}
		return 0
	}
	_, first := l.Newest()
	if got := code(sign(l, s)); got != 0 {
		t.Fatalf("of size 0: %d", got)
	}
	<-first
	if c, _ := l.Newest(); c == nil || c.Size != 0 {
		t.Fatalf("newest: %+v", c)
	}
	if got := code(sign(l, s)); got != etree.StaleCheckpoint {
		t.Errorf("of the same size again: %d", got)
	}
	r.add(l, texts(0, 300)...)
	early := sign(l, s)
	r.add(l, texts(300, 300)...)
	late := sign(l, s)
	wrong := late
	wrong.Note = signAs(l, other, late.Size, late.Root).Note
	if got := code(wrong); got != etree.BadSignature {
		t.Errorf("with another key: %d", got)
	}
	wrong.Note = early.Note
	if got := code(wrong); got != etree.BadSignature {
		t.Errorf("with the note of another size: %d", got)
	}
	if got := code(early, early); got != etree.MalformedPart {
		t.Errorf("twice in one part: %d", got)
	}
	if got := code(etree.Signed{Log: 9, Note: late.Note}); got != etree.UnknownLog {
		t.Errorf("of no log: %d", got)
	}
	r.reopen() // the roots of the last entries are not in memory now
	l = r.m.Find("default")
	if got := code(early); got != 0 {
		t.Errorf("of an earlier size: %d", got)
	}
	if got := code(late); got != 0 {
		t.Errorf("of the newest size: %d", got)
	}
	if got := code(early); got != etree.StaleCheckpoint {
		t.Errorf("of an earlier size after it: %d", got)
	}
	if c := l.Checkpoint(); c.Size != 600 || !bytes.Equal(c.Note, late.Note) {
		t.Errorf("newest: %+v", c)
	}

	r.add(l, text(600))
	_, err := r.Try(commands(checkpointOf(signAs(l, s, 601, tiles.Hash{1})))...)
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), l.View().Root.String()) {
		t.Errorf("of another root: %v", err)
	}
}

func TestRejectedParts(t *testing.T) {
	r := newRig(t)
	l, s := r.create("default", false, false)
	torn := batch(l, text(1))
	torn.Entries = torn.Entries[:len(torn.Entries)-1]
	many := batch(l)
	many.Entries = make([]byte, 2*(etree.MaxEntries+1))
	spec := func(name, origin string) *etree.Part {
		return &etree.Part{Kind: etree.Create, Spec: etree.LogSpec{Name: name, Key: *signer(t, origin).Verifier()}}
	}
	pq := spec("pq", "log.example/pq")
	pq.Spec.Key.Alg = tiles.MLDSA44
	for i, c := range []struct {
		part *etree.Part
		want entry.Code
	}{
		{&etree.Part{Kind: etree.Append, Log: 2, Entries: torn.Entries}, etree.UnknownLog},
		{&etree.Part{Kind: etree.Append, Log: 0}, etree.UnknownLog},
		{batch(l), etree.MalformedPart},
		{torn, etree.MalformedPart},
		{many, etree.MalformedPart},
		{spec("default", "log.example/other"), etree.LogExists},
		{spec("other", s.Verifier().Name), etree.LogExists},
		{pq, etree.MalformedPart},
		{&etree.Part{Kind: etree.Resume, Log: 1}, etree.NotHeld},
	} {
		if rej := r.apply(c.part)[0].Rejection; rej == nil || rej.Code != c.want {
			t.Errorf("%d: %v, want code %d", i, rej, c.want)
		}
	}
	if l.View().Size != 0 || len(r.m.Logs()) != 1 {
		t.Error("something changed")
	}
}

// TestRestoredLogsAreHeld: a restored log takes nothing until the checkpoint it was last seen with is shown to be a prefix.
func TestRestoredLogsAreHeld(t *testing.T) {
	r := newRig(t)
	l, s := r.create("default", false, false)
	r.add(l, texts(0, 500)...)
	at500 := l.View().Root

	r.add(l, texts(500, 400)...)
	at900 := l.View().Root

	// The snapshot was taken at 500: build that state again, row by row, as a restore does.
	first := newRig(t)
	fl, _ := first.create("default", false, false)
	first.add(fl, texts(0, 500)...)
	copied := store.NewMem()
	b := copied.NewBatch()
	err := scan(first.Store, []byte{letter}, func(k, v []byte) error {
		key := append([]byte{letter}, k...)
		v, _, err := Spec.Restore(key, v)
		b.Set(key, v)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := copied.Commit(b, 1); err != nil {
		t.Fatal(err)
	}
	h := openRig(t, copied)
	hl := h.m.Find("default")
	if !hl.Held() {
		t.Fatal("it is not held")
	}
	code := func(p *etree.Part) entry.Code {
		t.Helper()
		if rej := h.apply(p)[0].Rejection; rej != nil {
			return rej.Code
		}
		return 0
	}
	if got := code(batch(hl, text(1))); got != etree.LogHeld {
		t.Errorf("an add: %d", got)
	}
	if got := code(checkpointOf(sign(hl, s))); got != etree.LogHeld {
		t.Errorf("a checkpoint: %d", got)
	}
	if got := code(&etree.Part{Kind: etree.Resume, Log: 1, Size: 900, Root: at900}); got != etree.NotPrefix {
		t.Errorf("resume with the checkpoint of 900: %d", got)
	}
	if got := code(&etree.Part{Kind: etree.Resume, Log: 1, Size: 500, Root: at900}); got != etree.NotPrefix {
		t.Errorf("resume with another root: %d", got)
	}
	if got := code(&etree.Part{Kind: etree.Resume, Log: 1, Size: 500, Root: at500}); got != 0 || hl.Held() {
		t.Errorf("resume with the checkpoint of 500: %d", got)
	}
	h.reopen()
	if hl = h.m.Find("default"); hl.Held() {
		t.Error("it is held again after a restart")
	}
	if got := code(batch(hl, text(1))); got != 0 {
		t.Errorf("an add afterwards: %d", got)
	}
}

// TestAlteredEdgesAreFound alters each row a root rests on, as no checksum would notice. Nothing of it may be signed.
func TestAlteredEdgesAreFound(t *testing.T) {
	const size = 65536 + 3*256 + 5
	r := newRig(t)
	l, _ := r.create("default", false, false)
	for i := 0; i < size; i += 4096 {
		r.add(l, texts(i, min(4096, size-i))...)
	}
	alter := func(key func(l *Log) []byte, at int) error {
		if _, _, err := r.m.CheckEdge(l); err != nil {
			t.Fatal("untouched:", err)
		}
		k := key(l)
		v, ok, err := r.Store.Get(nil, k)
		if err != nil || !ok {
			t.Fatalf("row %x: %v, %v", k, ok, err)
		}
		if at < 0 {
			at += len(v)
		}
		v[at] ^= 1
		b := r.Store.NewBatch()
		b.Set(k, v)
		if err := r.Store.Commit(b, r.Store.Applied()); err != nil {
			t.Fatal(err)
		}
		_, _, found := r.m.CheckEdge(l)
		v[at] ^= 1
		b = r.Store.NewBatch()
		b.Set(k, v)
		if err := r.Store.Commit(b, r.Store.Applied()); err != nil {
			t.Fatal(err)
		}
		return found
	}
	for what, err := range map[string]error{
		"the frontier":                   alter(func(l *Log) []byte { return l.key(spaceFrontier) }, -1),
		"the frontier's largest subtree": alter(func(l *Log) []byte { return l.key(spaceFrontier) }, 8),
		"an entry after the last bundle": alter(func(l *Log) []byte { return l.pieceKey(65536 + 768) }, -1),
		"a hash after the last tile":     alter(func(l *Log) []byte { return l.nodeKey(1, 257) }, 0),
		"the hash above it":              alter(func(l *Log) []byte { return l.nodeKey(2, 0) }, 0),
		"the last full tile":             alter(func(l *Log) []byte { return l.tileKey(0, 258) }, 40),
		"the last full tile of level 1":  alter(func(l *Log) []byte { return l.tileKey(1, 0) }, 40),
		"the last bundle":                alter(func(l *Log) []byte { return l.bundleKey(258) }, 45),
	} {
		var d *Damage
		if !errors.As(err, &d) || d.Is == d.Want {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
}

// TestScrubFindsInteriorDamage: an old tile, an old bundle, a tile of tiles, none of which the right edge rests on.
func TestScrubFindsInteriorDamage(t *testing.T) {
	const size = 65536 + 600
	r := newRig(t)
	l, _ := r.create("default", false, false)
	for i := 0; i < size; i += 4096 {
		r.add(l, texts(i, min(4096, size-i))...)
	}
	calm := func(_, _ uint64) error { return nil }
	if err := l.Scrub(calm); err != nil {
		t.Fatal("untouched:", err)
	}
	for what, c := range map[string]struct {
		key          []byte
		at           int
		level, index uint64
	}{
		"a tile":             {l.tileKey(0, 7), 32*5 + 1, 0, 7*256 + 5},
		"a tile of level 1":  {l.tileKey(1, 0), 32 * 9, 1, 9},
		"an entry":           {l.bundleKey(3), 40 * 11, 0, 0},
		"the right edge row": {l.tileKey(0, 257), 0, 0, 257 * 256},
	} {
		v, ok, err := r.Store.Get(nil, c.key)
		if err != nil || !ok {
			t.Fatal(what, ok, err)
		}
		put := func() {
			v[c.at] ^= 1
			b := r.Store.NewBatch()
			b.Set(c.key, v)
			if err := r.Store.Commit(b, r.Store.Applied()); err != nil {
				t.Fatal(err)
			}
		}
		put()
		err = l.Scrub(calm)
		var d *Damage
		if !errors.As(err, &d) && !errors.Is(err, errCorrupt) || d != nil && what != "an entry" && (uint64(d.Level) != c.level || d.Index != c.index) {
			t.Errorf("%s: %v", what, err)
		}
		put()
	}
	ended := errors.New("asked to end")
	if err := l.Scrub(func(done, all uint64) error {
		if done > 1000 && all == size {
			return ended
		}
		return nil
	}); !errors.Is(err, ended) {
		t.Error(err)
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
	spec := etree.LogSpec{Name: "default", Key: *signer(f, "log.example/x").Verifier(), Dedup: true}
	f.Add(appendLogRow(nil, true, &spec))
	f.Fuzz(func(t *testing.T, b []byte) {
		if held, spec, err := decodeLogRow(b); err == nil && !bytes.Equal(appendLogRow(nil, held, &spec), b) {
			t.Fatalf("%x comes back as %x", b, appendLogRow(nil, held, &spec))
		}
	})
}

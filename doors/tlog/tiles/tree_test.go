package tiles

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"
)

// grown is a tree as this package keeps one: frontier, and the hashes of every level of tiles.
type grown struct {
	f      Frontier
	levels [8][]byte
	roots  []Hash // by size
}

func (g *grown) add(entry []byte) {
	if len(g.roots) == 0 {
		g.roots = append(g.roots, g.f.Root())
	}
	leaf := LeafHash(entry)
	g.levels[0] = append(g.levels[0], leaf[:]...)
	var done Completed
	for l := range g.f.Append(leaf, &done) {
		g.levels[l+1] = append(g.levels[l+1], done[l][:]...)
	}
	g.roots = append(g.roots, g.f.Root())
}

// prover gives out tiles as a log would: never more hashes than were asked for.
func (g *grown) prover(size uint64) *Prover {
	return &Prover{Size: size, Tile: func(level int, n uint64, width int) ([]byte, error) {
		from, to := n*Width*HashSize, (n*Width+uint64(width))*HashSize
		if to > uint64(len(g.levels[level])) || width > Width {
			return nil, fmt.Errorf("no tile %d/%d of width %d", level, n, width)
		}
		return g.levels[level][from:to], nil
	}}
}

func entryOf(i int) []byte { return fmt.Appendf(nil, "entry %d", i) }

// TestAgainstTwoOthers grows a tree and compares roots and proofs with Go's checksum database code and with
// transparency-dev's verifiers.
func TestAgainstTwoOthers(t *testing.T) {
	const size = 70_000 // beyond 256*256: three levels of tiles
	g := &grown{}
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(at))
		for i, x := range at {
			out[i] = stored[x]
		}
		return out, nil
	})
	rng := rand.New(rand.NewPCG(6962, 1))
	for i := range size {
		g.add(entryOf(i))
		hs, err := tlog.StoredHashes(int64(i), entryOf(i), reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hs...)
		if i < 1000 || i%997 == 0 {
			want, err := tlog.TreeHash(int64(i+1), reader)
			if err != nil || g.roots[i+1] != Hash(want) {
				t.Fatalf("root at %d is %v, theirs %v (%v)", i+1, g.roots[i+1], want, err)
			}
		}
	}
	for range 2000 {
		n := rng.Uint64N(size) + 1
		if rng.IntN(2) == 0 {
			n = rng.Uint64N(600) + 1
		}
		p := g.prover(n)
		root, err := p.Root()
		if err != nil || root != g.roots[n] {
			t.Fatalf("root from tiles at %d: %v, %v", n, root, err)
		}
		index := rng.Uint64N(n)
		ours, err := p.Inclusion(index)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := tlog.ProveRecord(int64(n), int64(index), reader)
		if err != nil || !sameHashes(ours, theirs) {
			t.Fatalf("inclusion of %d in %d: %v, theirs %v (%v)", index, n, ours, theirs, err)
		}
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, n, leafOf(int(index)), slicesOf(ours), root[:]); err != nil {
			t.Fatalf("inclusion of %d in %d: transparency-dev says %v", index, n, err)
		}
		if err := VerifyInclusion(index, n, LeafHash(entryOf(int(index))), ours, root); err != nil {
			t.Fatalf("inclusion of %d in %d: we say %v", index, n, err)
		}
		refuseMutations(t, rng, ours, func(hs []Hash) error {
			return VerifyInclusion(index, n, LeafHash(entryOf(int(index))), hs, root)
		})

		old := rng.Uint64N(n) + 1
		ours, err = p.Consistency(old)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := tlog.ProveTree(int64(n), int64(old), reader)
		if err != nil || !sameHashes(ours, tree) {
			t.Fatalf("consistency of %d and %d: %v, theirs %v (%v)", old, n, ours, tree, err)
		}
		if err := proof.VerifyConsistency(rfc6962.DefaultHasher, old, n, slicesOf(ours), g.roots[old][:], root[:]); err != nil {
			t.Fatalf("consistency of %d and %d: transparency-dev says %v", old, n, err)
		}
		if err := VerifyConsistency(old, n, g.roots[old], root, ours); err != nil {
			t.Fatalf("consistency of %d and %d: we say %v", old, n, err)
		}
		refuseMutations(t, rng, ours, func(hs []Hash) error { return VerifyConsistency(old, n, g.roots[old], root, hs) })
	}
}

func leafOf(i int) []byte { h := LeafHash(entryOf(i)); return h[:] }

func slicesOf(hs []Hash) (out [][]byte) {
	for i := range hs {
		out = append(out, hs[i][:])
	}
	return out
}

func sameHashes[T ~[]tlog.Hash](a []Hash, b T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != Hash(b[i]) {
			return false
		}
	}
	return true
}

// refuseMutations changes a good proof in every small way; none may verify.
func refuseMutations(t *testing.T, rng *rand.Rand, good []Hash, verify func([]Hash) error) {
	t.Helper()
	longer := append(append([]Hash(nil), good...), Hash{1})
	if verify(longer) == nil {
		t.Fatal("a proof with a hash too many verifies")
	}
	if len(good) == 0 {
		return
	}
	if verify(good[:len(good)-1]) == nil || verify(good[1:]) == nil {
		t.Fatal("a proof that lacks a hash verifies")
	}
	bad := append([]Hash(nil), good...)
	bad[rng.IntN(len(bad))][rng.IntN(HashSize)] ^= 1 << rng.IntN(8)
	if verify(bad) == nil {
		t.Fatal("a proof with another bit verifies")
	}
}

func TestFrontierSurvivesItsEncoding(t *testing.T) {
	var f, g Frontier
	var done Completed
	for i := range 1000 {
		if err := g.Decode(f.AppendBinary(nil)); err != nil || g.Size() != f.Size() || g.Root() != f.Root() {
			t.Fatalf("at %d: %v", i, err)
		}
		g.Append(LeafHash(entryOf(i)), &done)
		f = g
	}
}

// TestPeaksOfATile: a frontier's hashes of a tile that is not full can be computed from the tile's hashes. The check before a checkpoint is
// signed needs them.
func TestPeaksOfATile(t *testing.T) {
	g := &grown{}
	for i := range 700 {
		g.add(entryOf(i))
		var want []Hash
		for h := Height - 1; h >= 0; h-- {
			if p, ok := g.f.Peak(h); ok {
				want = append(want, p)
			}
		}
		k := (i + 1) % Width
		got := Peaks(nil, g.levels[0][len(g.levels[0])-k*HashSize:])
		if len(got) != len(want) {
			t.Fatalf("at %d: %d peaks, want %d", i+1, len(got), len(want))
		}
		for j := range got {
			if got[j] != want[j] {
				t.Fatalf("at %d: peak %d differs", i+1, j)
			}
		}
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string]Ref{
		"tile/0/000":                   {0, 0, 256},
		"tile/0/999.p/255":             {0, 999, 255},
		"tile/1/x001/000":              {1, 1000, 256},
		"tile/entries/x001/x234/067":   {EntryLevel, 1234067, 256},
		"tile/63/000.p/1":              {63, 0, 1},
		"tile/entries/x001/234.p/17":   {EntryLevel, 1234, 17},
		"tile/2/x036/x028/x797/018":    {2, 36028797018, 256},
		"tile/entries/x100/x000/003":   {EntryLevel, 100000003, 256},
		"tile/0/x123/x000/x000/x000/4": {-9, 0, 0},
	} {
		got, err := ParsePath(path)
		if want.Level == -9 {
			if err == nil {
				t.Errorf("%s is taken", path)
			}
			continue
		}
		if err != nil || got != want || got.Path() != path {
			t.Errorf("%s: %+v, %v, and back %s", path, got, err, got.Path())
		}
	}
	for _, path := range []string{"", "tile", "tile/", "tile/0", "tile/0/", "tile/0/0", "tile/0/0000", "tile/64/000", "tile/00/000", "tile/-1/000",
		"tile/+1/000", "tile/0/x000/001", "tile/0/001/002", "tile/0/x001", "tile/0/x001/x002", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01",
		"tile/0/000.p/", "tile/0/000.p/1/", "tile/0/000/", "tile/data/000", "tile/0/00a", "tile/0/x999/x999/x999/x999/x999/x999/999", "checkpoint"} {
		if r, err := ParsePath(path); !errors.Is(err, ErrPath) {
			t.Errorf("%q is taken as %+v, %v", path, r, err)
		}
	}
}

func TestBundles(t *testing.T) {
	entries := [][]byte{[]byte("a"), {}, bytes.Repeat([]byte{7}, MaxEntryBytes)}
	var b []byte
	for _, e := range entries {
		b = AppendEntry(b, e)
	}
	hashes, n, err := LeafHashes(nil, b)
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	for i, e := range entries {
		if want := LeafHash(e); !bytes.Equal(hashes[i*HashSize:(i+1)*HashSize], want[:]) {
			t.Errorf("leaf hash %d differs", i)
		}
	}
	if two, err := CutBundle(b, 2); err != nil || !bytes.Equal(two, b[:5]) {
		t.Errorf("two entries: %x, %v", two, err)
	}
	if _, err := CutBundle(b, 4); !errors.Is(err, ErrBundle) {
		t.Error("four of three entries:", err)
	}
	if _, _, err := LeafHashes(nil, b[:len(b)-1]); !errors.Is(err, ErrBundle) {
		t.Error("a torn bundle is taken:", err)
	}
}

func TestLeafHashOfLongEntries(t *testing.T) {
	for _, n := range []int{0, 1, 510, 511, 512, 513, MaxEntryBytes} {
		e := bytes.Repeat([]byte{0xa5}, n)
		if got := LeafHash(e); !bytes.Equal(got[:], rfc6962.DefaultHasher.HashLeaf(e)) {
			t.Errorf("leaf hash of %d bytes differs", n)
		}
	}
	if e := EmptyRoot(); !bytes.Equal(e[:], rfc6962.DefaultHasher.EmptyRoot()) {
		t.Error("empty root differs")
	}
}

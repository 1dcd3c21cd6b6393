package machine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// rig drives one machine.
type rig struct {
	*machinetest.Rig
	m *Machine
}

func newRig(t testing.TB) *rig { return openRig(t, store.NewMem()) }

func openRig(t testing.TB, st store.Store) *rig {
	t.Helper()
	m := New()
	return &rig{machinetest.Open(t, st, m), m}
}

// reopen is a restart that lost nothing.
func (r *rig) reopen() { *r = *openRig(r.T, r.Store) }

// commands are one for each part.
func commands(parts ...*tlogpart.Part) (all [][]entry.Part) {
	for _, p := range parts {
		all = append(all, machinetest.Command(entry.MachineTlog, tlogpart.AppendPart(nil, p)))
	}
	return all
}

// apply applies one raft entry with one command per part.
func (r *rig) apply(parts ...*tlogpart.Part) []*entry.Result {
	r.T.Helper()
	return r.Apply(commands(parts...)...)
}

func signer(t testing.TB, origin string) *tiles.Signer {
	t.Helper()
	s, err := tiles.NewSigner(origin, bytes.Repeat([]byte{byte(len(origin))}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// create begins a log and returns it with its signer.
func (r *rig) create(name string, dedup, index bool) (*Log, *tiles.Signer) {
	r.T.Helper()
	s := signer(r.T, "log.example/"+name)
	res := r.apply(&tlogpart.Part{Kind: tlogpart.Create, Spec: tlogpart.LogSpec{Name: name, Key: *s.Verifier(), Dedup: dedup, Index: index}})[0]
	if res.Rejection != nil {
		r.T.Fatal(res.Rejection)
	}
	return r.m.Find(name), s
}

func batch(l *Log, entries ...[]byte) *tlogpart.Part {
	p := &tlogpart.Part{Kind: tlogpart.Append, Log: l.Number}
	for _, e := range entries {
		p.Entries = tiles.AppendEntry(p.Entries, e)
	}
	return p
}

// add adds entries in one batch and returns their indexes.
func (r *rig) add(l *Log, entries ...[]byte) (at []uint64) {
	r.T.Helper()
	res := r.apply(batch(l, entries...))[0]
	if res.Rejection != nil {
		r.T.Fatal(res.Rejection)
	}
	a := res.Of(entry.MachineTlog).(*tlogpart.Appended)
	for i := range entries {
		at = append(at, a.At(i))
	}
	return at
}

// sign makes a checkpoint of what the log is now.
func sign(l *Log, s *tiles.Signer) tlogpart.Signed {
	v := l.View()
	return signAs(l, s, v.Size, v.Root)
}

func signAs(l *Log, s *tiles.Signer, size uint64, root tiles.Hash) tlogpart.Signed {
	n := &tiles.Note{Text: (&tiles.Checkpoint{Origin: s.Verifier().Name, Size: size, Root: root}).Text()}
	s.Sign(n)
	return tlogpart.Signed{Log: l.Number, Size: size, Root: root, Note: n.Append(nil)}
}

func checkpointOf(c ...tlogpart.Signed) *tlogpart.Part {
	return &tlogpart.Part{Kind: tlogpart.Checkpoint, Checkpoints: c}
}

func text(i int) []byte { return fmt.Appendf(nil, "entry %d", i) }

func texts(from, n int) (out [][]byte) {
	for i := range n {
		out = append(out, text(from+i))
	}
	return out
}

// model is the same log as a plain list.
type model struct {
	f       tiles.Frontier
	entries [][]byte
	levels  [levels][]byte
	roots   []tiles.Hash // by size
}

func (o *model) add(entries ...[]byte) {
	if len(o.roots) == 0 {
		o.roots = []tiles.Hash{tiles.EmptyRoot()}
	}
	for _, e := range entries {
		o.entries = append(o.entries, bytes.Clone(e))
		leaf := tiles.LeafHash(e)
		o.levels[0] = append(o.levels[0], leaf[:]...)
		var done tiles.Completed
		for l := range o.f.Append(leaf, &done) {
			o.levels[l+1] = append(o.levels[l+1], done[l][:]...)
		}
		o.roots = append(o.roots, o.f.Root())
	}
}

// compare holds every resource of a log, full and partial, against the model.
func (o *model) compare(t testing.TB, l *Log) {
	t.Helper()
	v := l.View()
	if v.Size != uint64(len(o.entries)) || v.Root != o.f.Root() {
		t.Fatalf("size %d, root %v; want %d, %v", v.Size, v.Root, len(o.entries), o.f.Root())
	}
	for level := range levels {
		have := len(o.levels[level]) / tiles.HashSize
		for n := 0; n*tiles.Width <= have; n++ {
			width := min(have-n*tiles.Width, tiles.Width)
			for _, w := range []int{1, width / 2, width - 1, width} {
				if w < 1 || w > width {
					continue
				}
				b, err := l.Tile(level, uint64(n), w)
				if want := o.levels[level][n*tiles.Width*tiles.HashSize:][:w*tiles.HashSize]; err != nil || !bytes.Equal(b, want) {
					t.Fatalf("tile %d/%d.p/%d: %d bytes, %v", level, n, w, len(b), err)
				}
			}
			if width < tiles.Width {
				if _, err := l.Tile(level, uint64(n), width+1); err != ErrAbsent {
					t.Fatalf("tile %d/%d.p/%d: %v", level, n, width+1, err)
				}
			}
		}
	}
	for n := 0; n*tiles.Width < len(o.entries); n++ {
		width := min(len(o.entries)-n*tiles.Width, tiles.Width)
		var want []byte
		for i := range width {
			want = tiles.AppendEntry(want, o.entries[n*tiles.Width+i])
		}
		if b, err := l.Bundle(uint64(n), width); err != nil || !bytes.Equal(b, want) {
			t.Fatalf("bundle %d.p/%d: %d bytes, want %d, %v", n, width, len(b), len(want), err)
		}
		if width < tiles.Width {
			if _, err := l.Bundle(uint64(n), width+1); err != ErrAbsent {
				t.Fatalf("bundle %d.p/%d: %v", n, width+1, err)
			}
		}
	}
}

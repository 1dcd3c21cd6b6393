package tree

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/entry"
	et "github.com/holdfastdb/holdfast/entry/tree"
	"github.com/holdfastdb/holdfast/machine"
	"github.com/holdfastdb/holdfast/store"
	"github.com/holdfastdb/holdfast/tiles"
)

// rig drives one machine through its applier, as a node would.
type rig struct {
	t     testing.TB
	st    store.Store
	m     *Machine
	a     *machine.Applier
	index uint64
}

func newRig(t testing.TB) *rig { return openRig(t, store.NewMem()) }

func openRig(t testing.TB, st store.Store) *rig {
	t.Helper()
	r := &rig{t: t, st: st, m: New()}
	r.a = machine.NewApplier(st, r.m)
	if err := r.a.Load(); err != nil {
		t.Fatal(err)
	}
	r.index = st.Applied()
	return r
}

// reopen is a restart that lost nothing.
func (r *rig) reopen() { *r = *openRig(r.t, r.st) }

// try applies one raft entry with one command per part.
func (r *rig) try(parts ...*et.Part) (out []*entry.Result, err error) {
	data := entry.AppendHeader(nil, entry.Header{TickMs: 1, WallNs: 1})
	for i, p := range parts {
		data = entry.AppendPacked(data, entry.AppendCommand(nil, &entry.Command{
			Origin: 1, Seq: uint64(i), Term: 1, Parts: []entry.Part{{Machine: entry.MachineTree, Body: et.AppendPart(nil, p)}}}))
	}
	r.index++
	err = r.a.Apply(r.index, 1, data, func(_, _ uint64) bool { return true }, func(_, _ uint64, res *entry.Result) {
		out = append(out, res)
	})
	for i := range data { // the entry's memory is somebody else's now
		data[i] = 0xff
	}
	return out, err
}

func (r *rig) apply(parts ...*et.Part) []*entry.Result {
	r.t.Helper()
	out, err := r.try(parts...)
	if err != nil {
		r.t.Fatalf("apply %d: %v", r.index, err)
	}
	return out
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
	r.t.Helper()
	s := signer(r.t, "log.example/"+name)
	res := r.apply(&et.Part{Kind: et.Create, Spec: et.LogSpec{Name: name, Key: *s.Verifier(), Dedup: dedup, Index: index}})[0]
	if res.Rejection != nil {
		r.t.Fatal(res.Rejection)
	}
	return r.m.Find(name), s
}

func batch(l *Log, entries ...[]byte) *et.Part {
	p := &et.Part{Kind: et.Append, Log: l.Number}
	for _, e := range entries {
		p.Entries = tiles.AppendEntry(p.Entries, e)
	}
	return p
}

// add adds entries in one batch and returns their indexes.
func (r *rig) add(l *Log, entries ...[]byte) (at []uint64) {
	r.t.Helper()
	res := r.apply(batch(l, entries...))[0]
	if res.Rejection != nil {
		r.t.Fatal(res.Rejection)
	}
	a := res.Of(entry.MachineTree).(*et.Appended)
	for i := range entries {
		at = append(at, a.At(i))
	}
	return at
}

// sign makes a checkpoint of what the log is now.
func sign(l *Log, s *tiles.Signer) et.Signed {
	v := l.View()
	return signAs(l, s, v.Size, v.Root)
}

func signAs(l *Log, s *tiles.Signer, size uint64, root tiles.Hash) et.Signed {
	n := &tiles.Note{Text: (&tiles.Checkpoint{Origin: s.Verifier().Name, Size: size, Root: root}).Text()}
	s.Sign(n)
	return et.Signed{Log: l.Number, Size: size, Root: root, Note: n.Append(nil)}
}

func checkpointOf(c ...et.Signed) *et.Part { return &et.Part{Kind: et.Checkpoint, Checkpoints: c} }

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

package agent

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// TestAFencedOwnerRemovesOnlyWhatIsBehindTheFence: an owner whose first upload has lost its answer does not know that those behind it are part of the
// chain. The new owner goes on from them.
func TestAFencedOwnerRemovesOnlyWhatIsBehindTheFence(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	old := replicatest.New(replica.New(store, replica.Bucket), 1)
	put := func(w *replicatest.Writer, n byte) replica.File {
		t.Helper()
		f, body := w.Group(2, map[uint32][]byte{1: page(n), 2: page(n + 100)})
		if err := w.R.Create(ctx, f, body); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if _, err := old.R.Read(ctx); err != nil {
		t.Fatal(err)
	}
	put(old, 1)
	put(old, 2)
	mine := []replica.File{put(old, 3), put(old, 4)}
	reader := replica.New(store, replica.Bucket)
	c, err := reader.TakeOver(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	next := replicatest.New(reader, 2)
	next.Head, next.DB, next.Files, next.Epoch = c.Head, old.DB, c.Files, c.Epoch
	old.Group(2, map[uint32][]byte{1: page(5)}) // the name of the fence
	late := put(old, 6)
	mine = append(mine, late)
	d := &database{target: Target{Replica: old.R}}
	if err := d.removeOrphans(ctx, mine); err != nil { // before the new owner's first group
		t.Fatal(err)
	}
	put(next, 7)
	if err := d.removeOrphans(ctx, mine); err != nil {
		t.Fatal(err)
	}
	c, err = replica.New(store, replica.Bucket).Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if c.Head.TXID != next.Head.TXID || c.Epoch != 2 {
		t.Errorf("the chain ends at %s in epoch %d and not at %s in epoch 2", c.Head.TXID, c.Epoch, next.Head.TXID)
	}
	if slices.ContainsFunc(append(c.Orphans, c.Ahead...), func(f replica.File) bool { return f.Min == late.Min }) {
		t.Errorf("%s is behind the fence, and is still there", late)
	}
}

func page(n byte) []byte {
	p := make([]byte, 512)
	p[0] = n
	return p
}

// TestWhichFilesAreOrphans: those of level 0 up to the chain's end that the chain does not have. A file behind its end may become part of it.
func TestWhichFilesAreOrphans(t *testing.T) {
	group := func(min, max replica.TXID) replica.File { return replica.File{Min: min, Max: max} }
	c := &replica.Chain{Head: replica.Head{TXID: 9}, Files: []replica.File{group(5, 5), group(6, 9), {Level: 1, Min: 3, Max: 4}}}
	for f, want := range map[replica.File]bool{ // any order: each alone
		group(5, 5):   false,
		group(6, 9):   false,
		group(6, 6):   true, // another file has the TXID
		group(5, 9):   true,
		group(9, 9):   true, // it ends with the chain, and another file does
		group(3, 4):   true, // a file of level 1 has it
		group(10, 10): false,
		group(9, 10):  false,
	} {
		if got := len(orphans(c, []replica.File{f})) == 1; got != want {
			t.Errorf("%s is an orphan: %v", f, got)
		}
	}
}

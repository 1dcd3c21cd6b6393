package sim

import (
	"context"
	"errors"

	"github.com/holdfastdb/holdfast/archive/format"
	archiverestore "github.com/holdfastdb/holdfast/archive/restore"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/task"
)

// inline runs what is to run beside its caller before that goes on: a store that is well answers at once.
type inline struct{ task.Goroutines }

// Go implements task.Runner.
func (inline) Go(f func()) { f() }

// disaster takes all disks for lost: only the store's content at this moment is left.
func (b *archiveBook) disaster() {
	if !b.done {
		b.w.trace.add(b.w.now, "what if all disks were lost now")
		b.restore()
	}
}

// open opens the archive as it lies in the store, nil if there is none yet.
func (b *archiveBook) open() *archiverestore.Archive {
	a, err := archiverestore.Open(context.Background(), b.bucket.Memory, 0, inline{})
	switch {
	case errors.Is(err, archiverestore.ErrNoArchive) && b.upTo == 0:
		return nil
	case err != nil:
		b.w.fail(NotArchived, "open the archive: %v", err)
	}
	return a
}

// halfFound reports whether an error is about half an object that the store has left: it was not taken for a whole.
func (b *archiveBook) halfFound(err error) bool {
	var f *format.Fault
	return errors.As(err, &f) && b.bucket.half[f.Name]
}

// restore makes a new cluster from the archive, and looks for everything that a client was told is archived.
func (b *archiveBook) restore() {
	w := b.w
	a := b.open()
	if a == nil {
		return
	}
	how := archiverestore.Restoring{From: "the store", Name: "restored"}
	if len(b.bucket.half) > 0 {
		how.At.Index = b.upTo // behind that there may be half an object
	}
	st := store.NewMem()
	cfg := func() (node.Config, *house) {
		h := w.newHouse()
		return node.Config{Machines: h.machines(), Lanes: w.lanes(), Manual: true, FS: disk.NewMem(), Dir: dataDir,
			Store: func(string) (store.Store, error) { return st, nil }}, &h
	}
	made, _ := cfg()
	res, err := a.Restore(context.Background(), made, how)
	switch {
	case (errors.Is(err, archiverestore.ErrNotInArchive) || errors.Is(err, archiverestore.ErrNoSnapshot)) && b.upTo == 0, b.halfFound(err):
		return
	case err != nil:
		w.fail(NotArchived, "restore: %v (somebody was told that %d is archived)", err, b.upTo)
	case res.State.Index < b.upTo:
		w.fail(NotArchived, "the restored state is that of %d (%v missing), and somebody was told that %d is archived", res.State.Index,
			res.Missing, b.upTo)
	}
	w.trace.add(w.now, "restored: %d of %d, missing %v", res.State.Index, w.applied, res.Missing)
	if at, ok := w.states.at[res.State.Index]; ok && at.hash != res.Hash {
		w.fail(BadArchive, "the restored state at %d is %x, the members had %x", res.State.Index, res.Hash, at.hash)
	}
	st = st.Crash()
	again, h := cfg()
	if _, err := node.NewReplay(again, st); err != nil {
		w.fail(BadArchive, "the restored state cannot be opened: %v", err)
	}
	rows, _, err := h.kv.Range(&kvpart.Range{Key: []byte(heldDir), End: []byte(heldDir + "~")}, 0)
	if err != nil {
		w.fail(BadArchive, "the restored state cannot be read: %v", err)
	}
	there := map[string]bool{}
	for _, kv := range rows.KVs {
		there[string(kv.Key)] = true
	}
	for key := range b.held { // any order: each is looked for by itself
		if !there[key] {
			w.fail(NotArchived, "%s was written or read and then archived, and is not there after a restore of %d", key, res.State.Index)
		}
	}
	w.rep.Restored++
}

// Check implements Workload.
func (b *archiveBook) Check(all []*Member) {
	if !b.on {
		return
	}
	w := b.w
	for _, h := range all {
		b.take(h)
	}
	b.judge()
	b.restore()
	if w.rep.Halves += len(b.bucket.half); len(b.bucket.half) > 0 {
		return
	}
	v := all[0].mem.NewView()
	defer v.Close()
	last := w.content(all[0], v)
	b.verify(archiverestore.At{}, &last)
	for i := range b.states {
		b.verify(archiverestore.At{Index: b.states[i].Index}, &b.states[i])
	}
}

// judge holds every object of entries that was ever in the store against what was committed.
func (b *archiveBook) judge() {
	for _, s := range b.bucket.judged {
		for e := range s.Entries() {
			was, ok := b.entries[e.Index]
			if !ok {
				b.w.rep.Unjudged++
				continue
			}
			if !e.Equal(format.Entry(was)) {
				b.w.fail(BadArchive, "%s has entry %d@%d of %d bytes, committed was %d@%d of %d bytes", s.Name, e.Index, e.Term, len(e.Data), was.Index,
					was.Term, len(was.Data))
			}
		}
	}
}

// verify proves the archive, and compares its state at a place with a member's state there. It need not give a place that was removed or
// lies in a gap, but must give the end.
func (b *archiveBook) verify(at archiverestore.At, want *node.Content) {
	w := b.w
	a := b.open()
	if a == nil {
		w.fail(NotArchived, "at the end there is no archive")
	}
	gaps := 0
	v, err := a.Verify(context.Background(), archiverestore.Verifying{At: at, Store: store.NewMem(), Config: func() node.Config {
		h := w.newHouse()
		return node.Config{Machines: h.machines(), Lanes: w.lanes()}
	}, Found: func(f archiverestore.Finding) {
		if f.Wrong {
			w.fail(BadArchive, "%s", f.Text)
		}
		w.trace.add(w.now, "verify: %s", f.Text)
		gaps++
	}})
	switch {
	case err != nil:
		w.fail(BadArchive, "verify: %v", err)
	case v.At.Index == 0 && at != archiverestore.At{}:
		return
	case v.Content != *want:
		w.fail(BadArchive, "the archive has at its %s %+v, a member had %+v", at, v.Content, *want)
	}
	w.rep.Verified++
	w.rep.Findings += gaps
}

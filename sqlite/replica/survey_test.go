package replica_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// must fails the test at once if a step of its story fails.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commits adds n groups.
func commits(t *testing.T, w *replicatest.Writer, n int) {
	t.Helper()
	for range n {
		must(t, w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, byte(len(w.Past)+1))}))
	}
}

// compact adds a file of a higher level from min on up to the head. It removes the groups of level 0 that it covers, except the newest
// ones.
func compact(t *testing.T, w *replicatest.Writer, level int, min replica.TXID, newest int) {
	t.Helper()
	f, err := w.Compact(level, min)
	must(t, err)
	var gone []replica.File
	for _, g := range w.Files[:len(w.Files)-1-newest] {
		if g.Level == 0 && !g.Fence && g.Min >= f.Min {
			gone = append(gone, g)
		}
	}
	remove(t, w, gone...)
}

// remove removes files, and the owner forgets them.
func remove(t *testing.T, w *replicatest.Writer, gone ...replica.File) {
	t.Helper()
	must(t, w.R.Remove(context.Background(), gone...))
	w.Files = slices.DeleteFunc(w.Files, func(f replica.File) bool { return slices.Contains(gone, f) })
}

// succeeded is the replica's next owner.
func succeeded(t *testing.T, w *replicatest.Writer) *replicatest.Writer {
	t.Helper()
	next, err := w.TakeOver(w.Owner + 1)
	must(t, err)
	return next
}

// TestAReplicaThatHasLostItsManifestIsFoundByListing: the head, the takeovers and the files are those that its owner had, with any groups
// removed for a file of a higher level.
func TestAReplicaThatHasLostItsManifestIsFoundByListing(t *testing.T) {
	ctx := context.Background()
	for name, story := range map[string]func(w *replicatest.Writer) *replicatest.Writer{
		"nothing": func(w *replicatest.Writer) *replicatest.Writer {
			w.Epoch = 0
			return w
		},
		"groups alone": func(w *replicatest.Writer) *replicatest.Writer {
			commits(t, w, 4)
			return w
		},
		"the first groups were removed": func(w *replicatest.Writer) *replicatest.Writer {
			commits(t, w, 4)
			compact(t, w, 1, 1, 1)
			commits(t, w, 2)
			return w
		},
		"groups in the middle were removed": func(w *replicatest.Writer) *replicatest.Writer {
			commits(t, w, 2)
			commits(t, w, 3)
			compact(t, w, 1, 3, 1)
			commits(t, w, 2)
			return w
		},
		"several levels": func(w *replicatest.Writer) *replicatest.Writer {
			commits(t, w, 3)
			compact(t, w, 1, 1, 1)
			commits(t, w, 3)
			compact(t, w, 2, 1, 1)
			commits(t, w, 2)
			compact(t, w, replica.SnapshotLevel, 1, 1)
			return w
		},
		"no group is left": func(w *replicatest.Writer) *replicatest.Writer {
			commits(t, w, 4)
			compact(t, w, 1, 1, 0)
			return w
		},
		"a takeover behind groups that were removed": func(w *replicatest.Writer) *replicatest.Writer {
			commits(t, w, 4)
			compact(t, w, 1, 1, 1)
			w = succeeded(t, w)
			commits(t, w, 2)
			return w
		},
		"the first groups of a second owner were removed": func(w *replicatest.Writer) *replicatest.Writer {
			commits(t, w, 3)
			w = succeeded(t, w)
			commits(t, w, 3)
			compact(t, w, replica.SnapshotLevel, 1, 1)
			commits(t, w, 1)
			return w
		},
		"two takeovers, and the last file is a fence": func(w *replicatest.Writer) *replicatest.Writer {
			commits(t, w, 3)
			w = succeeded(t, w)
			commits(t, w, 3)
			compact(t, w, 1, 1, 1)
			return succeeded(t, w)
		},
	} {
		store := objstore.NewMemory()
		w := story(replicatest.New(replica.New(store, replica.Bucket), 1))
		r := replica.New(store, replica.Bucket)
		c, err := r.Read(ctx)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Head != w.Head || c.Epoch != w.Epoch || c.Manifest != nil || c.Damage != nil || len(c.Orphans) != 0 || len(c.Ahead) != 0 {
			t.Errorf("%s: the chain is %+v, its owner has the head %+v", name, c, w.Head)
		}
		must(t, r.Fill(ctx, c.Files))
		if !slices.Equal(c.Files, w.Manifest().Files) {
			t.Errorf("%s: the files are %v, its owner has %v", name, c.Files, w.Manifest().Files)
		}
	}
}

// TestWhatAFencedOwnerStoredIsNotListedAsItsChain, also where the groups before it were removed.
func TestWhatAFencedOwnerStoredIsNotListedAsItsChain(t *testing.T) {
	store := objstore.NewMemory()
	old := groups(t, store, 4)
	compact(t, old, 1, 1, 1)
	w := succeeded(t, old)
	commits(t, w, 1)
	old.Group(2, nil) // its group behind the head has the fence's name, and is lost
	commits(t, old, 2)
	c, err := replica.New(store, replica.Bucket).Read(context.Background())
	must(t, err)
	if c.Head != w.Head || c.Epoch != 2 || len(c.Orphans) != 2 || len(c.Ahead) != 0 || len(c.Files) != len(w.Files) {
		t.Errorf("%+v, its owner has the head %+v", c, w.Head)
	}
}

// reads counts how often the manifest was read, and from which name on files were listed.
type reads struct {
	objstore.Store
	manifests int
	broken    error // what a read of the manifest ends with; nil: it is read
}

func (s *reads) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	if s.manifests++; s.broken != nil {
		return nil, "", s.broken
	}
	return s.Store.GetVersion(ctx, name)
}

// TestAReaderWithAManifestLooksOnlyBehindItsHead: it asks for the manifest once, and the file at the head is none of its orphans.
func TestAReaderWithAManifestLooksOnlyBehindItsHead(t *testing.T) {
	memory := objstore.NewMemory()
	w := groups(t, memory, 3)
	must(t, w.PutManifest())
	commits(t, w, 2)
	store := &reads{Store: memory}
	c, err := replica.New(store, replica.Bucket).Read(context.Background())
	must(t, err)
	if c.Head != w.Head || len(c.Files) != 5 || len(c.Orphans) != 0 || len(c.Ahead) != 0 || store.manifests != 1 {
		t.Errorf("%d reads of the manifest came to %+v, its owner has the head %+v", store.manifests, c, w.Head)
	}
}

// TestADamagedEndIsLookedAtOnceMore: the owner's next manifest, written while the reader looks, knows the head without the damaged file.
func TestADamagedEndIsLookedAtOnceMore(t *testing.T) {
	ctx := context.Background()
	memory := objstore.NewMemory()
	w := groups(t, memory, 2)
	must(t, w.PutManifest())
	commits(t, w, 1)
	must(t, memory.Put(ctx, objstore.Object{Name: w.R.Name(w.Files[2]), Data: []byte("garbage")}))
	store := &meanwhile{Store: memory, do: func() error { return w.R.PutManifest(ctx, w.Manifest()) }}
	c, err := replica.New(store, replica.Bucket).Read(ctx)
	if err != nil || c.Head != w.Head {
		t.Errorf("%v, %+v", err, c)
	}
	var fault *replica.Fault
	if _, err := replica.New(memory, replica.Bucket).Read(ctx); err != nil && !errors.As(err, &fault) {
		t.Error(err)
	}
}

// meanwhile is a store where another owner does something behind the first read of the manifest.
type meanwhile struct {
	objstore.Store
	do func() error
}

func (s *meanwhile) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	data, version, err := s.Store.GetVersion(ctx, name)
	if do := s.do; do != nil {
		s.do = nil
		if err := do(); err != nil {
			return nil, "", err
		}
	}
	return data, version, err
}

// TestAManifestThatCannotBeReadIsNoEmptyReplica: a store that is down is neither a replica without a manifest nor one whose owner has not moved.
func TestAManifestThatCannotBeReadIsNoEmptyReplica(t *testing.T) {
	ctx := context.Background()
	store := &reads{Store: objstore.NewMemory(), broken: errors.New("the store is down")}
	r := replica.New(store, replica.Bucket)
	if c, err := r.Read(ctx); !errors.Is(err, store.broken) {
		t.Errorf("read: %v, %+v", err, c)
	}
	if moved, err := r.Moved(ctx); moved || !errors.Is(err, store.broken) {
		t.Errorf("moved: %t, %v", moved, err)
	}
}

// TestAReplicaMovesWithItsManifest, whole or not, and with nothing else.
func TestAReplicaMovesWithItsManifest(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 2)
	r := replica.New(store, replica.Bucket)
	_, err := r.Read(ctx)
	must(t, err)
	for _, step := range []struct {
		name  string
		do    func() error
		moved bool
	}{
		{"nothing happens", func() error { return nil }, false},
		{"a group is stored", func() error { return w.Commit(2, nil) }, false},
		{"a first manifest is written", w.PutManifest, true},
		{"nothing happens", func() error { return nil }, false},
		{"the next one is damaged", func() error {
			return store.Put(ctx, objstore.Object{Name: replica.ManifestName, Data: []byte("garbage\n")})
		}, true},
		{"it is removed", func() error { return store.Delete(ctx, replica.ManifestName) }, true},
	} {
		must(t, step.do())
		if moved, err := r.Moved(ctx); err != nil || moved != step.moved {
			t.Errorf("%s: moved %t, %v", step.name, moved, err)
		}
	}
}

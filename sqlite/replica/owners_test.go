package replica_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// TestAFirstFileBesideAnothersManifest: the owner looked at an empty replica, and another one has begun it since. The owner is fenced. Its
// file goes if the other had one of that name and removed it, and stays if the manifest names it. It may be the only one with these pages.
func TestAFirstFileBesideAnothersManifest(t *testing.T) {
	ctx := context.Background()
	for _, removed := range []bool{true, false} {
		store := objstore.NewMemory()
		other := groups(t, store, 3)
		if removed {
			compact(t, other, replica.SnapshotLevel, 1, 1)
		}
		must(t, other.PutManifest())
		w := replicatest.New(replica.New(store, replica.Bucket), 2)
		f, body := other.Past[0].File, replica.Bytes(other.Past[0].Data)
		if err := w.R.Create(ctx, f, body); !errors.Is(err, replica.ErrFenced) {
			t.Errorf("the other's file is there %t: %v", !removed, err)
		}
		if _, there := store.Objects()[w.R.Name(f)]; there == removed {
			t.Errorf("removed %t: after a first file that does not count there is one %t", removed, there)
		}
		if c, err := replica.New(store, replica.Bucket).Read(ctx); err != nil || c.Head != other.Head || len(c.Files) != len(other.Files) {
			t.Errorf("%v, %+v", err, c)
		}
	}
}

// TestAFirstFileBesideADamagedManifestIsFenced: another owner has written one, and this one saw none.
func TestAFirstFileBesideADamagedManifestIsFenced(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	must(t, store.Put(ctx, objstore.Object{Name: replica.ManifestName, Data: []byte("garbage\n")}))
	f, body := replicatest.New(nil, 2).Group(1, nil)
	if err := replica.New(store, replica.Bucket).Create(ctx, f, body); !errors.Is(err, replica.ErrFenced) {
		t.Error(err)
	}
}

// TestAFileAloneBesideWhatAnotherWrote: an owner without a fence goes on from a copy of a disk, and another one on the other copy may have passed it.
func TestAFileAloneBesideWhatAnotherWrote(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		other  func(t *testing.T, w *replicatest.Writer) // what it does behind the file 3
		fenced bool
		stays  bool // the file of the owner that is tested
	}{
		{"nothing", func(*testing.T, *replicatest.Writer) {}, false, true},
		{"it wrote a manifest before", func(t *testing.T, w *replicatest.Writer) { must(t, w.PutManifest()) }, false, true},
		{"it stored the same file, and wrote a manifest", func(t *testing.T, w *replicatest.Writer) {
			commits(t, w, 2)
			must(t, w.PutManifest())
		}, true, true},
		{"it stored one and removed it", func(t *testing.T, w *replicatest.Writer) {
			commits(t, w, 3)
			compact(t, w, 1, 1, 1)
			must(t, w.PutManifest())
		}, true, false},
	} {
		store := objstore.NewMemory()
		other := groups(t, store, 3)
		w := replicatest.New(replica.New(store, replica.Bucket), 1)
		w.Head, w.DB, w.Now = other.Head, other.DB, other.Now
		f, body := w.Group(2, map[uint32][]byte{1: replicatest.Fill(512, byte(len(other.Past)+1))}) // as commits makes it
		c.other(t, other)
		if err := w.R.CreateAlone(ctx, f, body); (err != nil) != c.fenced || err != nil && !errors.Is(err, replica.ErrFenced) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, there := store.Objects()[w.R.Name(f)]; there != c.stays {
			t.Errorf("%s: its file is there %t", c.name, there)
		}
	}
}

// TestAManifestIsPutBehindTheOneThatWasRead: of two owners the later one's stays, and an answer that was lost changes nothing.
func TestAManifestIsPutBehindTheOneThatWasRead(t *testing.T) {
	ctx := context.Background()
	put := func(t *testing.T, store objstore.Store, data []byte) {
		must(t, store.Put(ctx, objstore.Object{Name: replica.ManifestName, Data: data}))
	}
	for _, c := range []struct {
		name string
		// meanwhile is what happens between the owner's read and its manifest; m is that one, of the second owner.
		meanwhile func(t *testing.T, store objstore.Store, m replica.Manifest)
		want      error
	}{
		{"nothing", func(*testing.T, objstore.Store, replica.Manifest) {}, nil},
		{"an attempt whose answer was lost", func(t *testing.T, store objstore.Store, m replica.Manifest) { put(t, store, m.Encode()) }, nil},
		{"an attempt with an earlier one, whose answer was lost", func(t *testing.T, store objstore.Store, m replica.Manifest) {
			m.Head.Time = m.Head.Time.Add(-time.Second)
			put(t, store, m.Encode())
		}, nil},
		{"the first owner's", func(t *testing.T, store objstore.Store, m replica.Manifest) {
			m.Owner, m.Epoch = 1, 1
			put(t, store, m.Encode())
		}, replica.ErrOutdated},
		{"the next owner's", func(t *testing.T, store objstore.Store, m replica.Manifest) {
			m.Owner, m.Epoch = 3, 3
			put(t, store, m.Encode())
		}, replica.ErrFenced},
		{"another's of the same takeover", func(t *testing.T, store objstore.Store, m replica.Manifest) {
			m.Owner = 3
			put(t, store, m.Encode())
		}, replica.ErrFenced},
		{"it was removed", func(t *testing.T, store objstore.Store, _ replica.Manifest) {
			must(t, store.Delete(ctx, replica.ManifestName))
		}, replica.ErrOutdated},
		{"it was damaged", func(t *testing.T, store objstore.Store, _ replica.Manifest) { put(t, store, []byte("garbage\n")) }, replica.ErrOutdated},
	} {
		store := objstore.NewMemory()
		first := groups(t, store, 2)
		must(t, first.PutManifest())
		w := succeeded(t, first)
		m := w.Manifest()
		c.meanwhile(t, store, *m)
		before := store.Objects()[replica.ManifestName]
		if err := w.R.PutManifest(ctx, m); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		want := before
		if c.want == nil {
			want = m.Encode()
		}
		if got := store.Objects()[replica.ManifestName]; !bytes.Equal(got, want) {
			t.Errorf("%s: there is\n%swant\n%s", c.name, got, want)
		}
		if c.want == nil {
			m.Head.Time = m.Head.Time.Add(time.Second)
			if err := w.R.PutManifest(ctx, m); err != nil {
				t.Errorf("%s, and the next one: %v", c.name, err)
			}
		}
	}
}

// TestAManifestThatWasReadSinceFences: the owner has read the later owner's manifest, so its version alone would let the owner replace it.
func TestAManifestThatWasReadSinceFences(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 2)
	if err := replica.New(store, replica.Bucket).PutManifest(ctx, w.Manifest()); !errors.Is(err, replica.ErrOutdated) {
		t.Errorf("one that was never read: %v", err)
	}
	must(t, w.PutManifest())
	mine := w.Manifest()
	must(t, succeeded(t, w).PutManifest())
	r := replica.New(store, replica.Bucket)
	_, err := r.Read(ctx)
	must(t, err)
	if err := r.PutManifest(ctx, mine); !errors.Is(err, replica.ErrFenced) {
		t.Error(err)
	}
}

// TestAManifestThatNoOwnerWritesIsRefused when it is put and when it is read.
func TestAManifestThatNoOwnerWritesIsRefused(t *testing.T) {
	ctx := context.Background()
	for name, spoil := range map[string]func(m *replica.Manifest){
		"a level that is none":                func(m *replica.Manifest) { m.Files[len(m.Files)-1].Level = replica.SnapshotLevel + 1 },
		"files out of order":                  func(m *replica.Manifest) { slices.Reverse(m.Files) },
		"a file without a beginning":          func(m *replica.Manifest) { m.Files[0].Min = 0 },
		"a file that ends before it begins":   func(m *replica.Manifest) { m.Files[0].Min = m.Files[0].Max + 1 },
		"a file behind the head":              func(m *replica.Manifest) { m.Files[len(m.Files)-1].Max = m.Head.TXID + 1 },
		"no file that ends at the head":       func(m *replica.Manifest) { m.Head.TXID++ },
		"a head of another database":          func(m *replica.Manifest) { m.Head.Post ^= 1 },
		"a fence at the head that is a group": func(m *replica.Manifest) { m.Head.Fence = true },
		"no files":                            func(m *replica.Manifest) { m.Files = nil },
		"a file of a higher level at the head alone": func(m *replica.Manifest) {
			m.Files = m.Files[len(m.Files)-1:]
		},
	} {
		store := objstore.NewMemory()
		w := groups(t, store, 3)
		_, err := w.Compact(1, 1)
		must(t, err)
		must(t, w.PutManifest())
		m := w.Manifest()
		spoil(m)
		if err := w.R.PutManifest(ctx, m); !errors.Is(err, replica.ErrBadManifest) {
			t.Errorf("%s is put: %v", name, err)
		}
		if _, err := replica.DecodeManifest(m.Encode()); !errors.Is(err, replica.ErrBadManifest) {
			t.Errorf("%s is read: %v", name, err)
		}
		if got := store.Objects()[replica.ManifestName]; !bytes.Equal(got, w.Manifest().Encode()) {
			t.Errorf("%s: the one that was there is\n%s", name, got)
		}
	}
}

// TestOrphansAreRemovedUpToTheHead: the files of an owner that was fenced go, all of them, and the chain's and those on their way stay.
func TestOrphansAreRemovedUpToTheHead(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	old := groups(t, store, 3)
	w := succeeded(t, old)
	commits(t, w, 3)
	old.Group(2, nil) // its group behind the head has the fence's name, and is lost
	commits(t, old, 4)
	must(t, w.PutManifest())
	lost, _ := w.Group(2, nil) // it is on its way, and the one behind it is there already
	ahead, body := w.Group(2, nil)
	must(t, w.R.Create(ctx, ahead, body))
	m, err := replica.DecodeManifest(store.Objects()[replica.ManifestName])
	must(t, err)
	for _, want := range []int{4, 0} {
		if n, err := w.R.RemoveOrphans(ctx, m); err != nil || n != want {
			t.Errorf("%d orphans were removed, want %d: %v", n, want, err)
		}
	}
	c, err := w.R.Read(ctx)
	must(t, err)
	if len(c.Orphans) != 0 || len(c.Ahead) != 1 || len(c.Files) != len(m.Files) || c.Head != m.Head {
		t.Errorf("%s is on its way: %+v", lost, c)
	}
	store.Fail(errors.New("the store is down"))
	if n, err := w.R.RemoveOrphans(ctx, m); err == nil || n != 0 {
		t.Errorf("of a store that is down %d orphans were removed", n)
	}
}

// TestAFenceBehindAHeadThatTheOwnerHasLeft is removed again: its name was free because the group that had it was removed. The owner goes on.
func TestAFenceBehindAHeadThatTheOwnerHasLeft(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 2)
	r := replica.New(store, replica.Bucket)
	c, err := r.Read(ctx)
	must(t, err)
	commits(t, w, 3)
	compact(t, w, 1, 1, 1)
	must(t, w.PutManifest())
	before := len(store.Objects())
	if _, err := r.Fence(ctx, c, 2); !errors.Is(err, replica.ErrMoved) {
		t.Errorf("a fence that counts for nothing: %v", err)
	}
	if after := len(store.Objects()); after != before {
		t.Errorf("there are %d objects, and were %d", after, before)
	}
	commits(t, w, 1)
	if c, err := r.Read(ctx); err != nil || c.Head != w.Head || c.Epoch != 1 {
		t.Errorf("%v, %+v", err, c)
	}
}

// TestAFenceThatIsMadeTwiceStays: a request is repeated when its owner has gone on, and the manifest names the fence.
func TestAFenceThatIsMadeTwiceStays(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	now := func() time.Time { return time.UnixMilli(1_700_000_100_000).UTC() }
	w := groups(t, store, 2)
	r := replica.Simulated(store, replica.Bucket, now)
	c, err := r.Read(ctx)
	must(t, err)
	for range 2 { // the second is a repeated request
		if after, err := r.Fence(ctx, c, 2); err != nil || !after.Head.Fence || after.Head.Owner != 2 {
			t.Fatalf("%v, %+v", err, after)
		}
	}
	next, err := (&replicatest.Writer{R: r, DB: w.DB, Past: w.Past, PageSize: w.PageSize, Now: now()}).TakeOver(2)
	must(t, err)
	commits(t, next, 2)
	must(t, next.PutManifest())
	if _, err := r.Fence(ctx, c, 2); !errors.Is(err, replica.ErrMoved) {
		t.Errorf("a third, behind its own groups: %v", err)
	}
	if c, err = r.Read(ctx); err != nil || c.Head != next.Head || c.Epoch != 2 || len(c.Files) != 5 {
		t.Errorf("%v, %+v", err, c)
	}
	if _, there := store.Objects()[r.Name(replica.File{Min: 3, Max: 3})]; !there {
		t.Error("the fence was removed")
	}
}

// unreadable is a store whose files cannot be read, and can be created.
type unreadable struct{ objstore.Store }

func (unreadable) Open(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, errors.New("the store is down")
}

// TestARivalThatCannotBeReadDecidesNothing: neither that the replica has moved nor that the fence is the owner's. The owner asks again.
func TestARivalThatCannotBeReadDecidesNothing(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 2)
	c, err := w.R.Read(ctx)
	must(t, err)
	commits(t, w, 1)
	_, err = replica.New(unreadable{store}, replica.Bucket).Fence(ctx, c, 2)
	if err == nil || errors.Is(err, replica.ErrMoved) || errors.Is(err, replica.ErrFenced) {
		t.Error(err)
	}
}

// TestAFenceNeedsAHeadAndAnOwner: what could not be gone on from gets no fence, and nothing is written.
func TestAFenceNeedsAHeadAndAnOwner(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := groups(t, store, 2)
	before := len(store.Objects())
	for name, c := range map[string]struct {
		owner uint64
		spoil func(h *replica.Head)
	}{
		"nobody":                    {0, func(*replica.Head) {}},
		"an empty replica":          {2, func(h *replica.Head) { *h = replica.Head{} }},
		"no checksum, Litestream's": {2, func(h *replica.Head) { h.Post = 0 }},
		"no TXIDs are left":         {2, func(h *replica.Head) { h.TXID = math.MaxUint64 - 1<<20 }},
	} {
		chain, err := w.R.Read(ctx)
		must(t, err)
		c.spoil(&chain.Head)
		if _, err := w.R.Fence(ctx, chain, c.owner); err == nil || errors.Is(err, replica.ErrMoved) || len(store.Objects()) != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.R.TakeOver(ctx, 0); err == nil || len(store.Objects()) != before {
		t.Errorf("nobody takes over: %v", err)
	}
}

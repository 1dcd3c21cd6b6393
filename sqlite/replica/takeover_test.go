package replica_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// groups is a replica with n groups.
func groups(t *testing.T, store objstore.Store, n int) *replicatest.Writer {
	t.Helper()
	w := replicatest.New(replica.New(store, replica.Bucket), 1)
	for i := range n {
		if err := w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, byte(i+1)), 2: replicatest.Fill(512, byte(i))}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestAFenceIsMadeBehindWhatWasJudged: the owner stores another file between the judgement and the fence. There is no fence then, and the owner
// goes on.
func TestAFenceIsMadeBehindWhatWasJudged(t *testing.T) {
	store := objstore.NewMemory()
	w := groups(t, store, 3)
	r := replica.New(store, replica.Bucket)
	c, err := r.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, 9)}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fence(context.Background(), c, 2); !errors.Is(err, replica.ErrMoved) {
		t.Errorf("a fence behind a head that has moved: %v", err)
	}
	if err := w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, 10)}); err != nil {
		t.Errorf("the owner was fenced: %v", err)
	}
	if c, err = r.Read(context.Background()); err != nil {
		t.Fatal(err)
	}
	if c, err = r.Fence(context.Background(), c, 2); err != nil || !c.Head.Fence || c.Head.Owner != 2 {
		t.Errorf("%v, %+v", err, c)
	}
	if err := w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, 11)}); !errors.Is(err, replica.ErrFenced) {
		t.Errorf("the owner was not fenced: %v", err)
	}
}

// TestTakingOverADamagedEnd: the manifest is garbage, or the last file is; what is known of it is said by the caller.
func TestTakingOverADamagedEnd(t *testing.T) {
	for _, name := range []string{replica.ManifestName, "0000/0000000000000003-0000000000000003.ltx"} {
		for _, manifest := range []bool{true, false} {
			store := objstore.NewMemory()
			w := groups(t, store, 3)
			if manifest {
				if err := w.PutManifest(); err != nil {
					t.Fatal(err)
				}
			}
			if err := store.Put(context.Background(), objstore.Object{Name: name, Data: []byte("garbage\n")}); err != nil {
				t.Fatal(err)
			}
			r := replica.New(store, replica.Bucket)
			c, err := r.Read(context.Background())
			var fault *replica.Fault
			if err != nil && !errors.As(err, &fault) {
				t.Fatal(err)
			}
			if c.Head.TXID != 3 {
				t.Fatalf("%s: the chain ends at %s", name, c.Head.TXID)
			}
			c.Head = w.Head
			c, err = r.Fence(context.Background(), c, 2)
			if err != nil || c.Head.TXID != 4 || c.Head.Post != w.Head.Post {
				t.Fatalf("%s: %v, %+v", name, err, c)
			}
		}
	}
}

func TestReach(t *testing.T) {
	f := func(min, max replica.TXID) replica.File { return replica.File{Min: min, Max: max} }
	for i, c := range []struct {
		files []replica.File
		most  replica.TXID
		want  replica.TXID
	}{
		{nil, 9, 0},
		{[]replica.File{f(2, 9)}, 9, 0},
		{[]replica.File{f(1, 1), f(2, 2), f(3, 3)}, 9, 3},
		{[]replica.File{f(1, 1), f(3, 3)}, 9, 1},
		{[]replica.File{f(3, 3), f(2, 5), f(1, 1), f(6, 6)}, 9, 6},
		{[]replica.File{f(1, 1), f(2, 5), f(2, 2), f(3, 3)}, 3, 3},
		{[]replica.File{f(1, 7), f(6, 9)}, 9, 9},
	} {
		if got := replica.Reach(c.files, c.most); got != c.want {
			t.Errorf("%d: %s, not %s", i, got, c.want)
		}
	}
}

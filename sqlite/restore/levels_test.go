package restore

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// TestEveryLevelIsProvedAgainstTheOthers: a file of a higher level that begins where its level has nothing is laid over the state that level 0 had there.
// Of a whole replica nothing is said, and a file that comes to another database than its groups is named, though its own checksum holds.
func TestEveryLevelIsProvedAgainstTheOthers(t *testing.T) {
	type file struct {
		level int
		min   replica.TXID
		at    int // behind so many groups
	}
	for name, files := range map[string][]file{
		"none":                           nil,
		"from the first group on":        {{1, 1, 6}},
		"in the middle":                  {{1, 3, 6}},
		"of one group":                   {{1, 4, 4}},
		"two, one behind the other":      {{1, 3, 4}, {1, 5, 6}},
		"two with a gap between":         {{1, 2, 3}, {1, 5, 6}},
		"two levels from one state":      {{1, 3, 4}, {2, 3, 6}},
		"three levels from one state":    {{1, 3, 4}, {2, 3, 5}, {3, 3, 6}},
		"a snapshot, and a level behind": {{replica.SnapshotLevel, 1, 3}, {1, 4, 6}},
		"two snapshots":                  {{replica.SnapshotLevel, 1, 3}, {replica.SnapshotLevel, 1, 6}},
	} {
		store := objstore.NewMemory()
		w := replicatest.New(replica.New(store, replica.Bucket), 1)
		var made []replica.File
		for n := 1; n <= 7; n++ {
			must(t, w.Commit(4, map[uint32][]byte{1: replicatest.Fill(512, byte(n)), uint32(n%3 + 2): replicatest.Fill(512, byte(n))}))
			for _, f := range files {
				if f.at == n {
					g, err := w.Compact(f.level, f.min)
					must(t, err)
					made = append(made, g)
				}
			}
		}
		v, said := verified(t, store, replica.Bucket)
		if len(said) != 0 || v.Wrong != 0 || v.States != 7 || v.Proved != 7 || v.Files != 7+len(files) {
			t.Errorf("%s: %+v, %q", name, v, said)
		}
		for _, f := range made {
			at := w.R.Name(f)
			c := mustRead(t, store.Objects()[at])
			c.Pages[1][7] ^= 1
			v, said := verified(t, without(t, store.Objects(), map[string][]byte{at: written(t, c, false)}), replica.Bucket)
			if v.Wrong == 0 || !strings.Contains(strings.Join(said, "\n"), at) {
				t.Errorf("%s, and %s comes to another database: %+v, %q", name, at, v, said)
			}
		}
	}
}

// TestAGapIsToldAndNotWrong: files behind it were on their way when their owner died, or one is lost. An empty place is no replica.
func TestAGapIsToldAndNotWrong(t *testing.T) {
	store := objstore.NewMemory()
	w := replicatest.New(replica.New(store, replica.Bucket), 1)
	must(t, w.Commit(2, nil))
	w.Group(2, nil)
	must(t, w.Commit(2, nil))
	v, said := verified(t, store, replica.Bucket)
	if v.Wrong != 0 || len(said) != 1 || !strings.Contains(said[0], "0000000000000002-0000000000000002.ltx is not there, and 1 files behind it are") {
		t.Errorf("%+v, %q", v, said)
	}
	if _, err := Verify(context.Background(), replica.New(objstore.NewMemory(), replica.Bucket), Verifying{}); err != ErrEmpty {
		t.Errorf("of an empty place: %v", err)
	}
}

// TestBehindADamagedFileTheOthersAreRead: the fetch ends there, and another one begins behind it.
func TestBehindADamagedFileTheOthersAreRead(t *testing.T) {
	store := objstore.NewMemory()
	w := replicatest.New(replica.New(store, replica.Bucket), 1)
	for n := range byte(7) {
		must(t, w.Commit(2, map[uint32][]byte{1: replicatest.Fill(512, n)}))
	}
	damage := map[string][]byte{}
	for _, i := range []int{2, 4} {
		at := w.R.Name(w.Files[i])
		damage[at] = wrong(store.Objects()[at])
	}
	v, said := verified(t, without(t, store.Objects(), damage), replica.Bucket)
	for at := range damage { // any order: each is named
		if !strings.Contains(strings.Join(said, "\n"), at) {
			t.Errorf("%s is not named", at)
		}
	}
	if v.Files != 5 {
		t.Errorf("%d of 5 whole files were read, %q", v.Files, said)
	}
}

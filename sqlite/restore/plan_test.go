package restore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// TestARefusalSaysWhatThereIs: the states nearest to one that never was, or why one that was cannot be made.
func TestARefusalSaysWhatThereIs(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMemory()
	w := replicatest.New(replica.New(store, replica.Bucket), 1)
	commit := func(n int) {
		for range n {
			must(t, w.Commit(1, map[uint32][]byte{1: replicatest.Fill(512, byte(len(w.Past)))}))
		}
	}
	commit(3)
	w, err := w.TakeOver(2) // with the fence 4
	must(t, err)
	w.Now = w.Now.Add(time.Hour)
	commit(3) // up to 100005, 100006 and 100007
	must(t, w.PutManifest())
	lost := func(names ...string) *replica.Replica {
		left := store.Objects()
		for _, name := range names {
			delete(left, name)
		}
		return replica.New(copyOf(t, left), replica.Bucket)
	}
	first, second := w.R.Name(w.Past[0].File), w.R.Name(w.Past[1].File)
	for _, c := range []struct {
		name string
		r    *replica.Replica
		to   Target
		want string // "": it is restored
	}{
		{"a state behind the end", w.R, Target{TXID: 0x100008}, "which ends with 0000000000100007"},
		{"the last state", w.R, Target{TXID: 0x100007}, ""},
		{"a state in the range that a takeover passes over", w.R, Target{TXID: 5}, "the nearest are 0000000000000004 and 0000000000100005"},
		{"the last of that range", w.R, Target{TXID: 0x100004}, "the nearest are 0000000000000004 and 0000000000100005"},
		{"a moment before the first", w.R, Target{Time: w.Past[0].File.Time.Add(-1)}, "which begins later"},
		{"a moment behind the end", w.R, Target{Time: time.Now()}, ""},
		{"the second without the first", lost(first), Target{TXID: 2}, "no file has the whole database"},
		{"the third without the second", lost(second), Target{TXID: 3}, "goes on from 0000000000000001"},
		{"the first without the second", lost(second), Target{TXID: 1}, ""},
	} {
		_, err := Files(ctx, c.r, c.to)
		if err == nil {
			_, err = Restore(ctx, c.r, Options{To: target, FS: newDisk(t), Target: c.to})
		}
		var fault *replica.Fault
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || errors.As(err, &fault) == errors.Is(err, ErrNotThere)):
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && errors.Is(err, ErrNotThere) && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

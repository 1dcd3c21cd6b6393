package publish

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/mysql"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
)

// TestDamageOfWhatIsPublishedIsFoundAndMended: a bundle is deleted, a bit flipped, a partial tile cut, the checkpoint spoilt and then
// removed. A check names the first; a repair leaves the place as it was.
func TestDamageOfWhatIsPublishedIsFoundAndMended(t *testing.T) {
	m, dir := newAlone(t, 1), t.TempDir()
	place := NewObjects(objstore.NewFile(dir), 0)
	m.grow(70000, "entry")
	if err := m.publish(place); err != nil {
		t.Fatal(err)
	}
	l, ctx := m.logs.Find("default"), context.Background()
	want := files(t, dir)
	spoil := func(name string, change func(b []byte) []byte) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		b := change(bytes.Clone(want[name]))
		if len(want[name]) == 0 {
			t.Fatalf("there is no %s", name)
		}
		if b == nil {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	gone := func([]byte) []byte { return nil }
	for name, change := range map[string]func([]byte) []byte{"tile/entries/003": gone, "tile/0/017": flip, "tile/1/001.p/17": func(b []byte) []byte { return b[:8] },
		"tile/entries/273.p/112": flip, "checkpoint": flip} {
		spoil(name, change)
		r, err := Republish(ctx, place, l, false)
		if name != "checkpoint" && (err != nil || r.Bad != 1 || r.Mended != 0 || !strings.HasPrefix(r.First, name+" is ")) {
			t.Errorf("%s: found %+v, %v", name, r, err)
		}
		if name == "checkpoint" && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if r, err := Republish(ctx, place, l, true); err != nil || r.Mended != r.Bad {
			t.Errorf("%s: mended %+v, %v", name, r, err)
		}
		if !maps.EqualFunc(files(t, dir), want, bytes.Equal) {
			t.Fatalf("%s: it is not what it was", name)
		}
	}
	spoil("checkpoint", gone)
	if _, err := Republish(ctx, place, l, true); err != nil || !maps.EqualFunc(files(t, dir), want, bytes.Equal) {
		t.Errorf("without a checkpoint: %v", err)
	}
	if r, err := Republish(ctx, place, l, false); err != nil || r.Bad != 0 || r.Looked < 2*273 {
		t.Errorf("a good place: %+v, %v", r, err)
	}
}

// TestDamageOfTablesIsFoundAndMended, the same for rows.
func TestDamageOfTablesIsFoundAndMended(t *testing.T) {
	m, db := newAlone(t, 1), mysql.NewMemory()
	place := NewDatabase(db)
	m.grow(3000, "entry")
	if err := m.publish(place); err != nil {
		t.Fatal(err)
	}
	l, ctx := m.logs.Find("default"), context.Background()
	if r, err := Republish(ctx, place, l, false); err != nil || r.Bad != 0 || r.Looked == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, spoil := range []func(tx mysql.Tx) error{
		func(tx mysql.Tx) error { return tx.PutBundle(ctx, 3, 256, []byte("nothing")) },
		func(tx mysql.Tx) error { return tx.PutTile(ctx, 0, 4, make([]byte, 256*32)) },
		func(tx mysql.Tx) error { return tx.PutTile(ctx, 1, 0, nil) },
		func(tx mysql.Tx) error { return tx.PutBundle(ctx, 11, 1, []byte("\x00\x01x")) },
	} {
		tx, err := db.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s := tx.State()
		if err := spoil(tx); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(ctx, s.Size, s.Root, nil); err != nil {
			t.Fatal(err)
		}
		if r, err := Republish(ctx, place, l, false); err != nil || r.Bad != 1 {
			t.Errorf("found %+v, %v", r, err)
		}
		if r, err := Republish(ctx, place, l, true); err != nil || r.Mended != 1 {
			t.Errorf("mended %+v, %v", r, err)
		}
		if r, err := Republish(ctx, place, l, false); err != nil || r.Bad != 0 {
			t.Errorf("afterwards %+v, %v", r, err)
		}
	}
	if m.readable(db) != 3000 {
		t.Error("not readable afterwards")
	}
}

// gate is a store whose conditional puts, those of checkpoints, wait for leave.
type gate struct {
	objstore.Store
	leave chan struct{}
}

func (g *gate) PutIfMatch(ctx context.Context, o objstore.Object, was string) (string, error) {
	select {
	case <-g.leave:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return g.Store.PutIfMatch(ctx, o, was)
}

// TestOnlyWhatEveryPlaceHoldsIsShown: of two places one is slow. The shown checkpoint is always complete at both, also where a log has
// grown by many sizes meanwhile. A new leader shows the one both held already.
func TestOnlyWhatEveryPlaceHoldsIsShown(t *testing.T) {
	m := newAlone(t, 1)
	l := m.logs.Find("default")
	fast, slow := objstore.NewMemory(), &gate{objstore.NewMemory(), make(chan struct{})}
	shown := newShown(m, m.logs, map[string]int{"default": 2})
	if shown.Checkpoint(l) != nil {
		t.Fatal("something is shown before a place was read")
	}
	var wg sync.WaitGroup
	for i, s := range []objstore.Store{fast, slow} {
		w := m.worker(NewObjects(s, time.Millisecond))
		w.target.Shown, w.target.Number = shown, i
		wg.Go(w.Run)
	}
	last := uint64(0)
	for round := range 12 {
		m.grow(37, "entry")
		if round%2 == 0 {
			m.grow(1, "entry")
		}
		time.Sleep(5 * time.Millisecond)
		if c := shown.Checkpoint(l); c != nil && c.Size > last {
			t.Fatalf("%d is shown and the slow place has %d", c.Size, last)
		}
		slow.leave <- struct{}{}
		var c *tlogmachine.Checkpoint
		for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(time.Millisecond) {
			if c = shown.Checkpoint(l); c != nil && c.Size > last {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("round %d: nothing newer than %d is shown", round, last)
			}
		}
		last = c.Size
		for _, s := range []objstore.Store{fast, slow} {
			m.completeAt(s, c)
		}
	}
	m.Stop()
	wg.Wait()

	next := newShown(m, m.logs, map[string]int{"default": 2})
	next.begin("default", 1)
	at := shown.Checkpoint(l)
	next.found("default", 0, at)
	if next.Checkpoint(l) != nil {
		t.Error("shown before both places were read")
	}
	next.found("default", 1, at)
	if c := next.Checkpoint(l); c == nil || c.Size != at.Size {
		t.Errorf("shown: %+v, want %d", c, at.Size)
	}
}

// completeAt checks that all a checkpoint promises is at a place, partial tiles in the width of its size or full.
func (m *alone) completeAt(s objstore.Store, c *tlogmachine.Checkpoint) {
	m.t.Helper()
	l := m.logs.Find("default")
	for level := -1; level < levels(c.Size); level++ {
		for ref := range growth(level, 0, c.Size) {
			want, err := read(l, ref)
			if err != nil {
				m.t.Fatal(err)
			}
			got, err := s.Get(context.Background(), ref.Path())
			if errors.Is(err, objstore.ErrAbsent) { // this place is ahead of the other one: readers take the full tile then
				ref.Width = tiles.Width
				if got, err = s.Get(context.Background(), ref.Path()); err == nil {
					got = got[:min(len(want), len(got))]
				}
			}
			if err != nil || !bytes.Equal(got, want) {
				m.t.Errorf("%s of the shown checkpoint %d: %d bytes, want %d, %v", ref.Path(), c.Size, len(got), len(want), err)
			}
		}
	}
}

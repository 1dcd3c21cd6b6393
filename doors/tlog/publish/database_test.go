package publish

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/holdfastdb/holdfast/doors/tlog/mysql"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// readable checks that the tables hold all that their checkpoint promises to a reader like Tessera v1.0.2. It reads by number, and takes a
// row with more than was asked for. It returns the checkpoint's size, 0 without one.
func (m *alone) readable(db *mysql.Memory) uint64 {
	m.t.Helper()
	rows := db.Rows()
	if rows.State.Note == nil {
		return 0
	}
	c, _, err := tiles.OpenCheckpoint(rows.State.Note, m.key.Verifier())
	if err != nil {
		m.t.Fatal(err)
	}
	l := m.logs.Find("default")
	if root, err := l.Prover(l.View(), rows.State.Size).Root(); err != nil || !bytes.Equal(root[:], rows.State.Root) || rows.State.Size < c.Size {
		m.t.Errorf("checkpoint of %d, tree of %d with root %x, not %s (%v)", c.Size, rows.State.Size, rows.State.Root, root, err)
	}
	for level := tiles.EntryLevel; level < levels(c.Size); level++ {
		for r := range growth(level, 0, c.Size) {
			want, err := read(l, r)
			if err != nil {
				m.t.Fatal(err)
			}
			row, width := rows.Tiles[[2]uint64{uint64(level), r.N}], 0
			if level == tiles.EntryLevel {
				row, width = rows.Bundles[r.N].Entries, rows.Bundles[r.N].Width
			} else {
				width = len(row) / tiles.HashSize
			}
			if width < r.Width || !bytes.HasPrefix(row, want) {
				m.t.Errorf("at size %d: %s has %d of %d in %d bytes", c.Size, r.Path(), width, r.Width, len(row))
			}
		}
	}
	return c.Size
}

// TestEveryTransactionIsComplete grows a log by odd numbers and publishes it to tables, with a new worker each time. In the end
// there is one row for every tile and bundle, and it has their bytes.
func TestEveryTransactionIsComplete(t *testing.T) {
	m, db := newAlone(t, 1), mysql.NewMemory()
	var size uint64
	for _, n := range []int{0, 1, 3, 251, 1, 1, 700, 256, 43, 3000, 65536, 300} {
		m.grow(n, "entry")
		if err := m.publish(NewDatabase(db)); err != nil {
			t.Fatal(err)
		}
		if size += uint64(n); m.readable(db) != size {
			t.Fatalf("published %d, want %d", m.readable(db), size)
		}
	}
	rows, l := db.Rows(), m.logs.Find("default")
	bundles, hashes := 0, 0
	for level := tiles.EntryLevel; level < levels(size); level++ {
		for r := range growth(level, 0, size) {
			want, err := read(l, r)
			row := rows.Tiles[[2]uint64{uint64(level), r.N}]
			if level == tiles.EntryLevel {
				row, bundles = rows.Bundles[r.N].Entries, bundles+1
			} else {
				hashes++
			}
			if err != nil || !bytes.Equal(row, want) {
				t.Errorf("%s has %d bytes, want %d (%v)", r.Path(), len(row), len(want), err)
			}
		}
	}
	if len(rows.Bundles) != bundles || len(rows.Tiles) != hashes {
		t.Errorf("%d and %d rows, want %d and %d", len(rows.Bundles), len(rows.Tiles), bundles, hashes)
	}
}

// TestTablesAreWholeAtEveryMoment breaks the connection anywhere, also after a commit without an answer. The tables are then always
// complete, and a new worker continues from them. Transactions are small, so that most publications take several.
func TestTablesAreWholeAtEveryMoment(t *testing.T) {
	const seed = 20261121
	random := rand.New(rand.NewPCG(seed, 0))
	m, db := newAlone(t, 1), mysql.NewMemory()
	gone := errors.New("the connection is gone")
	ahead, broken := 0, 0
	for range 60 {
		m.grow(random.IntN(2000), "entry")
		left := random.IntN(60)
		db.Fail(func(mysql.Step) error {
			if left--; left < 0 {
				return gone
			}
			return nil
		})
		place := NewDatabase(db)
		place.most = 16 << 10
		err := m.publish(place)
		if err != nil && !errors.Is(err, gone) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err != nil {
			broken++
		}
		if size := m.readable(db); size < db.Rows().State.Size {
			ahead++
		}
	}
	db.Fail(nil)
	if err := m.publish(NewDatabase(db)); err != nil {
		t.Fatal(err)
	}
	if size, want := m.readable(db), m.logs.Find("default").View().Size; size != want {
		t.Errorf("published %d of %d", size, want)
	}
	if broken < 10 || ahead < 5 {
		t.Errorf("%d publications broke, %d left a tree ahead of its checkpoint: this test looks at little", broken, ahead)
	}
}

// TestForeignTablesAreLeftAlone: tables that hold no earlier state of the log stay unchanged, tree and checkpoint alike.
func TestForeignTablesAreLeftAlone(t *testing.T) {
	m := newAlone(t, 1)
	m.grow(300, "entry")
	grown := func(seed byte, n int, text string) *mysql.Memory {
		other, db := newAlone(t, seed), mysql.NewMemory()
		other.grow(n, text)
		if err := other.publish(NewDatabase(db)); err != nil {
			t.Fatal(err)
		}
		return db
	}
	// without is what a publication leaves that never came to its checkpoint.
	without := func(db *mysql.Memory, size uint64) *mysql.Memory {
		s, out := db.Rows().State, mysql.NewMemory()
		tx, err := out.Begin(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if size == 0 {
			s.Note, size = nil, s.Size
		}
		if err := tx.Commit(context.Background(), size, s.Root, s.Note); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, db := range map[string]*mysql.Memory{
		"another key":                     grown(2, 200, "entry"),
		"a longer log":                    grown(1, 400, "entry"),
		"another history":                 grown(1, 200, "something else"),
		"another tree, no checkpoint":     without(grown(1, 200, "something else"), 0),
		"a longer tree, no checkpoint":    without(grown(1, 400, "entry"), 0),
		"a checkpoint over what is there": without(grown(1, 200, "entry"), 100),
		"another root for its checkpoint": without(grown(1, 200, "entry"), 250),
	} {
		before := db.Rows()
		if err := m.publish(NewDatabase(db)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: published: %v", name, err)
		}
		l := m.logs.Find("default")
		if _, err := NewDatabase(db).Publish(context.Background(), l, Published{}, l.Checkpoint()); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: published without a look before: %v", name, err)
		}
		after := db.Rows()
		if !bytes.Equal(before.State.Note, after.State.Note) || !maps.EqualFunc(before.Tiles, after.Tiles, bytes.Equal) {
			t.Errorf("%s: something was written", name)
		}
	}
}

// TestALeaderThatIsNoLongerOneChangesNothing: a member that still has an older checkpoint comes after its successor.
func TestALeaderThatIsNoLongerOneChangesNothing(t *testing.T) {
	m, db, ctx := newAlone(t, 1), mysql.NewMemory(), context.Background()
	m.grow(300, "entry")
	l := m.logs.Find("default")
	old := l.Checkpoint()
	m.grow(1000, "entry")
	if err := m.publish(NewDatabase(db)); err != nil {
		t.Fatal(err)
	}
	if _, err := NewDatabase(db).Publish(ctx, l, Published{}, old); err != nil {
		t.Errorf("%v", err)
	}
	if size := m.readable(db); size != 1300 {
		t.Errorf("published %d", size)
	}
	// A tree on the way to a checkpoint that this member has not got yet is not taken back.
	m.grow(5000, "entry")
	left := 40
	db.Fail(func(mysql.Step) error {
		if left--; left < 0 {
			return errors.New("gone")
		}
		return nil
	})
	place := NewDatabase(db)
	place.most = 16 << 10
	before := l.Checkpoint()
	if err := m.publish(place); err == nil || db.Rows().State.Size <= 1300 {
		t.Fatalf("%v, tree of %d", err, db.Rows().State.Size)
	}
	db.Fail(nil)
	middle := *before
	middle.Size = 1400
	if _, err := place.Publish(ctx, l, Published{Any: true, Size: 1300}, &middle); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("an older checkpoint over a larger tree: %v", err)
	}
	if _, err := place.Publish(ctx, l, Published{Any: true, Size: 1300}, before); err != nil || m.readable(db) != 6300 {
		t.Errorf("%v, published %d", err, m.readable(db))
	}
}

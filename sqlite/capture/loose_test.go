package capture

import (
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestWhatIsLetGoOfIsLookedFor: the WAL was started anew and then released. Commits to two WALs since are found, though only the second is
// still there.
func TestWhatIsLetGoOfIsLookedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, path)
	defer db.Close()
	exec := func(text string) {
		t.Helper()
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	exec("create table t (id integer primary key, v blob)")
	exec("insert into t (v) values (randomblob(9000))")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := &image{pages: make(map[uint32][]byte)}
	first, err := d.View(d.All)
	if err != nil {
		t.Fatal(err)
	}
	first.Whole = true
	m.take(t, first)
	first.Release()
	exec("pragma wal_checkpoint(passive)")
	if g, err := d.Restart(); err != nil || g != nil {
		t.Fatal(g, err)
	}
	if err := d.Loose(); err != nil {
		t.Fatal(err)
	}
	exec("update t set v = randomblob(9000)")
	exec("pragma wal_checkpoint(truncate)")
	exec("create table u (id integer primary key)")
	g, err := d.Capture()
	if err != nil || g == nil {
		t.Fatal(g, err)
	}
	m.take(t, g) // compares the checksum of all pages
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.State().Sum != m.state.Sum {
		t.Error("what was captured is not the database")
	}
}

// TestAnEmptyWALThatIsNotHeld: the WAL is found empty while other processes have all the marks. Commits to it and to its successor before
// the next capture are found.
func TestAnEmptyWALThatIsNotHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, path)
	defer db.Close()
	exec := func(text string) {
		t.Helper()
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	exec("create table t (id integer primary key, v blob)")
	exec("insert into t (v) values (randomblob(9000))")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := &image{pages: make(map[uint32][]byte)}
	first, err := d.View(d.All)
	if err != nil {
		t.Fatal(err)
	}
	first.Whole = true
	m.take(t, first)
	first.Release()
	if err := d.Loose(); err != nil {
		t.Fatal(err)
	}
	exec("pragma wal_checkpoint(truncate)")
	var others []*walfile.DB
	for range 4 {
		o, err := walfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		if err := o.Hold(); err != nil {
			t.Fatal(err)
		}
		others = append(others, o)
	}
	if g, err := d.Capture(); err != nil || g != nil {
		t.Fatal(g, err)
	}
	if d.Held() {
		t.Fatal("a mark was free")
	}
	for _, o := range others {
		o.Close()
	}
	exec("update t set v = randomblob(9000)")
	exec("pragma wal_checkpoint(truncate)")
	exec("create table u (id integer primary key)")
	g, err := d.Capture()
	if err != nil || g == nil {
		t.Fatal(g, err)
	}
	m.take(t, g)
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.State().Sum != m.state.Sum {
		t.Error("what was captured is not the database")
	}
}

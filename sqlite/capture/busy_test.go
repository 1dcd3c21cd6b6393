package capture

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestALargeDatabaseThatIsOpen: an unused group of Open leaves no pin behind. Otherwise no group of the whole database could be made while
// a connection shares the index.
func TestALargeDatabaseThatIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, path)
	defer db.Close()
	if _, err := db.Exec("create table t (id integer primary key, v blob); insert into t (v) values (zeroblob(?))", smallBytes+1); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	g, err := d.View(d.All)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	if g.Bytes() <= smallBytes {
		t.Fatalf("the group has %d bytes", g.Bytes())
	}
}

// TestNobodyWritesWhileAllIsCaptured: between what was left and the view of all pages no commit comes, however many wait; afterwards they go on.
func TestNobodyWritesWhileAllIsCaptured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, path)
	defer db.Close()
	if _, err := db.Exec("pragma busy_timeout=0; create table t (id integer primary key)"); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := db.Exec("insert into t default values"); err != nil {
		t.Fatal(err)
	}
	g, err := d.CaptureView(func(yield func(uint32) bool) {
		if _, err := db.Exec("insert into t default values"); err == nil {
			t.Error("a commit between the last group and the view")
		}
		d.All(yield)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	m := &image{pages: make(map[uint32][]byte)}
	g.Whole = true
	m.take(t, g) // compares the checksum of all pages
	if _, err := db.Exec("insert into t default values"); err != nil {
		t.Error("afterwards: ", err)
	}
}

// TestAPinThatReadersShare: a reader that comes while a group is pinned has its mark, and keeps it. The next group takes another.
func TestAPinThatReadersShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, reader := connect(t, path), connect(t, path)
	defer db.Close()
	defer reader.Close()
	if _, err := db.Exec("create table t (id integer primary key)"); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range 2 {
		g, err := d.View(d.All)
		if err != nil {
			t.Fatalf("group %d: %v", i, err)
		}
		if i == 0 {
			tx, err := reader.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			n := 0
			if err := tx.QueryRow("select count(*) from t").Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		g.Release()
		if _, err := db.Exec("insert into t default values"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Capture(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilesThatAreOpenedAnewBesideAReader: a level's file is read while a capture finds that the files have moved. It has closed ones for a
// moment, and goes on in the new ones; files that stay closed are no failure of the store.
func TestFilesThatAreOpenedAnewBesideAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, path)
	if _, err := db.Exec("create table t (id integer primary key, v blob); insert into t (v) values (zeroblob(?))", smallBytes+1); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	g, err := d.View(d.All)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	d.Close()
	opened := make(chan error, 1)
	begun := false
	pages := 0
	err = g.Each(func(uint32, []byte) error { pages++; return nil })
	if !errors.Is(err, ErrChanged) || pages != 0 {
		t.Errorf("files that stay closed: %d pages, %v", pages, err)
	}
	if err := d.Reopen(); err != nil {
		t.Fatal(err)
	}
	err = g.Each(func(uint32, []byte) error {
		if pages++; !begun { // the same goroutine closes them, as the page before was read
			begun = true
			d.Close()
			opened <- d.Reopen()
		}
		return nil
	})
	if err != nil || <-opened != nil || pages != len(g.Pages) {
		t.Errorf("files that are opened anew: %d pages, %v", pages, err)
	}
}

package capture

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestADatabaseWithARollbackJournalIsRead: its state is that of the file, and it cannot be written while it is open.
func TestADatabaseWithARollbackJournalIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(delete)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(text string) error { _, err := db.Exec(text); return err }
	if err := errors.Join(exec("CREATE TABLE t (x)"), exec("INSERT INTO t VALUES (1)")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrMode) {
		t.Fatalf("it is opened as one in WAL mode: %v", err)
	}
	d, err := OpenRollback(path)
	if err != nil {
		t.Fatal(err)
	}
	before := d.State()
	if !d.Rollback() || before.Pages != 2 || before.Sum == 0 {
		t.Errorf("rollback %v, %d pages, checksum %x", d.Rollback(), before.Pages, before.Sum)
	}
	if err := exec("INSERT INTO t VALUES (2)"); err == nil {
		t.Error("a commit while it is open")
	}
	d.Close()
	if err := exec("INSERT INTO t VALUES (2)"); err != nil {
		t.Errorf("a commit after it was closed: %v", err)
	}
	d, err = OpenRollback(path)
	if err != nil {
		t.Fatal(err)
	}
	if d.State().Sum == before.Sum {
		t.Error("another content has the same checksum")
	}
	d.Close()
	if err := errors.Join(exec("BEGIN EXCLUSIVE"), exec("INSERT INTO t VALUES (3)")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRollback(path); !errors.Is(err, walfile.ErrBusy) {
		t.Errorf("while it is written to: %v", err)
	}
	if err := errors.Join(exec("COMMIT"), exec("PRAGMA journal_mode=WAL")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRollback(path); !errors.Is(err, walfile.ErrWAL) {
		t.Errorf("one in WAL mode: %v", err)
	}
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w.Rollback() {
		t.Error("one in WAL mode says that it has a rollback journal")
	}
}

// TestAGroupKnowsItsCommits: the last frame of each, by which a commit that was announced is told from one that was not.
func TestAGroupKnowsItsCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, path)
	defer db.Close()
	if _, err := db.Exec("create table t (x)"); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 3 {
		if _, err := db.Exec("insert into t values (1)"); err != nil {
			t.Fatal(err)
		}
	}
	g, err := d.Capture()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	last := g.Position.Frame
	if len(g.Commits) != 3 || g.Commits[2] != last || g.Commits[0] != last-2 || g.Commits[1] != last-1 {
		t.Errorf("commits end with frames %d, the group with %d", g.Commits, last)
	}
}

// TestAnInterruptedTransactionIsNotRead: a journal beside the database says that its file is no committed state. SQLite has to play it back first.
func TestAnInterruptedTransactionIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(delete)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE t (x)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]error{"": nil, "\x00 one that was ended": nil, "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7": walfile.ErrHot} {
		if err := os.WriteFile(path+"-journal", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := OpenRollback(path)
		if !errors.Is(err, want) {
			t.Errorf("a journal that begins with %q: %v", content, err)
		}
		if d != nil {
			d.Close()
		}
	}
	// It has released the database, or the journal could not be played back.
	db, err = sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("INSERT INTO t VALUES (1)"); err != nil {
		t.Error(err)
	}
}

package walmode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// connect opens a database as an application does, in a journal mode.
func connect(t *testing.T, path, mode string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode("+mode+")")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func do(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// mode is the mode that the file says, for a connection that has not asked for one.
func mode(t *testing.T, path string) (m string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEveryModeBecomesWAL: the rows stay, a connection that is open goes on, in WAL mode, and nothing is left beside the file.
func TestEveryModeBecomesWAL(t *testing.T) {
	for _, from := range []string{"delete", "truncate", "persist", "memory", "off", "wal"} {
		t.Run(from, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "app ?#%.db") // a name with what means something in a URL
			db := connect(t, filepath.Join(dir, "app.db"), from)
			do(t, db, "CREATE TABLE t (x)")
			do(t, db, "INSERT INTO t VALUES (1), (2)")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "app.db"), path); err != nil {
				t.Fatal(err)
			}
			if err := Switch(context.Background(), path); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path, filepath.Join(dir, "app.db")); err != nil {
				t.Fatal(err)
			}
			path = filepath.Join(dir, "app.db")
			if m := mode(t, path); m != "wal" {
				t.Errorf("the mode is %s", m)
			}
			var n int
			if err := connect(t, path, "wal").QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil || n != 2 {
				t.Errorf("%d rows, %v", n, err)
			}
		})
	}
}

// TestAConnectionThatIsOpenGoesOn: it finds out at its next transaction.
func TestAConnectionThatIsOpenGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, path, "delete")
	do(t, db, "CREATE TABLE t (x)")
	if err := Switch(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	do(t, db, "INSERT INTO t VALUES (1)")
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("what it writes goes into no WAL: %v", err)
	}
}

// TestADatabaseInUseIsLeftAlone: with a reader, with a writer, and with locking_mode=EXCLUSIVE.
func TestADatabaseInUseIsLeftAlone(t *testing.T) {
	for name, begin := range map[string][]string{"read": {"BEGIN", "SELECT * FROM t"}, "reserve": {"BEGIN IMMEDIATE"},
		"write": {"BEGIN EXCLUSIVE", "INSERT INTO t VALUES (2)"}, "for itself": {"PRAGMA locking_mode=EXCLUSIVE", "INSERT INTO t VALUES (2)"}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.db")
			db := connect(t, path, "delete")
			do(t, db, "CREATE TABLE t (x)")
			do(t, db, "INSERT INTO t VALUES (1)")
			for _, text := range begin {
				do(t, db, text)
			}
			if err := Switch(context.Background(), path); !errors.Is(err, walfile.ErrBusy) {
				t.Errorf("it ends with %v", err)
			}
			if b, err := os.ReadFile(path); err != nil || b[18] != 1 {
				t.Errorf("the file says mode %d, %v", b[18], err)
			}
		})
	}
}

// TestAnInterruptedTransactionIsTakenBack: its journal is what a program that was killed leaves.
func TestAnInterruptedTransactionIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "app.db"), filepath.Join(dir, "killed.db")
	db := connect(t, path, "delete")
	do(t, db, "PRAGMA cache_size=2")
	do(t, db, "CREATE TABLE t (x)")
	do(t, db, "INSERT INTO t VALUES ('kept')")
	do(t, db, "BEGIN")
	do(t, db, "UPDATE t SET x='lost'")
	for i := range 50 { // more than the cache holds: pages go to the file before the commit
		do(t, db, fmt.Sprintf("INSERT INTO t VALUES (hex(zeroblob(%d)))", 1000+i))
	}
	for _, suffix := range []string{"", "-journal"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil || len(b) == 0 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if err := os.WriteFile(copied+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := walfile.OpenRollback(copied)
	if err != nil {
		t.Fatal(err)
	}
	hot, err := files.Hot()
	files.Close()
	if err != nil || !hot {
		t.Fatalf("the journal is hot: %v, %v", hot, err)
	}
	if err := Switch(context.Background(), copied); err != nil {
		t.Fatal(err)
	}
	var x string
	if err := connect(t, copied, "wal").QueryRow("SELECT group_concat(x) FROM t").Scan(&x); err != nil || x != "kept" {
		t.Errorf("it has %.20q, %v", x, err)
	}
}

// TestWhatIsNoDatabaseIsNotTouched: text, an encrypted file, one that says it is a database and is none, a directory, nothing.
func TestWhatIsNoDatabaseIsNotTouched(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"text": "a file of text that is longer than the header of a database, which has a hundred bytes, so that it can be read whole",
		"damaged": "SQLite format 3\x00\x10\x00\x01\x01" + string(make([]byte, 4096))} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Switch(context.Background(), path); err == nil {
			t.Errorf("%s is switched", name)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%s has changed, %v", name, err)
		}
	}
	if err := Switch(context.Background(), dir); err == nil {
		t.Error("a directory is switched")
	}
	if err := Switch(context.Background(), filepath.Join(dir, "none")); !errors.Is(err, walfile.ErrAbsent) {
		t.Errorf("a file that is not there: %v", err)
	}
}

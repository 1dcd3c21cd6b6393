package walmode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestWhatSQLiteCannotReadIsNoDatabase: whether it finds that out by the file's header or by a page behind it, the error is walfile.ErrNoDatabase. An
// error of another kind is not: the agent would give up a database that the next try can switch.
func TestWhatSQLiteCannotReadIsNoDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, path string)
		none   bool // it is no database
		code   int  // SQLite's
	}{
		"a header that is none": {overwrite(21, 0, 0, 0), true, codeNotDatabase}, // payload fractions, which are always 64, 32 and 32
		"a schema that is none": {overwrite(100, 0), true, codeCorrupt},          // the kind of page 1, as a page of a B-tree
		"no place for the journal": {func(t *testing.T, path string) {
			if err := os.Symlink(filepath.Join(filepath.Dir(path), "gone", "journal"), path+"-journal"); err != nil {
				t.Fatal(err)
			}
		}, false, 14 /* SQLITE_CANTOPEN */},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.db")
			db := connect(t, path, "delete")
			do(t, db, "CREATE TABLE t (x)")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			c.damage(t, path)
			err := Switch(context.Background(), path)
			var told *sqlite.Error
			if !errors.As(err, &told) || told.Code()&0xff != c.code {
				t.Errorf("the cause is not told: %v", err)
			}
			if none := errors.Is(err, walfile.ErrNoDatabase); none != c.none {
				t.Errorf("that it is no database is said: %v, by %v", none, err)
			}
		})
	}
}

// overwrite writes bytes into the file at an offset.
func overwrite(at int64, b ...byte) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

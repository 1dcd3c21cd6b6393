// Package walmode has SQLite switch a database to WAL mode, once and under every lock, so that no other program reads or writes it
// meanwhile. Only here does this program let SQLite write to an application's database. The agent decides when the switch is right, and
// itself writes to none.
package walmode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	"modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// codeNotDatabase and codeCorrupt are SQLITE_NOTADB and SQLITE_CORRUPT.
const (
	codeCorrupt     = 11
	codeNotDatabase = 26
)

// Switch brings the database at path, an absolute path, into WAL mode. A journal that an interrupted transaction left is played back first.
// It returns nil for a database in WAL mode, and walfile.ErrBusy while another process has a lock on the database. It returns
// walfile.ErrAbsent if there is none, walfile.ErrNoDatabase if SQLite cannot read it, or an error of the file system. After any error the
// mode may be the old one or WAL, and the content is the committed one. The database is durable when Switch returns nil. One call for a
// path at a time; any goroutine.
func Switch(ctx context.Context, path string) error {
	files, err := walfile.OpenRollback(path)
	if errors.Is(err, walfile.ErrWAL) {
		return nil
	}
	if err != nil {
		return err
	}
	defer files.Close() // nothing was written by it; the locks go with it
	if err := files.LockAll(); err != nil {
		return err
	}
	if files.Moved() {
		return walfile.ErrMoved
	}
	// The locks above belong to an open file, and SQLite's own would meet them. So SQLite takes none (unix-none), and needs no shared memory for
	// the WAL because the connection has the database for itself.
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw&vfs=unix-none"}).String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	err = switchOn(ctx, db)
	return told(errors.Join(err, db.Close()))
}

func switchOn(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "PRAGMA locking_mode=EXCLUSIVE"); err != nil {
		return err
	}
	var n int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil { // reads the file, and plays a journal back
		return err
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("SQLite left it in mode %s", mode)
	}
	return nil
}

// told gives an error of SQLite its meaning here.
func told(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && (e.Code()&0xff == codeNotDatabase || e.Code()&0xff == codeCorrupt) {
		return fmt.Errorf("%w: %w", walfile.ErrNoDatabase, err)
	}
	return err
}

package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite" // and the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Check is what SQLite itself is asked about a database that was restored.
type Check string

// The checks: PRAGMA quick_check, PRAGMA integrity_check, which looks at indexes too, or nothing.
const (
	None  Check = "none"
	Quick Check = "quick"
	Full  Check = "full"
)

// ErrCorrupt: SQLite finds fault with the database. If its checksum was proved, it was captured so.
var ErrCorrupt = errors.New("SQLite finds it damaged")

// mostFaults is how many of SQLite's findings are told.
const mostFaults = 5

// check asks SQLite about a file without other users. Nothing is written.
func check(ctx context.Context, name string, how Check) (err error) {
	pragma := ""
	switch how {
	case "", None:
		return nil
	case Quick:
		pragma = "quick_check"
	case Full:
		pragma = "integrity_check"
	default:
		return fmt.Errorf("check %q: there is none, quick and full", how)
	}
	name, err = filepath.Abs(name)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: name, RawQuery: "mode=ro&immutable=1"}).String())
	if err != nil {
		return fmt.Errorf("check %s: %w", name, err)
	}
	defer db.Close() // it was read
	rows, err := db.QueryContext(ctx, fmt.Sprintf("PRAGMA %s(%d)", pragma, mostFaults))
	if err != nil {
		return asked(name, err)
	}
	defer rows.Close() // it was read
	var found []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return fmt.Errorf("check %s: %w", name, err)
		}
		if line != "ok" {
			found = append(found, line)
		}
	}
	if err := rows.Err(); err != nil {
		return asked(name, err)
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(found, "; "))
	}
	return nil
}

// asked is the error of a question that SQLite did not answer to its end. A page may be damaged so that the check itself cannot go on.
func asked(name string, err error) error {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	return fmt.Errorf("check %s: %w", name, err)
}

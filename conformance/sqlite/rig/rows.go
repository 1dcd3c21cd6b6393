package rig

import (
	"database/sql"
	"errors"
	"fmt"
	"os"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Make makes a database in a journal mode with a table and no rows, as an installation does before anything replicates.
func Make(path, mode string) error {
	return Do(path, "PRAGMA journal_mode="+mode, "CREATE TABLE entries(n INTEGER PRIMARY KEY, pad BLOB)")
}

// Do runs statements on a database, in this process, which has no extension.
func Do(path string, statements ...string) (err error) {
	db, err := open("file:" + path + "?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			return fmt.Errorf("%s: %s: %w", path, s, err)
		}
	}
	return nil
}

func open(url string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", url)
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// One returns the first value that a query has on a database that may be in use.
func One(path, query string) (v string, err error) {
	db, err := open("file:" + path + "?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return v, db.QueryRow(query).Scan(&v)
}

// Rows returns which numbered rows a database has. A file that is not there, or has no table yet, has none; a damaged one is an error.
func Rows(path string) (has map[int]bool, err error) {
	has = map[int]bool{}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return has, nil
	}
	db, err := open("file:" + path + "?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var check string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		return nil, fmt.Errorf("%s: integrity_check: %s, %w", path, check, err)
	}
	var tables int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master WHERE name='entries'").Scan(&tables); err != nil || tables == 0 {
		return has, err
	}
	rows, err := db.Query("SELECT n FROM entries")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		has[n] = true
	}
	return has, rows.Err()
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// sqlLogin logs in at a sql door, and returns what CURRENT_USER() says, or the number of the server's error.
func sqlLogin(t *testing.T, at, user, password string) (account string, number uint16) {
	t.Helper()
	conf := mysql.NewConfig()
	conf.Net, conf.Addr, conf.User, conf.Passwd = "tcp", at, user, password
	to, err := mysql.NewConnector(conf)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(to)
	defer db.Close()
	err = db.QueryRowContext(timely(t), "SELECT CURRENT_USER()").Scan(&account)
	var e *mysql.MySQLError
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%s at %s: %v", user, at, err)
	}
	if e != nil {
		number = e.Number
	}
	return account, number
}

// TestSQLUsersStay over a restart and in a snapshot, and the restored server has root's password too.
func TestSQLUsersStay(t *testing.T) {
	t.Parallel()
	at, data := freeAddr(t), t.TempDir()
	r := serveFlags(t, data, "--sql", at)
	db, err := sql.Open("mysql", "root@tcp("+at+")/?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), `CREATE USER new IDENTIFIED BY 'one', old@localhost IDENTIFIED WITH mysql_native_password BY 'two';
		GRANT ALL ON *.* TO new; ALTER USER root IDENTIFIED BY 'three'`); err != nil {
		t.Fatal(err)
	}
	judge := func(when, at string) {
		t.Helper()
		for _, c := range []struct {
			user, password, account string
			number                  uint16
		}{{"new", "one", "new@%", 0}, {"old", "two", "old@localhost", 0}, {"root", "three", "root@localhost", 0}, {"root", "", "", 1045}, {"new", "two", "", 1045}} {
			if account, number := sqlLogin(t, at, c.user, c.password); account != c.account || number != c.number {
				t.Errorf("%s: %s is %q, %d", when, c.user, account, number)
			}
		}
	}
	judge("at once", at)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if out := says(t, "snapshot", "save", snapshot, "--admin", r.adminAddr); !strings.Contains(out, "3 sql accounts") {
		t.Errorf("snapshot save: %s", out)
	}
	r.stop()
	serveFlags(t, data, "--sql", at)
	judge("behind a restart", at)

	copied, elsewhere := filepath.Join(t.TempDir(), "copied"), freeAddr(t)
	says(t, "snapshot", "restore", snapshot, "--data", copied, "--name", "r1")
	serveFlags(t, copied, "--sql", elsewhere)
	judge("restored", elsewhere)
}

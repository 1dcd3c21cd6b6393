package litestream

import (
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// inMode makes a database with a table t of one row, in a journal mode.
func inMode(t *testing.T, path, mode string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode("+mode+")")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	do(t, db, "CREATE TABLE t (x)")
	do(t, db, "INSERT INTO t VALUES (1)")
	return db
}

// TestADatabaseInTheDefaultModeIsStored, as Litestream stores it, and said to be; with the setting that leaves it as it is, it is said not to be.
func TestADatabaseInTheDefaultModeIsStored(t *testing.T) {
	t.Parallel()
	for _, how := range [][]string{{"-once"}, {"-exec", "/bin/true"}} {
		dir := t.TempDir()
		path, url := filepath.Join(dir, "app.db"), "file://"+filepath.Join(dir, "replica")
		inMode(t, path, "delete")
		r := begin(t, []string{"HOLDFAST_SQLITE_WAL=never"}, append(how, path, url)...)
		r.lost("NOT STORED: ")
		if !strings.Contains(r.log.String(), "not in WAL mode") {
			t.Errorf("the log says\n%s", &r.log)
		}
		r = begin(t, nil, append(how, path, url)...)
		r.end()
		r.says("stored up to TXID 0000000000000001 at ")
		if n := count(t, url); n != 1 {
			t.Errorf("%q: %d rows are kept", how, n)
		}
	}
	bad := begin(t, []string{"HOLDFAST_SQLITE_WAL=always"}, "-once", "/x/app.db", "file:///x/r")
	if err := <-bad.ended; err == nil || !strings.Contains(err.Error(), "write switch or never") {
		t.Errorf("it ends with %v", err)
	}
}

// TestWhatCannotBeStoredEndsTheStart within seconds: with a program beside, which is not begun, and once. A service tries again, as Litestream does.
func TestWhatCannotBeStoredEndsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	write(t, text, strings.Repeat("this is no database ", 100))
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere", "at", "all"), dangling); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "file"), "x")
	env := []string{"LITESTREAM_ACCESS_KEY_ID=key", "LITESTREAM_SECRET_ACCESS_KEY=secret"}
	for name, c := range map[string]struct {
		path, url, want string
		ways            int
	}{
		"no database":        {text, "file://" + dir + "/r", "no SQLite database", 2},
		"nobody listens":     {"", "s3://bucket/app?endpoint=http://127.0.0.1:1", "127.0.0.1:1", 1},
		"dangling directory": {"", "file://" + dangling + "/r", "dangling", 2},
		"below a file":       {"", "file://" + dir + "/file/r", "not a directory", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.path == "" {
				c.path = filepath.Join(t.TempDir(), "app.db")
				inMode(t, c.path, "wal")
			}
			for _, how := range [][]string{{"-once"}, {"-exec", "/bin/sh -c 'echo it was begun'"}}[:c.ways] {
				r := begin(t, env, append(how, c.path, c.url)...)
				r.lost(c.want)
				if s := r.log.String(); strings.Contains(s, "it was begun") {
					t.Errorf("%q: the log says\n%s", how, s)
				}
			}
		})
	}
}

// TestWhatIsLeftUnstoredIsTheOutcome: the program beside leaves WAL mode, and ends well; what it wrote then is not stored.
func TestWhatIsLeftUnstoredIsTheOutcome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, url := filepath.Join(dir, "app.db"), "file://"+filepath.Join(dir, "replica")
	db := inMode(t, path, "wal")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := begin(t, nil, path, url)
	r.says("database is followed")
	db = inMode(t, filepath.Join(dir, "other.db"), "delete")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "other.db"), path); err != nil {
		t.Fatal(err)
	}
	r.says("NOT STORED: what is committed is not captured")
	r.signals <- syscall.SIGTERM
	r.lost("not in WAL mode")
}

// TestASignalBeforeTheAgentIsAnOutcome: the store takes connections and answers nothing, and an operator has waited long enough.
func TestASignalBeforeTheAgentIsAnOutcome(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	dir := t.TempDir()
	path := filepath.Join(dir, "app.db")
	db := inMode(t, path, "wal")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	url := "s3://bucket/app?forcePathStyle=true&region=us-east-1&endpoint=http://" + silent.Addr().String()
	for _, how := range [][]string{nil, {"-once"}, {"-exec", "true"}} {
		r := begin(t, nil, append(how, path, url)...)
		r.says("msg=litestream")
		r.signals <- syscall.SIGTERM
		r.lost(path + ": NOT STORED: terminated ended the start")
	}
}

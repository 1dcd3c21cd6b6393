package program

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// call runs one command line and returns its exit status and what it wrote to standard error.
func call(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	var out, err bytes.Buffer
	status = cli.Run([]*cli.Command{Run(), Replicate(), Restore()}, args, &out, &err, func(string) string { return "" })
	return status, err.String()
}

// last is the last line.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// rows is how many rows the table t has in what a replica restores to; -1: there is no such replica.
func rows(t *testing.T, dir string) (n int) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "restored.db")
	_, err := restore.Restore(t.Context(), replica.New(objstore.NewFile(dir), replica.Directory), restore.Options{To: to})
	if errors.Is(err, restore.ErrEmpty) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+to)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// made makes a database with a table t of one row, in a journal mode.
func made(t *testing.T, path, mode string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode("+mode+")")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, text := range []string{"CREATE TABLE t (x)", "INSERT INTO t VALUES (1)"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTheOutcomeIsTheLastLineAndTheStatus of `run`: what is stored, what is not and why, and the command's own status before ours.
func TestTheOutcomeIsTheLastLineAndTheStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, to := filepath.Join(dir, "app.db"), filepath.Join(dir, "replica")
	run := func(path string, flags []string, command string) (int, string) {
		args := append([]string{"sqlite", "run", "--replica", "file://" + to, "--ack", "local", "--interval", "50ms"}, flags...)
		return call(t, append(args, path, "--", "/bin/sh", "-c", command)...)
	}
	made(t, path, "delete")
	status, said := run(path, []string{"--wal", "never"}, "true")
	if status != 1 || !strings.HasPrefix(last(said), path+": NOT STORED: ") || !strings.Contains(last(said), "not in WAL mode") || rows(t, to) != -1 {
		t.Errorf("left as it is: status %d, %s", status, said)
	}
	if status, said = run(path, nil, "true"); status != 0 || !strings.HasPrefix(last(said), path+": stored up to TXID 0000000000000001 at ") || rows(t, to) != 1 {
		t.Errorf("switched: status %d, %s", status, said)
	}
	if status, said = run(path, nil, "exit 7"); status != 7 || !strings.Contains(last(said), "stored up to") {
		t.Errorf("the command fails: status %d, %s", status, said)
	}
	if status, said = run(path, nil, "kill -9 $$"); status != 128+9 {
		t.Errorf("the command is killed: status %d, %s", status, said)
	}
	to = filepath.Join(dir, "other")
	none := filepath.Join(dir, "none.db")
	if status, said = run(none, nil, "true"); status != 1 || !strings.HasPrefix(last(said), none+": NOT STORED: there is no database") {
		t.Errorf("no database: status %d, %s", status, said)
	}
	if status, said = run(none, nil, "exit 7"); status != 7 || !strings.Contains(last(said), "NOT STORED") {
		t.Errorf("no database, and the command fails: status %d, %s", status, said)
	}
}

// TestWhatCannotBeKeptEndsTheStart: the command is not begun, and one line says why.
func TestWhatCannotBeKeptEndsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "app.db")
	made(t, path, "wal")
	calls := 0
	for name, c := range map[string]struct{ path, url, want string }{
		"a directory":   {dir, "file://" + dir + "/r", "is a directory"},
		"below a file":  {path, "file://" + path + "/r", "not a directory"},
		"a wrong --wal": {path, "file://" + dir + "/r", "write switch or never"},
	} {
		flags := []string{"--quiet"}
		if name == "a wrong --wal" {
			flags = append(flags, "--wal", "always")
		}
		for _, how := range []string{"run", "replicate"} {
			// A socket each: an agent that fails at its start may still hold its own when the next one begins in the same process.
			socket := filepath.Join(dir, fmt.Sprintf("%d.sock", calls))
			calls++
			args := append([]string{"sqlite", how, "--replica", c.url, "--socket", socket, c.path}, flags...)
			if how == "run" {
				args = append(args, "--", "/bin/sh", "-c", "touch "+filepath.Join(dir, "begun"))
			}
			status, said := call(t, args...)
			if status == 0 || !strings.HasPrefix(last(said), "holdfast: ") || !strings.Contains(last(said), c.want) {
				t.Errorf("%s %s: status %d, %s", how, name, status, said)
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "begun")); err == nil {
		t.Error("the command was begun")
	}
}

// TestTheExtensionCanBeRequired: a command that commits without it is told to end, one that does not listen is killed, and the status is 1.
func TestTheExtensionCanBeRequired(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "app.db")
	made(t, path, "wal")
	for name, command := range map[string]string{"it ends": "trap 'exit 3' TERM", "it does not listen": "trap '' TERM"} {
		began := make(chan struct{})
		go func() { // another program, without the extension
			defer close(began)
			for range 1000 {
				if _, err := os.Stat(filepath.Join(dir, "up")); err == nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
			if err == nil {
				_, err = db.Exec("INSERT INTO t VALUES (2)")
				_ = db.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}()
		status, said := call(t, "sqlite", "run", "--replica", "file://"+dir+"/r", "--interval", "100ms", "--shutdown-timeout", "1s", "--require-extension", path, "--",
			"/bin/sh", "-c", command+"; touch "+dir+"/up; while :; do sleep 0.01; done")
		<-began
		if status != 1 || !strings.HasPrefix(last(said), "holdfast: ") || !strings.Contains(last(said), "without the extension") || !strings.Contains(said, path+": stored up to") {
			t.Errorf("%s: status %d, %s", name, status, said)
		}
		if err := os.Remove(filepath.Join(dir, "up")); err != nil {
			t.Error(err)
		}
	}
	if status, said := call(t, "sqlite", "replicate", "--replica", "file://"+dir+"/r", "--ack", "local", "--require-extension", path); status != 2 {
		t.Errorf("under local: status %d, %s", status, said)
	}
}

// TestARestoreNamesTheMissingDirectory, and what to do; it makes none.
func TestARestoreNamesTheMissingDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, url := filepath.Join(dir, "app.db"), "file://"+filepath.Join(dir, "replica")
	made(t, path, "wal")
	if status, said := call(t, "sqlite", "run", "--replica", url, "--ack", "local", path, "--", "true"); status != 0 {
		t.Fatalf("run: status %d, %s", status, said)
	}
	for to, want := range map[string]string{
		"no/such/app.db": "there is no directory " + filepath.Join(dir, "no/such") + "; make it, or give another --to",
		"app.db/x.db":    path + " is no directory; give another --to",
	} {
		status, said := call(t, "sqlite", "restore", "--to", filepath.Join(dir, to), url)
		if status != 1 || strings.Count(said, "\n") != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: status %d, %s", to, status, said)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "no")); err == nil {
		t.Error("a directory was made")
	}
}

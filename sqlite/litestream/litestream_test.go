package litestream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/replica/replicatest"
)

// call runs one command line and returns what it printed and its exit status.
func call(args ...string) (out, err string, status int) {
	var stdout, stderr bytes.Buffer
	status = Run(args, nil, &stdout, &stderr)
	return stdout.String(), stderr.String(), status
}

// good is call for one that must succeed.
func good(t *testing.T, args ...string) string {
	t.Helper()
	out, err, status := call(args...)
	if status != 0 {
		t.Fatalf("%q: status %d\n%s%s", args, status, out, err)
	}
	return out
}

// bad is call for one that must fail with one line that has want in it. A second line may say what to try.
func bad(t *testing.T, want string, args ...string) {
	t.Helper()
	out, err, status := call(args...)
	lines := strings.Split(strings.TrimSpace(err), "\n")
	if status != 1 || !strings.HasPrefix(err, "Error: ") || !strings.Contains(lines[0], want) || len(lines) > 2 ||
		len(lines) == 2 && !strings.HasPrefix(lines[1], "Try: litestream ") {
		t.Errorf("%q: status %d, %s%s, want %q", args, status, out, err, want)
	}
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// stored makes a file replica with three states, of which the second has a snapshot, in dir.
func stored(t *testing.T, dir string) *replicatest.Writer {
	t.Helper()
	w := replicatest.New(replica.New(objstore.NewFile(dir), replica.Directory), 7)
	for i := range byte(3) {
		if err := w.Commit(2, map[uint32][]byte{1: replicatest.Fill(w.PageSize, i+1), 2: replicatest.Fill(w.PageSize, 9)}); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if _, err := w.Compact(replica.SnapshotLevel, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.PutManifest(); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTheNameAndTheVersionAreLitestreams(t *testing.T) {
	if !Named([]string{"/usr/bin/litestream"}) || Named([]string{"holdfast", "litestream"}) || Named(nil) {
		t.Error("the name is another")
	}
	if out := good(t, "version"); !strings.HasPrefix(out, "v0.5.18\nholdfast ") {
		t.Errorf("it prints %q", out)
	}
	for _, args := range [][]string{{"help"}, {"-h"}, {"restore", "-h"}, {"replicate", "-help"}} {
		if out := good(t, args...); !strings.Contains(out, "Usage:") {
			t.Errorf("%q prints %q", args, out)
		}
	}
	bad(t, "which command?")
	bad(t, "litestream fly: unknown command", "fly")
	for name := range missing {
		bad(t, "not offered", name)
	}
	bad(t, "flag provided but not defined: -x", "ltx", "-x")
	bad(t, "database path or replica URL required", "ltx")
	bad(t, "too many arguments", "ltx", "a", "b")
	bad(t, "config file not found: /nowhere.yml", "databases", "-config", "/nowhere.yml")
	bad(t, "cannot specify a replica URL and the -config flag", "ltx", "-config", "x", "file:///x")
}

func TestDatabasesAreListedWithThoseOfDirectories(t *testing.T) {
	dir := t.TempDir()
	const head = "SQLite format 3\x00"
	for _, name := range []string{"b.db", "a.db", "sub/c.db"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), head+name)
	}
	write(t, filepath.Join(dir, "text.db"), "no database")
	write(t, filepath.Join(dir, "empty.db"), "")
	write(t, filepath.Join(dir, "other.sqlite"), head)
	conf := filepath.Join(dir, "litestream.yml")
	const form = `dbs:
  - path: /one.db
    replica: {url: "s3://bucket/one"}
  - dir: %s
    pattern: "*.db"
    recursive: %v
    replica: {path: /back}
`
	write(t, conf, fmt.Sprintf(form, dir, false))
	want := fmt.Sprintf("path%s  replica\n/one.db%s  s3\n%s  file\n%s  file\n", strings.Repeat(" ", len(dir)+5-4), strings.Repeat(" ", len(dir)+5-7),
		dir+"/a.db", dir+"/b.db")
	if out := good(t, "databases", "-config", conf); out != want {
		t.Errorf("it prints\n%s, want\n%s", out, want)
	}
	write(t, conf, fmt.Sprintf(form, dir, true))
	var rows []databaseRow
	if err := json.Unmarshal([]byte(good(t, "databases", "-json", "-config", conf)), &rows); err != nil || len(rows) != 4 || rows[3] != (databaseRow{dir + "/sub/c.db", "file"}) {
		t.Errorf("%+v, %v", rows, err)
	}
	write(t, conf, fmt.Sprintf(form, dir+"/sub/c.db/none", true))
	bad(t, "not a directory", "databases", "-config", conf)
	write(t, conf, "dbs: [{dir: "+dir+", pattern: '*.none', replica: {path: /back}}]")
	bad(t, "no SQLite databases found in directory "+dir, "databases", "-config", conf)
}

func TestFilesAreListedByLevel(t *testing.T) {
	dir := t.TempDir()
	w := stored(t, dir)
	head, rest, _ := strings.Cut(good(t, "ltx", "-level", "all", "file://"+dir), "\n")
	lines := strings.Split(strings.TrimSpace(rest), "\n")
	if strings.Join(strings.Fields(head), " ") != "level min_txid max_txid size created" || len(lines) != 4 ||
		!strings.HasPrefix(lines[0], "0      0000000000000001  0000000000000001  ") || !strings.HasPrefix(lines[3], "9      0000000000000001  0000000000000002  ") {
		t.Errorf("it prints\n%s\n%s", head, rest)
	}
	if n := strings.Count(good(t, "ltx", "file://"+dir), "\n"); n != 4 {
		t.Errorf("of level 0 there are %d lines", n)
	}
	if err := os.Remove(filepath.Join(dir, replica.ManifestName)); err != nil {
		t.Fatal(err)
	}
	// Without the manifest the times are those in the files.
	conf := write(t, filepath.Join(t.TempDir(), "l.yml"), "dbs: [{path: /x.db, replica: {path: "+dir+"}}]")
	var rows []fileRow
	if err := json.Unmarshal([]byte(good(t, "ltx", "-json", "-level", "9", "-config", conf, "/x.db")), &rows); err != nil || len(rows) != 1 ||
		rows[0].Level != 9 || rows[0].Timestamp != w.Manifest().Files[3].Time.UTC().Format(time.RFC3339) {
		t.Errorf("%+v, %v", rows, err)
	}
	bad(t, "a level is 0 to 9, or all", "ltx", "-level", "10", "file://"+dir)
	bad(t, "database not found in config: /y.db", "ltx", "-config", conf, "/y.db")
}

func TestARestoreMakesTheStateThatIsMeant(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "new", "app.db")
	w := stored(t, dir)
	first := func(want byte) {
		t.Helper()
		b, err := os.ReadFile(out)
		if err != nil || len(b) != 2*int(w.PageSize) || b[0] != want {
			t.Errorf("%d bytes, %v, %v", len(b), b[:min(1, len(b))], err)
		}
	}
	good(t, "restore", "-o", out, "file://"+dir)
	first(3)
	bad(t, "Use -force to overwrite", "restore", "-o", out, "file://"+dir)
	if text := good(t, "restore", "-if-db-not-exists", "-o", out, "file://"+dir); !strings.Contains(text, "database already exists, skipping") {
		t.Errorf("it says %s", text)
	}
	good(t, "restore", "-force", "-txid", "0000000000000002", "-o", out, "file://"+dir)
	first(2)
	var a restoreAnswer
	if err := json.Unmarshal([]byte(good(t, "restore", "-force", "-json", "-timestamp", w.Manifest().Files[0].Time.UTC().Format(time.RFC3339Nano), "-o", out, "file://"+dir)), &a); err != nil ||
		a.DBPath != out || a.Replica != "file" || len(a.TXID) != 16 || a.IntegrityCheck != "none" {
		t.Errorf("%+v, %v", a, err)
	}
	var p planAnswer
	if err := json.Unmarshal([]byte(good(t, "restore", "-dry-run", "-json", "-o", out+".2", "file://"+dir)), &p); err != nil || len(p.Files) != 2 ||
		p.Files[0].Level != 9 || p.Files[1].Name != "0000000000000003-0000000000000003.ltx" || p.MinTXID != "0000000000000001" || p.MaxTXID != "0000000000000003" {
		t.Errorf("%+v, %v", p, err)
	}
	if text := good(t, "restore", "-dry-run", "-o", out+".2", "file://"+dir); !strings.Contains(text, "txid range: 0000000000000001 - 0000000000000003") {
		t.Errorf("it prints %s", text)
	}
	if _, err := os.Stat(out + ".2"); err == nil {
		t.Error("a dry run has made something")
	}
}

func TestARestoreThatCannotBeIsRefused(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "app.db")
	bad(t, "-o is required", "restore", "file://"+dir)
	bad(t, "no matching backup files available", "restore", "-o", out, "file://"+dir)
	bad(t, "no matching backup files available", "restore", "-dry-run", "-o", out, "file://"+dir)
	if text := good(t, "restore", "-if-replica-exists", "-o", out, "file://"+dir); !strings.Contains(text, "no matching backups found") {
		t.Errorf("it says %s", text)
	}
	bad(t, "invalid -txid 5", "restore", "-txid", "5", "-o", out, "file://"+dir)
	bad(t, "invalid -timestamp", "restore", "-timestamp", "now", "-o", out, "file://"+dir)
	bad(t, "one or the other", "restore", "-timestamp", "2026-01-01T00:00:00Z", "-txid", "0000000000000001", "-o", out, "file://"+dir)
	bad(t, "invalid -integrity-check value: some", "restore", "-integrity-check", "some", "-o", out, "file://"+dir)
	bad(t, "-f is not offered", "restore", "-f", "-o", out, "file://"+dir)
	bad(t, "-parallelism -1", "restore", "-parallelism", "-1", "-o", out, "file://"+dir)
	bad(t, "gs is not offered", "restore", "-o", out, "gs://bucket/x")
	old := objstore.NewFile(dir)
	if err := old.Put(context.Background(), objstore.Object{Name: "generations/0123456789abcdef/snapshots/00000000.snapshot.lz4", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	bad(t, "one of Litestream 0.3", "restore", "-o", out, "file://"+dir)
	bad(t, "one of Litestream 0.3", "restore", "-if-replica-exists", "-o", out, "file://"+dir)
	if _, err := os.Lstat(out); err == nil {
		t.Error("there is a database")
	}
}

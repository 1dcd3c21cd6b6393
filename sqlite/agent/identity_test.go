package agent

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// hello opens a connection of an extension that has path open, with a HELLO of version 2.
func (r *rig) hello(path string) *ext {
	r.t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: r.socketPath(), Net: "unixpacket"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	e := &ext{t: r.t, conn: conn}
	file, _ := place.Identify(path) // zero for what is not there
	dir, err := place.Identify(filepath.Dir(path))
	if err != nil {
		r.t.Fatal(err)
	}
	conn.Write(gate.Hello{Path: path, File: file, Dir: dir}.Encode())
	e.text = string(e.read(129)[9:])
	return e
}

func (e *ext) managed() bool       { return e.state[0] == 1 }
func (e *ext) refuse() gate.Refuse { return gate.Refuse(e.state[2]) }

// linked is a rig whose database is named by a link; real is the file.
func linked(t *testing.T, form string) (r *rig, real string) {
	r = newRig(t)
	root, err := filepath.EvalSymlinks(filepath.Dir(r.path))
	if err != nil {
		t.Fatal(err)
	}
	real = filepath.Join(root, "v1", "app.db")
	short, err := os.MkdirTemp("", "hfa") // a socket's path is short, t.TempDir's is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	r.socket = filepath.Join(short, "s")
	os.MkdirAll(filepath.Join(root, "v1"), 0o700)
	os.MkdirAll(filepath.Join(root, "ln"), 0o700)
	switch form {
	case "a link to the file":
		r.path = filepath.Join(root, "ln.db")
		os.Symlink(real, r.path)
	case "a link to a link":
		r.path = filepath.Join(root, "ln.db")
		os.Symlink("ln/second", r.path)
		os.Symlink("../v1/app.db", filepath.Join(root, "ln", "second"))
	case "a directory that is a link":
		os.Symlink("v1", filepath.Join(root, "current"))
		r.path = filepath.Join(root, "current", "app.db")
	case "a name with ..":
		os.Symlink("v1", filepath.Join(root, "current"))
		r.path = root + "/current/../v1/app.db"
	}
	return r, real
}

// TestADatabaseThatIsALinkIsCapturedAndAcknowledged: before, an agent that was given a link read no WAL, and said archive.
func TestADatabaseThatIsALinkIsCapturedAndAcknowledged(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"a link to the file", "a link to a link", "a directory that is a link", "a name with .."} {
		for _, when := range []string{"there before", "made later"} {
			t.Run(form+", "+when, func(t *testing.T) {
				r, real := linked(t, form)
				var db = r.connect()
				if when == "there before" {
					r.exec(db, "create table t(a)")
				}
				a := r.start(gate.Archive)
				if when == "made later" {
					r.exec(db, "create table t(a)")
				}
				e := r.hello(real)
				if !e.managed() || e.refuse() != gate.Open {
					t.Fatalf("state %v: %s", e.state, e.text)
				}
				for range 20 {
					r.exec(db, "insert into t values(1)")
				}
				if code := e.commit(); code != gate.Done {
					t.Fatal(code)
				}
				if n := count(t, r.restored()); n != 20 {
					t.Errorf("%d rows of 20 were stored", n)
				}
				if _, err := os.Stat(filepath.Join(filepath.Dir(real), ".app.db-holdfast", "agent")); err != nil {
					t.Error(err)
				}
				if _, err := a.Sync(context.Background(), r.path); err != nil {
					t.Error(err)
				}
				if a.Status()[r.path] == "" {
					t.Errorf("no status under the name that was given: %v", a.Status())
				}
				r.stop(a)
			})
		}
	}
}

// TestAHelloOfVersion1IsAnswered: a program that loaded the extension of the build before goes on.
func TestAHelloOfVersion1IsAnswered(t *testing.T) {
	r, real := linked(t, "a link to the file")
	db := r.connect()
	r.exec(db, "create table t(a)")
	a := r.start(gate.Archive)
	path := r.path
	r.path = real
	e := r.extension()
	r.exec(db, "insert into t values(1)")
	if code := e.commit(); code != gate.Done || !e.managed() {
		t.Error(code, e.state)
	}
	r.path = path
	r.stop(a)
}

// TestACommitToAFileThatWasReplacedIsNotAcknowledged: it went into a file without a name, which is not read.
func TestACommitToAFileThatWasReplacedIsNotAcknowledged(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) { replaceUnderConnections(t, mode) })
	}
}

// replaceUnderConnections puts a copy in a journal mode in the place of a database that connections have open.
func replaceUnderConnections(t *testing.T, mode string) {
	r, real := linked(t, "")
	r.path = real
	db := r.connect()
	r.exec(db, "create table t(a)")
	r.exec(db, "insert into t values(1)")
	a := r.start(gate.Archive)
	v1, v2 := r.extension(), r.hello(r.path)
	if v1.commit() != gate.Done || v2.commit() != gate.Done {
		t.Fatal("a commit before it is replaced")
	}
	copied := r.path + ".copy"
	r.exec(db, "vacuum into '"+copied+"'")
	if mode == "wal" {
		c, err := sql.Open("sqlite", "file:"+copied+"?_pragma=journal_mode(wal)")
		if err != nil {
			t.Fatal(err)
		}
		r.exec(c, "insert into t values(3)")
		c.Close()
	}
	if err := os.Rename(copied, r.path); err != nil {
		t.Fatal(err)
	}
	r.exec(db, "insert into t values(2)") // into the file that is gone
	for _, e := range []*ext{v1, v2} {
		if code := e.commit(); code != gate.NotStored {
			t.Errorf("a commit to the old file: %v", code)
		}
	}
	for v2.refuse() != gate.InDoubt { // its connections are told that they have another file
		v2.read(129)
	}
	fresh := r.hello(r.path)
	if fresh.refuse() != gate.Open {
		t.Errorf("state %v: %s", fresh.state, fresh.text)
	}
	if mode == "wal" {
		if code := fresh.commit(); code != gate.Done {
			t.Errorf("a commit to the new file: %v", code)
		}
	}
	r.kill(a)
}

// TestAFileUnderAnotherNameIsNotTheDatabase: SQLite keeps its WAL beside the name that a program uses.
func TestAFileUnderAnotherNameIsNotTheDatabase(t *testing.T) {
	r, real := linked(t, "")
	r.path = real
	db := r.connect()
	r.exec(db, "create table t(a)")
	a := r.start(gate.Archive)
	other := filepath.Join(filepath.Dir(r.path), "other.db")
	if err := os.Link(r.path, other); err != nil {
		t.Fatal(err)
	}
	e := r.hello(other)
	if !e.managed() || e.refuse() != gate.InDoubt || !strings.Contains(e.text, "under another name") {
		t.Errorf("state %v: %s", e.state, e.text)
	}
	e.conn.SetReadDeadline(time.Now().Add(wait.Limit(t)))
	if _, err := e.conn.Read(make([]byte, 10)); err == nil {
		t.Error("the connection is not ended, and its program never asks again")
	}
	wait.Until(t, "the second name is in the status", func() bool { return strings.Contains(a.Status()[r.path], "has 2 names") })
	if e := r.hello(r.path); e.refuse() != gate.Open {
		t.Error("the name that is followed is refused")
	}
	os.Remove(other)
	wait.Until(t, "it is gone", func() bool { return !strings.Contains(a.Status()[r.path], "names") })
	if e := r.hello(filepath.Join(filepath.Dir(r.path), "foreign.db")); e.managed() {
		t.Error("a database of nobody's is taken for one of the agent's")
	}
	r.stop(a)
	os.Link(r.path, other)
	if _, err := Start(r.config(gate.Archive)); err == nil || !strings.Contains(err.Error(), "has 2 names (hard links)") {
		t.Error(err)
	}
}

// TestALinkThatIsPointedElsewhere: writes there are stored nowhere, and no commit is told otherwise.
func TestALinkThatIsPointedElsewhere(t *testing.T) {
	r, real := linked(t, "a directory that is a link")
	db := r.connect()
	r.exec(db, "create table t(a)")
	a := r.start(gate.Archive)
	root := filepath.Dir(filepath.Dir(real))
	os.Mkdir(filepath.Join(root, "v2"), 0o700)
	os.WriteFile(filepath.Join(root, "v2", "app.db"), nil, 0o600)
	if err := os.Symlink("v2", filepath.Join(root, "next")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(root, "next"), filepath.Join(root, "current")); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is said", func() bool { return strings.Contains(a.Status()[r.path], "leads to "+root+"/v2/app.db") })
	e := r.hello(filepath.Join(root, "v2", "app.db"))
	if !e.managed() || e.refuse() != gate.InDoubt || !strings.Contains(e.text, "start the agent anew") {
		t.Errorf("state %v: %s", e.state, e.text)
	}
	e = r.hello(real)
	r.exec(db, "insert into t values(1)")
	if code := e.commit(); code != gate.Done {
		t.Errorf("the file that is followed: %v, %s", code, e.text)
	}
	r.stop(a)
}

// TestADirectoryThatIsReplacedIsNotFollowed: the lock lies in the one that was there.
func TestADirectoryThatIsReplacedIsNotFollowed(t *testing.T) {
	r, real := linked(t, "")
	r.path = real
	db := r.connect()
	r.exec(db, "create table t(a)")
	a := r.start(gate.Archive)
	e := r.hello(real)
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	if err := os.Rename(filepath.Dir(real), filepath.Dir(real)+"0"); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(filepath.Dir(real), 0o700)
	r.exec(r.connect(), "create table other(a)")
	if code := e.commit(); code != gate.NotStored {
		t.Error(code)
	}
	if !strings.Contains(a.Status()[r.path], "another directory") {
		t.Error(a.Status())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.Close(ctx) // it cannot store what is not there
}

// TestTwoDatabasesAndOneReplicaAreRefused, by every way to name them and before anything is touched.
func TestTwoDatabasesAndOneReplicaAreRefused(t *testing.T) {
	root := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	for _, dir := range []string{"a", "b", "rep"} {
		os.Mkdir(at(dir), 0o700)
	}
	os.WriteFile(at("a", "app.db"), nil, 0o600)
	os.WriteFile(at("b", "app.db"), nil, 0o600)
	os.Symlink(at("a", "app.db"), at("link.db"))
	os.Symlink("a", at("current"))
	os.Symlink("rep", at("rep2"))
	os.WriteFile(at("hard.db"), nil, 0o600)
	a, b := at("a", "app.db"), at("b", "app.db")
	fill := func(path, url string) Target {
		return Target{Path: path, URL: url, Replica: replica.New(objstore.NewMemory(), replica.Bucket), Ack: gate.Local}
	}
	for name, pair := range map[string][2]Target{
		"one URL":              {fill(a, "file:///r/app.db"), fill(b, "file:///r/app.db")},
		"a slash":              {fill(a, "s3://b/x"), fill(b, "s3://b/x/")},
		"parameters":           {fill(a, "s3://b/x?endpoint=http://h:1&region=r"), fill(b, "s3://b/x?region=r&endpoint=http://H:1/")},
		"a link":               {fill(a, "file://"+at("rep")), fill(b, "file://"+at("rep2"))},
		"below":                {fill(a, "file://"+at("rep", "x")), fill(b, "file://"+at("rep2"))},
		"above":                {fill(a, "s3://b"), fill(b, "s3://b/x/y")},
		"one name":             {fill(a, "file:///r"), fill(a, "file:///q")},
		"one file by a link":   {fill(a, "file:///r"), fill(at("link.db"), "file:///q")},
		"one file by two dirs": {fill(a, "file:///r"), fill(at("current/app.db"), "file:///q")},
		"one missing file":     {fill(at("a/new.db"), "file:///r"), fill(at("current/new.db"), "file:///q")},
		"another's place":      {{Path: a, URL: "x", At: place.Bucket("", "b", "p")}, {Path: b, URL: "y", At: place.Bucket("", "b", "p/")}},
	} {
		t.Run(name, func(t *testing.T) {
			both := func(err error) {
				t.Helper()
				if err == nil || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%v", err)
				}
				for _, target := range pair {
					if !strings.Contains(err.Error(), target.Path) {
						t.Errorf("%v: %s is not named", err, target.Path)
					}
				}
				for _, dir := range []string{root, at("a"), at("b")} {
					if side, _ := filepath.Glob(filepath.Join(dir, ".*-holdfast")); len(side) > 0 {
						t.Fatalf("%s was made before it was refused", side)
					}
				}
			}
			both(Check(pair[:]))
			cfg := Config{Databases: pair[:], Log: slog.New(slog.DiscardHandler), Socket: at("s")}
			agent, err := Start(cfg)
			if err == nil {
				agent.Close(context.Background())
			}
			both(err)
			if _, err := os.Lstat(at("s")); err == nil {
				t.Error("a socket was made")
			}
		})
	}
	// The second one comes later, as in a directory that is watched.
	cfg := Config{Databases: []Target{fill(a, "file:///r/x")}, Log: slog.New(slog.DiscardHandler)}
	agent, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close(context.Background())
	for _, second := range []Target{fill(b, "file:///r/x"), fill(b, "file:///r"), fill(at("link.db"), "file:///q"), fill(a, "file:///q")} {
		if err := agent.Add(second); err == nil || !strings.Contains(err.Error(), a) {
			t.Errorf("%+v: %v", second, err)
		}
	}
	if side, _ := filepath.Glob(at("b", ".*")); len(side) > 0 {
		t.Errorf("%s was made before it was refused", side)
	}
	if err := agent.Add(fill(b, "file:///r/y")); err != nil {
		t.Error(err)
	}
	_ = agent.Remove(context.Background(), a) // there was nothing to store
	if err := agent.Add(fill(at("current/app.db"), "file:///r/x")); err != nil {
		t.Errorf("after the first one was given back: %v", err)
	}
}

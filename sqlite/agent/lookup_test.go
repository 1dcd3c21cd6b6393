package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestADatabaseInADirectoryThatComesLaterIsFound: the agent is started before an application is installed, and makes its directory.
func TestADatabaseInADirectoryThatComesLaterIsFound(t *testing.T) {
	r := newRig(t)
	r.socket = filepath.Join(filepath.Dir(r.path), "s")
	r.path = filepath.Join(filepath.Dir(r.path), "later", "app.db")
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (x)")
	e := r.hello(r.path)
	if !e.managed() || e.refuse() != gate.Open {
		t.Fatalf("the state is %v: %s", e.state, e.text)
	}
	if code := e.commit(); code != gate.Done {
		t.Errorf("a commit is answered with %d", code)
	}
	r.stop(a)
}

// TestAForeignDatabaseIsNobodys, also where its HELLO is of version 1, and the agent goes on.
func TestAForeignDatabaseIsNobodys(t *testing.T) {
	r := newRig(t)
	a := r.start(gate.Archive)
	own := r.path
	r.path = filepath.Join(filepath.Dir(own), "foreign.db")
	if e := r.extension(); e.managed() {
		t.Errorf("a foreign database has the state %v", e.state)
	}
	r.path = own
	if e := r.extension(); !e.managed() {
		t.Errorf("the agent's own database has the state %v", e.state)
	}
	r.exec(r.connect(), "create table t (x)")
	wait.Until(t, "it is followed", func() bool { return a.Views()[0].Followed })
	r.stop(a)
}

// TestOnlyCommitsThatCameBeforeACaptureAreJudgedByIt: of those that wait, the first ones whose connection has another file open are refused.
func TestOnlyCommitsThatCameBeforeACaptureAreJudgedByIt(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	this, that := place.ID{Dev: 1, Ino: 1}, place.ID{Dev: 1, Ino: 2}
	same, other, old, late := h.joins(gate.Hello{File: this}), h.joins(gate.Hello{File: that}), h.joins(gate.Hello{}), h.joins(gate.Hello{File: that})
	old.Hello.File = place.ID{} // it does not say which file it has
	for _, c := range []*heardBy{same, other, old, late} {
		h.waiters = append(h.waiters, &waiter{conn: c.Conn})
	}
	h.waiters = append(h.waiters, &waiter{result: make(chan struct{})}) // a caller of Sync
	if n := h.refuseAstray(3, this); n != 1 || len(h.waiters) != 4 {
		t.Errorf("%d are refused and %d left, want 1 and 4", n, len(h.waiters))
	}
	if len(same.done) != 0 || len(old.done) != 0 || len(late.done) != 0 || len(other.done) != 1 || other.done[0] != gate.NotStored {
		t.Errorf("the answers are %v, %v, %v and %v", same.done, other.done, old.done, late.done)
	}
	if n := h.refuseAstray(len(h.waiters), this); n != 1 || len(late.done) != 1 {
		t.Errorf("behind the next capture %d are refused, want the last one", n)
	}
}

// TestAnotherFileIsSaidOnce: each look at the same file says nothing, and so does a look while there is none.
func TestAnotherFileIsSaidOnce(t *testing.T) {
	r := newRig(t)
	h := r.byHand(gate.Archive)
	c := h.joins(gate.Hello{})
	look := func(inode, links uint64) walfile.Look {
		return walfile.Look{DB: walfile.Glance{Device: 1, Inode: inode, Links: links}}
	}
	for i, s := range []struct {
		what string
		look walfile.Look
		said int
	}{
		{"the first file", look(1, 1), 0},
		{"the same file", look(1, 1), 0},
		{"no file", walfile.Look{}, 0},
		{"the same file again", look(1, 1), 0},
		{"another file", look(2, 1), 1},
		{"the other file again", look(2, 1), 1},
		{"a third one", look(3, 1), 2},
	} {
		h.noteFile(s.look)
		if n := r.log.count("another file has taken the database's place"); n != s.said || len(c.states) != s.said {
			t.Errorf("look %d, at %s: it is said %d times in the log and %d to the extension, want %d", i, s.what, n, len(c.states), s.said)
		}
	}
	for _, s := range []struct {
		links uint64
		on    bool
	}{{1, false}, {2, true}, {3, true}, {1, false}, {0, false}} {
		h.noteFile(look(3, s.links))
		if got := len(h.stands().Alarms) == 1; got != s.on {
			t.Errorf("a file with %d names: the alarm is on: %v", s.links, got)
		}
	}
}

// TestAFileWithoutASecondNameIsNoStranger: a program asks for a database of which nothing is there yet, and the agent has one of which nothing is there.
func TestAFileWithoutASecondNameIsNoStranger(t *testing.T) {
	r := newRig(t)
	a := r.start(gate.Archive)
	dir := filepath.Join(filepath.Dir(r.path), "other")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if e := r.hello(filepath.Join(dir, "app.db")); e.managed() {
		t.Errorf("a database in another directory has the state %v: %s", e.state, e.text)
	}
	r.lost(a, "there is no database")
}

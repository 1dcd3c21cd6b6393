package capture

import (
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestADatabaseAtRest: others do with the WAL what they like, and what they commit is counted. The next Capture takes
// it from the WAL, and holds a mark again.
func TestADatabaseAtRest(t *testing.T) {
	f := followOne(t)
	if err := f.d.Rest(); err != nil || f.d.Held() {
		t.Fatalf("held %v, %v", f.d.Held(), err)
	}
	f.truncate() // without waiting
	f.exec("update t set v = 2")
	if g := f.capture(); g.Found || len(g.Commits) != 1 {
		t.Errorf("found by reading the database: %v, %d commits", g.Found, len(g.Commits))
	}
	if !f.d.Held() {
		t.Error("no mark is held")
	}
	f.exec("update t set v = 3")
	f.capture()
}

// TestARestThatCannotEnd: an error keeps it at rest, and the next Capture tries again.
func TestARestThatCannotEnd(t *testing.T) {
	f := followOne(t)
	if err := f.d.Rest(); err != nil {
		t.Fatal(err)
	}
	f.exec("update t set v = 2")
	f.r.rouse = times(1, walfile.ErrBusy)
	if g, err := f.d.Capture(); g != nil || !errors.Is(err, walfile.ErrBusy) {
		t.Errorf("%v, %v", g, err)
	}
	f.capture()
}

// TestARestThatEndsElsewhere: another file has taken the place of one of the three, which Rouse finds; all are opened
// anew then.
func TestARestThatEndsElsewhere(t *testing.T) {
	f := followOne(t)
	if err := f.d.Rest(); err != nil {
		t.Fatal(err)
	}
	f.exec("update t set v = 2")
	opened := false
	f.r.open = func() error { opened = true; return nil }
	f.r.rouse = times(1, walfile.ErrMoved)
	if f.capture(); !opened {
		t.Error("the files are those from before")
	}
}

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// TestACopyThatCommitsLateIsFenced: a disk was copied after a clean end, and both copies resume. One commits, compacts and removes its first group before
// the other commits for the first time, so that the name is free again.
func TestACopyThatCommitsLateIsFenced(t *testing.T) {
	r := lived(t, 2)
	r.cfg.Levels, r.cfg.L0Retention = []time.Duration{300 * time.Millisecond}, 10*time.Millisecond
	other := r.another()
	if err := os.Mkdir(filepath.Join(filepath.Dir(other.path), ".app.db-holdfast"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app.db", ".app.db-holdfast/state"} {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(r.path), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(other.path), name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := r.start(gate.Archive), other.start(gate.Archive)
	if n := r.chain().Head; n.Fence {
		t.Fatal("one of them made a fence: the test shows nothing")
	}
	first := r.chain().Missing()
	db, odb := r.connect(), other.connect()
	r.rows(db, 3, 5)
	wait.Until(t, "the first group is removed", func() bool {
		_, _, err := r.store.GetVersion(context.Background(), r.replica().Name(first))
		return errors.Is(err, objstore.ErrAbsent)
	})
	e := other.extension()
	other.exec(odb, "insert into t values (100)")
	if code := e.commit(); code != gate.WasFenced {
		t.Errorf("the copy that commits late is told %d", code)
	}
	r.rows(db, 6, 6)
	r.stop(a)
	other.lost(b, "another agent")
	if n := count(t, r.restored()); n != 6 {
		t.Errorf("%d of 6 rows are in the bucket", n)
	}
}

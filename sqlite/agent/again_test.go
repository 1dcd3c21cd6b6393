package agent

import (
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// TestCommitsThatAreCapturedAgainRaiseNothing: the store was swapped and is back, and the agent takes the database over again, with commits that were
// announced before. No program is without the extension.
func TestCommitsThatAreCapturedAgainRaiseNothing(t *testing.T) {
	r := saying(t)
	r.cfg.RequireExtension = true
	db := r.connect()
	r.exec(db, "create table t (x)")
	a := r.start(gate.Archive)
	e := r.extension()
	commit := func() gate.Code { return r.announced(db, e, "insert into t values (1)") }
	for range 3 {
		if code := commit(); code != gate.Done {
			t.Fatal(code)
		}
	}
	right := r.store.swap(objstore.NewMemory())
	d := a.all()[0]
	d.mu.Lock()
	d.confirmed = time.Time{}
	d.mu.Unlock()
	if code := commit(); code == gate.Done {
		t.Error("a commit is acknowledged by another store")
	}
	r.store.swap(right)
	wait.Until(t, "it goes on", func() bool { return a.Views()[0].Followed })
	time.Sleep(2 * witnessGrace)
	r.quiet(a)
	r.stop(a)
}

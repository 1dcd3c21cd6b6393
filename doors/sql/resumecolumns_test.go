package sql

import (
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestColumnsComeWithABuildThatGoesOn: they are part of its goal.
func TestColumnsComeWithABuildThatGoesOn(t *testing.T) {
	t.Parallel()
	const rows = 2000
	l := newLarge(t, rows)
	l.deposed(6, "ALTER TABLE t ADD COLUMN more INT NOT NULL DEFAULT 5 FIRST, ADD INDEX later (pad, k), DROP COLUMN u")
	c := l.connect("test")
	l.exec(c, "UPDATE t SET k = k + 1 WHERE id % 7 = 0")
	if became := l.clean(); len(became) != 1 || became["test.t"] != nil {
		t.Errorf("the indexes have become %v", became)
	}
	l.says(c, fmt.Sprint(rows), "SELECT COUNT(*) FROM t FORCE INDEX (later) WHERE pad >= '' AND more = 5")
	l.says(c, "test.t|check|status|OK", "CHECK TABLE t")
	l.fails(c, 1054, "SELECT u FROM t")
}

// TestABuildWhoseRowsAreJudged is dropped by the next leader, because the statement alone knows by what they are: its client is told that it had no effect.
func TestABuildWhoseRowsAreJudged(t *testing.T) {
	t.Parallel()
	const rows = 2000
	l := newLarge(t, rows)
	goOn, done := l.heldBehind(12, "ALTER TABLE t ADD INDEX later (pad, k), ADD CONSTRAINT low CHECK (k < 9)")
	l.OnPropose(func(parts []entry.Part) (*entry.Result, error) { return nil, node.ErrSuperseded })
	l.Lead(6)
	l.OnPropose(l.propose)
	goOn()
	if err := <-done; number(err) != 1213 {
		t.Errorf("a build whose term has ended: %v", err)
	}
	wait.Until(t, "the next term begins", func() bool { return l.d.worker.Term() == 6 })
	if became := l.clean(); len(became) != 1 || became["test.t"] == nil {
		t.Errorf("the index has become %v", became)
	}
	c := l.connect("test")
	l.says(c, fmt.Sprint(rows), "SELECT COUNT(*) FROM t")
	l.fails(c, 3819, "ALTER TABLE t ADD INDEX later (pad, k), ADD CONSTRAINT low CHECK (k < 9)")
	l.exec(c, "CREATE INDEX later ON t (pad, k)")
	l.says(c, "test.t|check|status|OK", "CHECK TABLE t")
}

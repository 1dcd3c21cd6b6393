package sql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// clean has the leader go on with what is half built. It returns what became of each table's indexes.
func (r *rig) clean() map[string]error {
	r.t.Helper()
	became := map[string]error{}
	if err := r.d.Clean(func(table string, err error) { became[table] = err }); err != nil {
		r.t.Error(err)
	}
	return became
}

// deposed has a build that stands still, ends the term, and begins the next one. The statement's client is told that the build goes on.
func (l *large) deposed(term uint64, text string) {
	l.t.Helper()
	goOn, done := l.heldBehind(12, text) // more than one piece has rows
	l.OnPropose(func(parts []entry.Part) (*entry.Result, error) { return nil, node.ErrSuperseded })
	l.Lead(term)
	l.OnPropose(l.propose)
	goOn()
	if err := <-done; number(err) != 1317 || !strings.Contains(err.Error(), "the next one goes on") {
		l.t.Errorf("a build whose term has ended: %v", err)
	}
	wait.Until(l.t, "the next term begins", func() bool { return l.d.worker.Term() == term })
}

// TestABuildWhoseTermEnds leaves an index that nobody reads. Each writer keeps it, and the next leader goes on with it from the piece behind the last one. What
// the statement said beside that takes effect with it.
func TestABuildWhoseTermEnds(t *testing.T) {
	t.Parallel()
	const rows = 2000
	l := newLarge(t, rows)
	l.deposed(6, "ALTER TABLE t ADD INDEX later (pad, k), DROP INDEX by_k, RENAME COLUMN u TO v, ADD UNIQUE INDEX pads (pad, id)")
	c := l.connect("test")
	l.exec(c, "UPDATE t SET k = k + 1 WHERE id % 7 = 0")
	l.exec(c, "DELETE FROM t WHERE id IN (3, 1999)")
	l.says(c, "test.t|check|status|OK", "CHECK TABLE t")
	pieces, again, shown := 0, 0, make(chan string, 1)
	l.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		if onlyNotes(parts) {
			again++
		}
		if isPiece(parts) {
			if pieces++; pieces == 2 {
				got, err := query(c, "SHOW PROCESSLIST")
				shown <- fmt.Sprint(got, err)
			}
		}
		return l.propose(parts)
	})
	if became := l.clean(); len(became) != 1 || became["test.t"] != nil {
		t.Errorf("the indexes have become %v", became)
	}
	if got := <-shown; !strings.Contains(got, "4294967295|system user||test|Query|") || !strings.Contains(got, "|building index later: ") || !strings.Contains(got, "ALTER TABLE `t`") {
		t.Errorf("the processlist: %s", got)
	}
	if again != 0 {
		t.Errorf("%d pieces were of rows that have their entries", again)
	}
	for _, index := range []string{"later", "pads"} {
		l.says(c, fmt.Sprint(rows-2), fmt.Sprintf("SELECT COUNT(*) FROM t FORCE INDEX (%s) WHERE pad >= ''", index))
	}
	l.says(c, "5", "SELECT id FROM t WHERE v = 'u5'")
	l.fails(c, 1176, "SELECT COUNT(*) FROM t FORCE INDEX (by_k)")
	l.says(c, "test.t|check|status|OK", "CHECK TABLE t")
	if became := l.clean(); len(became) != 0 {
		t.Errorf("the next leader finds %v", became)
	}
}

// onlyNotes reports whether a command has the note of a piece, and no entry.
func onlyNotes(parts []entry.Part) bool {
	var p sqlpart.Part
	if err := p.Decode(parts[0].Body); err != nil || p.Kind != sqlpart.Commit || len(p.Tables) != 1 {
		return false
	}
	op, rest, err := sqlpart.NextOp(p.Tables[0].Ops)
	return err == nil && len(rest) == 0 && op.Index == sqlpart.NotesIndex && op.Action == sqlpart.Update && string(op.Key) == string(txn.PlaceNote)
}

// TestABuildGoesOnOverTwoTerms: the second leader is deposed at its second piece as the first one was, and the third one ends the build.
func TestABuildGoesOnOverTwoTerms(t *testing.T) {
	t.Parallel()
	const rows = 2000
	l := newLarge(t, rows)
	l.deposed(6, "ALTER TABLE t ADD INDEX later (pad, k), RENAME TO u")
	pieces := 0
	l.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		if isPiece(parts) {
			if pieces++; pieces > 12 {
				return nil, node.ErrSuperseded
			}
		}
		return l.propose(parts)
	})
	if err := l.d.Clean(func(table string, err error) { t.Errorf("%s: %v", table, err) }); err == nil {
		t.Error("a leader that was deposed has ended the build")
	}
	again := 0
	l.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		if onlyNotes(parts) {
			again++
		}
		return l.propose(parts)
	})
	if became := l.clean(); len(became) != 1 || became["test.t"] != nil || again != 0 {
		t.Errorf("the index has become %v, and %d pieces were of rows that have their entries", became, again)
	}
	c := l.connect("test")
	l.says(c, "test.u|check|status|OK", "CHECK TABLE u")
	l.says(c, fmt.Sprint(rows), "SELECT COUNT(*) FROM u FORCE INDEX (later) WHERE pad >= ''")
	l.exec(c, "CREATE INDEX others ON u (pad, u)") // its notes are its own
	l.exec(c, "RENAME TABLE u TO t")
	l.says(c, "test.t|check|status|OK", "CHECK TABLE t")
}

// TestABuildThatCannotGoOn: what ends a build under the next leader leaves no index, and its name is free.
func TestABuildThatCannotGoOn(t *testing.T) {
	t.Parallel()
	const rows = 2000
	for name, tc := range map[string]struct {
		between string // by a client, before the leader goes on
		kill    bool
		want    string // in the reason
	}{
		"two rows of one key":  {between: "INSERT INTO t (id, k, pad) VALUES (9000, 1, 'some bytes that every row has1999')", want: "1062"},
		"KILL":                 {kill: true, want: "interrupted"},
		"an altered table":     {between: "RENAME TABLE t TO other, other TO t", want: "nothing is known"},
		"a table without rows": {between: "TRUNCATE TABLE t", want: "nothing is known"},
	} { // any order: each by itself
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLarge(t, rows)
			l.exec(l.c, "UPDATE t SET pad = CONCAT(pad, id)")
			l.deposed(6, "CREATE UNIQUE INDEX pads ON t (pad)")
			c := l.connect("test")
			if tc.between != "" {
				l.exec(c, tc.between)
			}
			pieces := 0
			l.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
				if isPiece(parts) {
					if pieces++; tc.kill && pieces == 2 {
						l.exec(c, "KILL 4294967295")
					}
				}
				return l.propose(parts)
			})
			if became := l.clean(); len(became) != 1 || became["test.t"] == nil || !strings.Contains(fmt.Sprint(became["test.t"]), tc.want) {
				t.Errorf("the index has become %v", became)
			}
			if n := len(l.m.Catalogue().Database("test").Table("t").Indexes); n != 2 {
				t.Errorf("the table has %d indexes", n)
			}
			l.exec(c, "CREATE INDEX pads ON t (pad)")
			l.says(c, "test.t|check|status|OK", "CHECK TABLE t")
		})
	}
}

// TestAStatementGoesOnWithABuild that it finds: one that defines, and comes before the leader does.
func TestAStatementGoesOnWithABuild(t *testing.T) {
	t.Parallel()
	const rows = 2000
	l := newLarge(t, rows)
	l.deposed(6, "CREATE INDEX later ON t (pad, k)")
	c := l.connect("test")
	l.fails(c, 1061, "CREATE INDEX later ON t (pad, k)")
	l.says(c, fmt.Sprint(rows), "SELECT COUNT(*) FROM t FORCE INDEX (later) WHERE pad >= ''")
	l.says(c, "test.t|check|status|OK", "CHECK TABLE t")
	if became := l.clean(); len(became) != 0 {
		t.Errorf("the leader finds %v", became)
	}
}

package sql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestAnIndexIsBuiltBesideWriters: while indexes are built, statements that insert, change and delete rows go on, and in the end each index has an entry for
// each row. The processlist says how far a build is.
func TestAnIndexIsBuiltBesideWriters(t *testing.T) {
	t.Parallel()
	const rows = 3000
	l := newLarge(t, rows)
	var written atomic.Int64
	over := make(chan struct{})
	var wg sync.WaitGroup
	for n := range 3 {
		c := l.connect("test")
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 36))
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				id := 1 + r.IntN(rows)
				text := []string{
					fmt.Sprintf("UPDATE t SET k = k + 1, u = 'w%d-%d' WHERE id = %d", n, i, id),
					fmt.Sprintf("DELETE FROM t WHERE id = %d", id),
					fmt.Sprintf("REPLACE INTO t VALUES (%d, %d, 'w%d-%d', 'anew')", id, i%10, n, i),
					fmt.Sprintf("INSERT INTO t (k, u) VALUES (%d, 'w%d-%d')", i%10, n, i),
				}[r.IntN(4)]
				if _, err := c.ExecContext(context.Background(), text); err != nil {
					t.Errorf("%s: %v", text, err)
					return
				}
				written.Add(1)
			}
		})
	}
	// Now and then a piece of a build is held up until writers have come between.
	var pieces, until atomic.Int64
	l.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		if isPiece(parts) {
			if n := until.Load(); n == 0 && pieces.Add(1)%3 == 2 {
				until.Store(written.Load() + 10)
			}
			if written.Load() < until.Load() && !t.Failed() {
				return nil, node.ErrOverloaded
			}
			until.Store(0)
		}
		return l.propose(parts)
	})
	for i, text := range []string{"CREATE INDEX later ON t (k, u)", "ALTER TABLE t ADD UNIQUE once (u, id), DROP INDEX by_k, ADD INDEX by_pad (pad)", "CREATE INDEX by_k ON t (k)"} {
		l.exec(l.c, text)
		if i == 0 && pieces.Load() < 3 {
			t.Errorf("the index was built in %d pieces", pieces.Load())
		}
	}
	close(over)
	wg.Wait()
	l.says(l.c, "test.t|check|status|OK", "CHECK TABLE t")
	var n int
	if err := l.c.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM t").Scan(&n); err != nil {
		t.Error(err)
	}
	for _, index := range []string{"later", "once", "by_pad", "by_k"} {
		l.says(l.c, fmt.Sprint(n), fmt.Sprintf("SELECT COUNT(*) FROM t FORCE INDEX (%s)", index))
	}
}

// held runs a statement whose build stands still at its second piece until go on is called.
func (l *large) held(text string) (goOn func(), done <-chan error) { return l.heldBehind(1, text) }

// heldBehind runs one whose build stands still behind some pieces.
func (l *large) heldBehind(most int64, text string) (goOn func(), done <-chan error) {
	l.t.Helper()
	var pieces atomic.Int64
	var goes atomic.Bool
	l.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		if isPiece(parts) && !goes.Load() && pieces.Add(1) > most {
			return nil, node.ErrOverloaded
		}
		return l.propose(parts)
	})
	ended := make(chan error, 1)
	go func() {
		_, err := l.c.ExecContext(context.Background(), text)
		ended <- err
	}()
	wait.Until(l.t, "the build stands still", func() bool { return pieces.Load() > most })
	return func() { goes.Store(true) }, ended
}

// isPiece reports whether a command has the entries of a build: no other statement of these tests writes as many.
func isPiece(parts []entry.Part) bool {
	var p sqlpart.Part
	err := p.Decode(parts[0].Body)
	return err == nil && p.Kind == sqlpart.Commit && len(p.Tables) == 1 && len(p.Tables[0].Ops) > 1000
}

// TestWhatABuildMeets: while an index is built others see no index, see in the processlist how far it is, and keep to a unique index that is not there yet;
// another definition waits. KILL ends the build, and nothing of it is left.
func TestWhatABuildMeets(t *testing.T) {
	t.Parallel()
	const rows = 2000
	l := newLarge(t, rows)
	other := l.connect("test")
	goOn, done := l.held("CREATE UNIQUE INDEX pads ON t (pad, id)")
	defer goOn()
	if got, err := query(other, "SHOW PROCESSLIST"); err != nil || !strings.Contains(got, "|building index pads: ") || !strings.Contains(got, " of about 2000 rows|") {
		t.Errorf("the processlist: %s %v", got, err)
	}
	for _, text := range []string{"SHOW INDEX FROM t", "SHOW CREATE TABLE t"} {
		if got, err := query(other, text); err != nil || strings.Contains(got, "pads") {
			t.Errorf("%s shows an index that is built: %s %v", text, got, err)
		}
	}
	l.exec(other, "UPDATE t SET k = 5 WHERE id = 1999")
	l.exec(other, "DELETE FROM t WHERE id = 1998")
	l.exec(other, "SET lock_wait_timeout = 1")
	l.fails(other, 1205, "ALTER TABLE t RENAME COLUMN k TO kk")
	l.fails(other, 1205, "DROP TABLE t")
	goOn()
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.says(other, "1999", "SELECT COUNT(*) FROM t FORCE INDEX (pads)")
	l.sound(rows - 1)

	goOn, done = l.held("CREATE INDEX ended ON t (pad, k)")
	defer goOn()
	var id int
	if err := other.QueryRowContext(context.Background(), "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'CREATE INDEX ended%'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	l.exec(other, fmt.Sprintf("KILL QUERY %d", id))
	goOn()
	if err := <-done; number(err) != 1317 {
		t.Errorf("a build that was killed: %v", err)
	}
	l.OnPropose(l.propose)
	l.exec(l.c, "CREATE INDEX ended ON t (pad, k)")
	l.sound(rows - 1)
}

// TestABuildMeetsTwoRowsOfOneKey: rows that are there, and one that comes meanwhile.
func TestABuildMeetsTwoRowsOfOneKey(t *testing.T) {
	t.Parallel()
	const rows = 2000
	l := newLarge(t, rows)
	other := l.connect("test")
	l.exec(l.c, "UPDATE t SET k = id")
	goOn, done := l.held("CREATE UNIQUE INDEX ids ON t (k)")
	defer goOn()
	l.fails(other, 1062, "INSERT INTO t (k) VALUES (1)")       // of a row that has its entry
	l.exec(other, "INSERT INTO t (id, k) VALUES (9000, 1900)") // of one that has not
	l.exec(other, "INSERT INTO t (id, k) VALUES (9001, 1800)")
	l.exec(other, "DELETE FROM t WHERE id = 1800") // whose entry is that of 9001
	l.fails(other, 1062, "INSERT INTO t (k) VALUES (1800)")
	goOn()
	if err := <-done; number(err) != 1062 || !strings.Contains(err.Error(), "'1900' for key 't.ids'") {
		t.Errorf("a build over two rows with one key: %v", err)
	}
	l.exec(other, "DELETE FROM t WHERE id = 1900")
	l.sound(rows)
	l.OnPropose(l.propose)
	l.exec(l.c, "CREATE UNIQUE INDEX ids ON t (k)")
	l.sound(rows)
}

package sql

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// large has a rig whose transactions are staged from 8 KiB on, and a table of so many rows.
type large struct {
	*rig
	rows int
	c    *sql.Conn
}

func newLarge(t *testing.T, rows int) *large {
	l := &large{rows: rows, rig: newRig(t, func(o *txn.Options) { o.StageBytes, o.PieceBytes, o.MostBytes = 8<<10, 2<<10, 1<<20 })}
	l.c = l.connect("test")
	l.exec(l.c, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, k INT, u VARCHAR(20), pad CHAR(60), KEY by_k (k), UNIQUE KEY one (u))")
	l.fill(1, rows)
	return l
}

// fill inserts rows by one statement.
func (l *large) fill(from, to int) {
	l.t.Helper()
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf("(%d, %d, 'u%d', 'some bytes that every row has')", i, i%10, i))
	}
	l.exec(l.c, "INSERT INTO t VALUES "+strings.Join(all, ", "))
}

// says runs a query and compares its answer.
func (r *rig) says(c *sql.Conn, want, text string) {
	r.t.Helper()
	if got, err := query(c, text); err != nil || strings.TrimSpace(got) != want {
		r.t.Errorf("%s: %q %v, want %q", text, got, err, want)
	}
}

// fails runs a statement and compares the number of its error.
func (l *large) fails(c *sql.Conn, want uint16, text string) string {
	l.t.Helper()
	_, err := query(c, text)
	if number(err) != want {
		l.t.Errorf("%s: %v, want %d", text, err, want)
	}
	return fmt.Sprint(err)
}

func (l *large) sound(rows int) {
	l.t.Helper()
	l.says(l.c, fmt.Sprint(rows), "SELECT COUNT(*) FROM t FORCE INDEX (by_k) WHERE k >= 0")
	l.says(l.c, "test.t|check|status|OK", "CHECK TABLE t")
	if all := l.m.Staged().All; len(all) != 0 {
		l.t.Errorf("%d transactions are staged", len(all))
	}
	if n := l.m.Catalogue().Database("test").Table("t").Rows(); n != uint64(rows) {
		l.t.Errorf("the table counts %d rows of %d", n, rows)
	}
}

// TestLargeTransactions: an UPDATE, a DELETE and an INSERT of a whole table are staged, seen by their session alone until they commit, and locked row by row.
func TestLargeTransactions(t *testing.T) {
	t.Parallel()
	const rows = 600
	l := newLarge(t, rows)
	other := l.connect("test")
	l.exec(other, "SET innodb_lock_wait_timeout = 1")
	l.sound(rows)
	l.exec(l.c, "BEGIN")
	if n, err := l.exec(l.c, "UPDATE t SET k = k + 100, u = CONCAT('x', id) WHERE id > 10").RowsAffected(); n != rows-10 || err != nil {
		t.Errorf("%d rows were changed, %v", n, err)
	}
	if len(l.m.Staged().All) != 1 {
		t.Fatal("nothing is staged")
	}
	l.says(l.c, fmt.Sprint(rows-10), "SELECT COUNT(*) FROM t WHERE k >= 100")
	l.says(l.c, "300", "SELECT id FROM t WHERE u = 'x300'")
	l.says(l.c, "", "SELECT id FROM t WHERE u = 'u300'")
	l.says(l.c, "600|110|x600", "SELECT id, k + 10, u FROM t ORDER BY id DESC LIMIT 1")
	l.says(other, "0", "SELECT COUNT(*) FROM t WHERE k >= 100")
	l.says(other, "300", "SELECT id FROM t WHERE u = 'u300'")
	l.fails(other, 3572, "SELECT * FROM t WHERE id = 300 FOR UPDATE NOWAIT")
	l.fails(other, 1205, "SELECT * FROM t WHERE id = 300 LOCK IN SHARE MODE")
	l.fails(other, 1205, "UPDATE t SET k = 5 WHERE id = 300")
	l.fails(other, 1205, "INSERT INTO t (u) VALUES ('x300')")
	l.says(other, "1\n2\n3", "SELECT id FROM t WHERE id < 400 ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED")
	l.exec(other, "UPDATE t SET k = 7 WHERE id = 1")
	l.exec(other, "INSERT INTO t (k, u) VALUES (3, 'another')")
	l.exec(l.c, "COMMIT")
	l.says(other, fmt.Sprint(rows-10), "SELECT COUNT(*) FROM t WHERE k >= 100")
	l.says(other, "300|100", "SELECT id, k FROM t WHERE u = 'x300' FOR UPDATE")
	l.sound(rows + 1)

	l.exec(l.c, "INSERT INTO t (k, u, pad) SELECT k, CONCAT('copy', id), pad FROM t")
	l.sound(2*rows + 2)
	l.says(l.c, "1", "SELECT COUNT(*) FROM t WHERE u = 'copy17'")
	l.exec(l.c, "BEGIN")
	l.exec(l.c, "DELETE FROM t WHERE id > 20")
	l.says(l.c, "20", "SELECT COUNT(*) FROM t")
	l.exec(l.c, "INSERT INTO t VALUES (30, 3, 'back', '')")
	l.exec(l.c, "DELETE FROM t WHERE id = 30")
	l.exec(l.c, "ROLLBACK")
	l.sound(2*rows + 2)
	l.exec(l.c, "DELETE FROM t WHERE id > 20")
	l.sound(20)
	l.exec(l.c, "BEGIN")
	l.fill(21, 400)
	l.exec(l.c, "DELETE FROM t WHERE id > 100")
	l.fill(101, 120)
	l.exec(l.c, "COMMIT")
	l.sound(120)
}

// TestALargeStatementThatFails: nothing of it is left, and a transaction around it goes on as if there had been no such statement.
func TestALargeStatementThatFails(t *testing.T) {
	t.Parallel()
	const rows = 600
	l := newLarge(t, rows)
	l.fails(l.c, 1062, "UPDATE t SET u = IF(id < 600, CONCAT('x', id), 'x17') ORDER BY id")
	l.sound(rows)
	l.says(l.c, "0", "SELECT COUNT(*) FROM t WHERE u LIKE 'x%'")
	other := l.connect("test")
	l.exec(other, "SET innodb_lock_wait_timeout = 1")
	l.exec(l.c, "BEGIN")
	l.exec(l.c, "UPDATE t SET k = 77 WHERE id = 1")
	l.fails(l.c, 1062, "UPDATE t SET u = 'u5' WHERE id = 4") // a small one
	l.says(l.c, "77", "SELECT k FROM t WHERE id = 1")
	l.fails(l.c, 1062, "UPDATE t SET u = IF(id < 600, CONCAT('x', id), 'x17') ORDER BY id")
	if len(l.m.Staged().All) != 1 {
		t.Error("nothing is staged")
	}
	l.says(l.c, "77", "SELECT k FROM t WHERE id = 1")
	l.says(l.c, "0", "SELECT COUNT(*) FROM t WHERE u LIKE 'x%'")
	l.says(l.c, "5", "SELECT id FROM t WHERE u = 'u5'")
	l.fails(other, 1205, "UPDATE t SET k = 79 WHERE id = 300") // the locks stay, as MySQL's do
	l.exec(l.c, "UPDATE t SET pad = 'kept' WHERE id <= 300")   // goes to the log
	l.fails(l.c, 1062, "INSERT INTO t (k, u, pad) SELECT k, IF(id < 590, CONCAT('y', id), 'u3'), pad FROM t ORDER BY id")
	l.fails(l.c, 1062, "INSERT INTO t (k, u, pad) SELECT k, IF(id < 590, CONCAT('y', id), 'u3'), pad FROM t ORDER BY id")
	l.exec(l.c, "INSERT INTO t (id, k, u, pad) VALUES (5000, 1, 'y17', '')") // the place is free again
	l.says(l.c, "300", "SELECT COUNT(*) FROM t WHERE pad = 'kept'")
	l.exec(l.c, "COMMIT")
	l.sound(rows + 1)
	l.says(other, "77", "SELECT k FROM t WHERE id = 1")
	l.says(other, "0", "SELECT COUNT(*) FROM t WHERE u LIKE 'x%' OR u LIKE 'y%' AND id <> 5000")
	l.exec(l.c, "DELETE FROM t WHERE id = 5000")
	l.exec(l.c, "CREATE TABLE s (id INT PRIMARY KEY, k INT)")
	l.exec(l.c, "INSERT INTO s SELECT id, k FROM t")
	l.exec(l.c, "BEGIN")
	l.exec(l.c, "UPDATE t SET k = 78 WHERE id = 2")
	l.fails(l.c, 1197, "INSERT INTO t (k, u, pad) SELECT a.k, CONCAT(a.id, '-', b.id), REPEAT('x', 60) FROM s a JOIN s b")
	l.exec(l.c, "COMMIT")
	l.says(other, "78", "SELECT k FROM t WHERE id = 2")
	l.fails(l.c, 1197, "INSERT INTO t (k, u, pad) SELECT a.k, CONCAT(a.id, '-', b.id), REPEAT('x', 60) FROM s a JOIN s b")
	l.sound(rows)

	l.exec(l.c, "SET autocommit = 0")
	l.fails(l.c, 1062, "UPDATE t SET u = IF(id < 600, CONCAT('x', id), 'x17') ORDER BY id") // the first of a transaction
	l.exec(l.c, "UPDATE t SET k = 80 WHERE id = 2")
	l.exec(l.c, "COMMIT")
	l.sound(rows)
	l.says(other, "80", "SELECT k FROM t WHERE id = 2")

	l.exec(l.c, "SET autocommit = 1")
	l.exec(l.c, "XA START 'failed'")
	l.exec(l.c, "UPDATE t SET k = 81 WHERE id = 2")
	l.fails(l.c, 1062, "UPDATE t SET u = IF(id < 600, CONCAT('x', id), 'x17') ORDER BY id")
	l.exec(l.c, "XA END 'failed'")
	l.exec(l.c, "XA PREPARE 'failed'")
	l.exec(other, "XA COMMIT 'failed'")
	l.sound(rows)
	l.says(other, "81", "SELECT k FROM t WHERE id = 2")
	l.says(other, "0", "SELECT COUNT(*) FROM t WHERE u LIKE 'x%'")
}

// TestAnIndexOverLargeTransactions: an index is built over what large transactions have written, and they write its entries.
func TestAnIndexOverLargeTransactions(t *testing.T) {
	t.Parallel()
	const rows = 600
	l := newLarge(t, rows)
	l.exec(l.c, "UPDATE t SET pad = CONCAT('pad', id)")
	l.exec(l.c, "CREATE INDEX by_pad ON t (pad)")
	l.exec(l.c, "UPDATE t SET pad = CONCAT('other', id)")
	l.says(l.c, "55", "SELECT id FROM t FORCE INDEX (by_pad) WHERE pad = 'other55'")
	l.sound(rows)
	l.exec(l.c, "DROP INDEX by_pad ON t")
	l.exec(l.c, "TRUNCATE t")
	l.sound(0)
}

// TestLargeTransactionsBesideRanges: a SERIALIZABLE read, an UPDATE of a range, LOCK TABLES and FLUSH TABLES WITH READ LOCK wait for what is staged, and what
// is staged waits for them.
func TestLargeTransactionsBesideRanges(t *testing.T) {
	t.Parallel()
	const rows = 600
	l := newLarge(t, rows)
	other := l.connect("test")
	l.exec(other, "SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, transaction_isolation = 'SERIALIZABLE'")
	l.exec(l.c, "BEGIN")
	l.exec(l.c, "UPDATE t SET k = k + 100 WHERE id > 300")
	if len(l.m.Staged().All) != 1 {
		t.Fatal("nothing is staged")
	}
	l.exec(other, "BEGIN")
	l.says(other, "300", "SELECT COUNT(*) FROM t WHERE id BETWEEN 1 AND 300")
	l.fails(other, 1205, "SELECT COUNT(*) FROM t WHERE id BETWEEN 200 AND 400")
	l.fails(other, 1205, "UPDATE t SET pad = 'theirs' WHERE id BETWEEN 300 AND 301")
	l.exec(other, "COMMIT")
	l.fails(other, 1205, "LOCK TABLES t READ")
	l.exec(other, "BEGIN")
	l.says(other, "10", "SELECT COUNT(*) FROM t WHERE id BETWEEN 1 AND 10")
	l.exec(l.c, "SET innodb_lock_wait_timeout = 1")
	l.fails(l.c, 1205, "UPDATE t SET k = 1 WHERE id = 10")
	l.exec(other, "COMMIT")
	l.exec(l.c, "COMMIT")
	l.exec(other, "BEGIN")
	l.says(other, "300", "SELECT COUNT(*) FROM t WHERE id > 200 AND k >= 100")
	l.exec(other, "COMMIT")

	l.exec(l.c, "BEGIN")
	l.exec(l.c, "UPDATE t SET k = k + 100")
	l.exec(other, "FLUSH TABLES WITH READ LOCK")
	l.exec(l.c, "SET lock_wait_timeout = 1")
	l.fails(l.c, 1205, "COMMIT")
	l.exec(other, "UNLOCK TABLES")
	l.exec(l.c, "COMMIT")
	l.sound(rows)

	l.exec(l.c, "LOCK TABLES t WRITE")
	l.exec(l.c, "UPDATE t SET k = k + 100")
	l.exec(l.c, "UNLOCK TABLES")
	l.sound(rows)
}

// TestSavepointsOfLargeTransactions: a transaction goes back to a savepoint, whatever of it is in the log.
func TestSavepointsOfLargeTransactions(t *testing.T) {
	t.Parallel()
	const rows = 600
	l := newLarge(t, rows)
	l.exec(l.c, "BEGIN")
	l.exec(l.c, "UPDATE t SET pad = 'x'")
	l.exec(l.c, "SAVEPOINT behind")
	l.exec(l.c, "UPDATE t SET pad = 'y' WHERE id = 5")
	l.exec(l.c, "ROLLBACK TO behind")
	l.says(l.c, "x", "SELECT pad FROM t WHERE id = 5")
	l.exec(l.c, "COMMIT")
	l.exec(l.c, "BEGIN")
	l.exec(l.c, "UPDATE t SET pad = 'y' WHERE id = 5")
	l.exec(l.c, "SAVEPOINT first")
	l.exec(l.c, "UPDATE t SET pad = 'z'")
	l.exec(l.c, "SAVEPOINT second")
	l.exec(l.c, "DELETE FROM t WHERE id > 300")
	l.exec(l.c, "SAVEPOINT third")
	l.exec(l.c, "UPDATE t SET k = k + 100")
	for range 2 {
		l.exec(l.c, "ROLLBACK TO third")
		l.says(l.c, "300", "SELECT COUNT(*) FROM t WHERE k < 100")
		l.exec(l.c, "UPDATE t SET k = k + 100")
	}
	l.exec(l.c, "ROLLBACK TO second")
	l.says(l.c, fmt.Sprint(rows), "SELECT COUNT(*) FROM t WHERE pad = 'z' AND k < 100")
	l.fails(l.c, 1305, "ROLLBACK TO third")
	l.exec(l.c, "DELETE FROM t WHERE id > 10")
	l.fill(11, 400)
	l.exec(l.c, "RELEASE SAVEPOINT second")
	l.exec(l.c, "ROLLBACK TO first")
	l.says(l.c, fmt.Sprint(rows-1), "SELECT COUNT(*) FROM t WHERE pad = 'x'")
	l.says(l.c, "y", "SELECT pad FROM t WHERE id = 5")
	l.exec(l.c, "COMMIT")
	l.sound(rows)
	l.says(l.connect("test"), fmt.Sprint(rows-1), "SELECT COUNT(*) FROM t WHERE pad = 'x'")
	l.says(l.connect("test"), "y", "SELECT pad FROM t WHERE id = 5")
}

package sql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// TestExecutorObeysAsThePlannerDoes: sessions that lock tables, have a right or not, read at a level, stage a large transaction or meet a changed definition get
// the same answers from the executor as from the planner, byte by byte. Which statements the executor runs is counted.
func TestExecutorObeysAsThePlannerDoes(t *testing.T) {
	t.Parallel()
	small := func(o *txn.Options) { o.StageBytes, o.PieceBytes = 64<<10, 16<<10 }
	own, plain := newRig(t, small), newRig(t, small)
	of := func(r *rig, planner bool) served {
		return r.another(func(o *Options) { o.NoPlans, o.NoExecutor, o.MaxKept = true, planner, 64<<10 })
	}
	direct, planned := of(own, false), of(plain, true)
	pairs := map[string]*pair{}
	run := func(who, text string) []byte {
		t.Helper()
		p := pairs[who]
		if p == nil {
			user := "root"
			if who == "guest" {
				user = "guest"
			}
			p = &pair{t: t, prepared: map[string]uint32{}, sides: [2]*packets{dialAs(t, direct.addr, user, 0), dialAs(t, planned.addr, user, 0)}}
			pairs[who] = p
			if who != "guest" {
				p.text("USE test")
			}
		}
		p.text(text)
		return p.last
	}
	long := strings.Repeat("x", 1000)
	var rows []string
	for i := 100; i < 400; i++ {
		rows = append(rows, fmt.Sprintf("(%d, %d, '%s')", i, i%7, long))
	}
	script := `
a: CREATE TABLE t (id INT PRIMARY KEY, k INT, c VARCHAR(1000), UNIQUE KEY (k))
a: CREATE TABLE u (id INT PRIMARY KEY, k INT, c VARCHAR(1000))
a: INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')
a: CREATE USER guest
# a right that is missing
guest: SELECT c FROM test.t WHERE id = 1
guest: UPDATE test.t SET k = 9 WHERE id = 1
guest: INSERT INTO test.t (id) VALUES (9)
guest: DELETE FROM test.t WHERE id = 1
a: GRANT ALL ON test.* TO guest
guest: SELECT c FROM test.t WHERE id = 1
a: REVOKE ALL ON test.* FROM guest
guest: SELECT c FROM test.t WHERE id = 1
# locked tables
a: LOCK TABLES t READ
a: SELECT c FROM t WHERE id = 1
a: SELECT c FROM u WHERE id = 1
a: UPDATE t SET k = 5 WHERE id = 1
a: INSERT INTO u VALUES (1, 1, 'x')
a: UNLOCK TABLES
a: LOCK TABLES t WRITE
a: UPDATE t SET k = 5 WHERE id = 1
a: SELECT k FROM t WHERE id BETWEEN 1 AND 2
a: UNLOCK TABLES
# transactions that only read
a: START TRANSACTION READ ONLY
a: SELECT k FROM t WHERE id = 1
a: UPDATE t SET k = 6 WHERE id = 1
a: INSERT INTO t VALUES (8, 8, 'x')
a: DELETE FROM t WHERE id = 1
a: COMMIT
a: SET SESSION TRANSACTION READ ONLY
a: DELETE FROM t WHERE id = 1
a: SET SESSION TRANSACTION READ WRITE
# snapshots
a: BEGIN
a: SELECT k FROM t WHERE id = 2
b: UPDATE t SET k = 20 WHERE id = 2
a: SELECT k FROM t WHERE id = 2
a: SELECT SUM(k) FROM t WHERE id BETWEEN 1 AND 3
a: UPDATE t SET k = k + 1 WHERE id = 2
a: SELECT k FROM t WHERE id = 2
b: SELECT k FROM t WHERE id = 2
a: ROLLBACK
a: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
a: BEGIN
a: SELECT k FROM t WHERE id = 2
b: UPDATE t SET k = 21 WHERE id = 2
a: SELECT k FROM t WHERE id = 2
a: COMMIT
a: SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE
b: SET innodb_lock_wait_timeout = 1
a: BEGIN
a: SELECT k FROM t WHERE id = 2
b: UPDATE t SET k = 22 WHERE id = 2
a: COMMIT
b: UPDATE t SET k = 22 WHERE id = 2
a: SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ
# locks
a: BEGIN
a: UPDATE t SET k = 30 WHERE id = 3
b: UPDATE t SET k = 31 WHERE id = 3
b: INSERT INTO t VALUES (30, 30, 'same k')
b: SELECT k FROM t WHERE id = 3
a: ROLLBACK
a: INSERT INTO t VALUES (31, 22, 'same k')
a: INSERT INTO t VALUES (32, 32, 'fresh'), (3, 33, 'same id')
a: SELECT id FROM t WHERE id = 32
# definitions
a: BEGIN
a: SELECT k FROM u WHERE id = 1
b: ALTER TABLE t ADD COLUMN more INT DEFAULT 4
a: SELECT k FROM t WHERE id = 1
a: UPDATE t SET k = 77 WHERE id = 1
a: COMMIT
a: SELECT * FROM t WHERE id = 1
a: INSERT INTO t (id, k) VALUES (40, 40)
a: SELECT * FROM t WHERE id >= 40
b: ALTER TABLE t DROP COLUMN more
a: SELECT * FROM t WHERE id >= 40
# values that do not fit, and rows that others refer to
a: UPDATE t SET c = CONCAT('x', c) WHERE id = 1
a: UPDATE t SET c = '` + long + `y' WHERE id = 1
a: INSERT INTO t VALUES (50, 50, '` + long + `y')
a: UPDATE t SET k = 3000000000 WHERE id = 1
a: CREATE TABLE parent (id INT PRIMARY KEY, k INT)
a: CREATE TABLE child (id INT PRIMARY KEY, k INT, FOREIGN KEY (k) REFERENCES parent (id))
a: INSERT INTO parent VALUES (1, 1), (2, 2)
a: INSERT INTO child VALUES (1, 1), (3, 3)
a: INSERT INTO child VALUES (1, 1)
a: DELETE FROM parent WHERE id = 1
a: UPDATE parent SET k = 7 WHERE id = 1
a: DELETE FROM parent WHERE id = 2
# generated columns
a: CREATE TABLE g (id INT PRIMARY KEY, k INT, d INT GENERATED ALWAYS AS (k * 2) STORED, v INT GENERATED ALWAYS AS (k + 1) VIRTUAL)
a: INSERT INTO g (id, k) VALUES (1, 1), (2, 2)
a: UPDATE g SET k = 5 WHERE id = 1
a: SELECT * FROM g WHERE id = 1
a: SELECT SUM(d), SUM(v) FROM g WHERE id BETWEEN 1 AND 2
a: DELETE FROM g WHERE id = 2
a: SELECT v, d FROM g WHERE id > 0 ORDER BY v
# limits
a: SET max_execution_time = 100000
a: SELECT k FROM t WHERE id = 1
a: SET max_execution_time = 0
# a large transaction, whose rows are staged
a: BEGIN
a: INSERT INTO u (id, k, c) VALUES ` + strings.Join(rows, ", ") + `
a: SELECT k FROM u WHERE id = 200
a: SELECT SUM(k), COUNT(*) FROM u WHERE id BETWEEN 150 AND 250
a: UPDATE u SET k = k + 100 WHERE id = 200
a: DELETE FROM u WHERE id = 201
a: SELECT id, k FROM u WHERE id BETWEEN 198 AND 203
a: SELECT id, k FROM u WHERE id BETWEEN 198 AND 203 ORDER BY k
b: SELECT COUNT(*) FROM u WHERE id > 0
a: COMMIT
b: SELECT COUNT(*) FROM u WHERE id > 0
b: SELECT id, k FROM u WHERE id BETWEEN 198 AND 203 ORDER BY id DESC
# memory
b: SELECT c FROM u WHERE id BETWEEN 100 AND 110 ORDER BY c
b: SELECT COUNT(*) FROM t WHERE id > 0
`
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		if who, text, ok := strings.Cut(line, ": "); ok && line[0] != '#' {
			run(who, text)
		}
	}
	// What is kept to be sorted is bounded by both, each by its own count.
	p := pairs["b"]
	for i, side := range p.sides {
		if answer := side.command(t, append([]byte{3}, "SELECT c FROM u WHERE id > 0 ORDER BY c"...), false); !strings.Contains(string(answer), "Out of memory for a statement") {
			t.Errorf("side %d sorts more than it may: %.80q", i, answer)
		}
	}
	ran := direct.d.engine.Directed()
	if t.Logf("%d statements run by the executor", ran); ran < 30 {
		t.Errorf("the executor has run %d statements", ran)
	}
}

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
	var many, keys []string
	for i := range 200 {
		many, keys = append(many, fmt.Sprintf("(1, %d, %d)", i, i*7%90)), append(keys, fmt.Sprint(i*3%211))
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
# many groups, and many keys
a: CREATE TABLE many (a INT, b INT, n INT, PRIMARY KEY (a, b))
a: INSERT INTO many VALUES ` + strings.Join(many, ", ") + `
a: SELECT n, COUNT(*), SUM(b) FROM many WHERE a = 1 GROUP BY n
a: SELECT b FROM many WHERE a = 1 AND b IN (` + strings.Join(keys, ", ") + `)
a: UPDATE many SET n = n + 1 WHERE a = 1 AND b IN (` + strings.Join(keys, ", ") + `)
a: UPDATE many SET n = n + 2147483630 WHERE a = 1
a: UPDATE many SET n = 7 WHERE a = 1
a: DELETE FROM many WHERE a = 1 AND b IN (` + strings.Join(keys, ", ") + `)
a: SELECT COUNT(*), MIN(b), MAX(b), COUNT(DISTINCT n) FROM many WHERE a = 1
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

// TestExecutorWaitsAsThePlannerDoes: who waits for whom, what a statement sees behind a wait and which rows it has locked is the same by the executor as by the
// planner.
func TestExecutorWaitsAsThePlannerDoes(t *testing.T) {
	t.Parallel()
	script := `
a> CREATE TABLE q (w INT, d INT, o INT, n INT, PRIMARY KEY (w, d, o))
a> CREATE TABLE s (w INT, i INT, n INT, x DECIMAL(8,2), PRIMARY KEY (w, i), KEY n_key (n))
a> INSERT INTO q VALUES (1, 1, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0), (1, 2, 1, 0), (2, 1, 1, 0)
a> INSERT INTO s VALUES (1, 1, 10, 1), (1, 2, 20, 2), (1, 3, 30, 3), (2, 1, 40, 4)
# the oldest of a queue: one that another client has taken is passed once that has committed
a> BEGIN
a> SELECT o FROM q WHERE w = 1 AND d = 1 ORDER BY o LIMIT 1 FOR UPDATE
a> DELETE FROM q WHERE w = 1 AND d = 1 AND o = 1
b> BEGIN
b& SELECT o FROM q WHERE w = 1 AND d = 1 ORDER BY o LIMIT 1 FOR UPDATE
a> COMMIT
b<
a> SELECT o FROM q WHERE w = 1 FOR UPDATE SKIP LOCKED
b> ROLLBACK
b> SELECT o FROM q WHERE w = 1 AND d = 1 ORDER BY o DESC LIMIT 1 FOR UPDATE
# a list of keys
a> BEGIN
a> UPDATE s SET n = n + 1 WHERE w = 1 AND i = 2
b> BEGIN
b& SELECT i, n FROM s WHERE (w, i) IN ((1, 3), (1, 1), (1, 2), (1, 1), (7, 7)) FOR UPDATE
a> COMMIT
b<
a> SELECT w, i FROM s FOR UPDATE SKIP LOCKED
a& INSERT INTO s (w, i) VALUES (7, 7)
b> COMMIT
a<
a> DELETE FROM s WHERE (w, i) IN ((7, 7), (7, 8))
# a range: what came into it behind the row that was waited for is there, and what came before it
a> BEGIN
a> UPDATE q SET n = 1 WHERE w = 1 AND d = 1 AND o = 3
a> INSERT INTO q VALUES (1, 1, 1, 7), (1, 1, 5, 7)
b& SELECT o, n FROM q WHERE w = 1 AND d = 1 FOR UPDATE
a> COMMIT
b<
a> BEGIN
a> DELETE FROM q WHERE w = 1 AND d = 1 AND o = 5
b& SELECT o, n FROM q WHERE w = 1 AND d = 1 AND o > 1 ORDER BY o DESC FOR UPDATE
a> INSERT INTO q VALUES (1, 1, 4, 8), (1, 1, 6, 8)
a> COMMIT
b<
a> BEGIN
a> DELETE FROM q WHERE (w, d, o) IN ((1, 1, 6), (1, 1, 1))
b& UPDATE q SET n = n + 100 WHERE w = 1 AND d = 1
a> INSERT INTO q VALUES (1, 1, 0, 9), (1, 1, 7, 9)
a> COMMIT
b<
b> SELECT * FROM q ORDER BY w, d, o
a> BEGIN
a> UPDATE q SET n = 0 WHERE (w, d, o) IN ((1, 1, 2), (2, 1, 1))
b& DELETE FROM q WHERE (w, d) IN ((1, 1), (2, 1))
a> COMMIT
b<
b> SELECT * FROM q ORDER BY w, d, o
# a snapshot, and the newest rows
a> BEGIN
a> SELECT n FROM s WHERE w = 1 AND i = 1
b> UPDATE s SET n = 11 WHERE w = 1 AND i = 1
a> SELECT n FROM s WHERE w = 1 AND i = 1
a> SELECT n FROM s WHERE w = 1 AND i = 1 FOR UPDATE
a> SELECT n FROM s WHERE w = 1 AND i = 1
a> UPDATE s SET n = n + 1, x = x + 1 WHERE w = 1 AND i = 1
a> SELECT n, x FROM s WHERE w = 1 AND i = 1
a> SELECT i FROM s WHERE w = 1 AND n = 12
a> SELECT SUM(x), COUNT(*) FROM s WHERE w = 1
a> COMMIT
# a key that is not there stays locked, and is given back at READ COMMITTED
a> BEGIN
a> SELECT n FROM s WHERE w = 5 AND i = 5 FOR UPDATE
b& INSERT INTO s (w, i) VALUES (5, 5)
a> COMMIT
b<
a> SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
a> BEGIN
a> SELECT n FROM s WHERE w = 5 AND i = 6 FOR UPDATE
a> UPDATE s SET n = 1 WHERE (w, i) IN ((5, 7), (5, 8))
b& INSERT INTO s (w, i) VALUES (5, 6), (5, 7)
b<
a> SELECT n FROM s WHERE w = 5 AND i = 6 FOR UPDATE
a> COMMIT
a> SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE
a> BEGIN
a> SELECT n FROM s WHERE w = 5 FOR UPDATE
b& INSERT INTO s (w, i) VALUES (5, 9)
a> COMMIT
b<
a> BEGIN
a> UPDATE s SET n = 2 WHERE w = 5
b& INSERT INTO s (w, i) VALUES (5, 10)
a> COMMIT
b<
a> SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ
# a key that another row has
a> BEGIN
a> INSERT INTO s (w, i, n) VALUES (8, 1, 1), (8, 2, 2), (5, 9, 3)
a> SELECT w, i FROM s WHERE w = 8
b& UPDATE s SET n = 5 WHERE w = 5 AND i = 9
a> COMMIT
b<
# transactions that only read
a> START TRANSACTION READ ONLY
a> SELECT n FROM s WHERE w = 1 AND i = 1 FOR UPDATE
a> SELECT n FROM s WHERE w = 1
a> DELETE FROM s WHERE w = 1
a> COMMIT
a> LOCK TABLES s READ
a> SELECT n FROM s WHERE w = 1 AND i = 1 FOR UPDATE
a> SELECT s.n, q.n FROM s, q WHERE s.w = 1 AND i = 1 AND q.w = s.w AND d = 1 AND o = 1
a> UNLOCK TABLES
# a circle
a> BEGIN
a> SELECT n FROM s WHERE w = 1 AND i = 1 FOR UPDATE
b> BEGIN
b> SELECT n FROM s WHERE w = 1 AND i = 2 FOR UPDATE
b> UPDATE s SET n = 77 WHERE w = 1 AND i = 2
a& SELECT n FROM s WHERE w = 1 AND i = 2 FOR UPDATE
b> SELECT n FROM s WHERE (w, i) IN ((1, 1), (1, 2)) FOR UPDATE
a<
b> COMMIT
a> ROLLBACK
a> SELECT * FROM s ORDER BY w, i
a> CHECK TABLE s, q
`
	own, plain := newRig(t), newRig(t)
	planner := plain.another(func(o *Options) { o.NoExecutor = true })
	plain.d, plain.addr = planner.d, planner.addr
	got, want := strings.Split(string(playOn(t, own, []byte(script))), "\n"), strings.Split(string(playOn(t, plain, []byte(script))), "\n")
	for i := range got {
		if i >= len(want) || got[i] != want[i] {
			from := max(0, i-6)
			t.Fatalf("by the executor:\n%s\nby the planner:\n%s", strings.Join(got[from:i+1], "\n"), strings.Join(want[from:min(len(want), i+1)], "\n"))
		}
	}
	t.Logf("%d statements run by the executor", own.d.engine.Directed())
	if n := own.d.engine.Directed(); n < 40 {
		t.Errorf("the executor has run %d statements", n)
	}
}

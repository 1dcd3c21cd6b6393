package sql

import (
	"strings"
	"testing"
)

// TestMemoryOfEachOperator: whatever a statement keeps in memory counts, in each operator that keeps rows. Beside it the same operator over few rows, or over
// rows of which it keeps few, goes on for ever.
func TestMemoryOfEachOperator(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const most = 128 << 10
	c := r.connectTo(r.another(func(o *Options) { o.MaxKept = most }), "test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, k INT, s VARCHAR(200), KEY (k))")
	r.exec(c, "CREATE TABLE u (id INT PRIMARY KEY, k INT, s VARCHAR(200), KEY (k))")
	for _, name := range []string{"t", "u"} {
		for i := range 20 {
			r.exec(c, "INSERT INTO "+name+" SELECT n, 7, CONCAT(n, REPEAT('x', 100)) FROM (WITH RECURSIVE n (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM n WHERE n < ?) SELECT n FROM n) x",
				i*100, i*100+99)
		}
	}
	for _, test := range []struct{ what, much, little string }{
		{"sort", "SELECT s FROM t ORDER BY CONCAT(s, id)", "SELECT s FROM t WHERE id < 20 ORDER BY CONCAT(s, id)"},
		{"sort of long values", "SELECT REPEAT(s, 100) r FROM t WHERE id < 50 ORDER BY r", "SELECT LENGTH(REPEAT(s, 1000)) r FROM t WHERE id < 50 ORDER BY r"},
		{"top", "SELECT s FROM t ORDER BY CONCAT(s, id) LIMIT 1500", "SELECT s FROM t ORDER BY CONCAT(s, id) DESC LIMIT 30"},
		{"hash join", "SELECT /*+ HASH_JOIN(t, u) */ COUNT(*) FROM t JOIN u ON t.s = u.s", "SELECT /*+ HASH_JOIN(t, u) */ COUNT(*) FROM t JOIN (SELECT s FROM u WHERE id < 20) u ON t.s = u.s"},
		{"left hash join", "SELECT COUNT(u.id) FROM t LEFT JOIN u ON t.s = u.s", "SELECT COUNT(u.id) FROM t LEFT JOIN (SELECT * FROM u WHERE id < 20) u ON t.s = u.s"},
		{"merge join", "SELECT /*+ MERGE_JOIN(t, u) */ COUNT(*) FROM t JOIN u ON t.k = u.k WHERE t.id < 3", "SELECT /*+ MERGE_JOIN(t, u) */ COUNT(*) FROM t JOIN u ON t.id = u.id"},
		{"group", "SELECT CONCAT(s, 'x') g, COUNT(*) FROM t GROUP BY g", "SELECT id % 9 g, COUNT(*) FROM t GROUP BY g"},
		{"distinct", "SELECT DISTINCT t.id, t.s, n FROM t, (SELECT 1 n UNION ALL SELECT 2) x", "SELECT DISTINCT id % 9 FROM t"},
		{"union", "SELECT id, s FROM t UNION SELECT id + 9999, s FROM u", "SELECT id % 9 FROM t UNION SELECT id % 8 FROM u"},
		{"union, sorted", "SELECT s FROM t UNION ALL SELECT s FROM u ORDER BY s", "SELECT s FROM t UNION ALL SELECT s FROM u ORDER BY s LIMIT 9"},
		{"intersect", "SELECT id, s FROM t INTERSECT SELECT id, s FROM u", "SELECT id % 9 FROM t INTERSECT SELECT id % 8 FROM u"},
		{"except", "SELECT id FROM t EXCEPT SELECT id + 7 FROM u", "SELECT id FROM t WHERE id < 9 EXCEPT SELECT id % 8 FROM u"},
		{"window", "SELECT id, ROW_NUMBER() OVER (ORDER BY s) FROM t", "SELECT id, ROW_NUMBER() OVER (ORDER BY s) FROM t WHERE id < 20"},
		{"group_concat", "SELECT LENGTH(GROUP_CONCAT(s)) FROM t", "SELECT LENGTH(GROUP_CONCAT(s)) FROM t WHERE id < 20"},
		{"group_concat, distinct", "SELECT LENGTH(GROUP_CONCAT(DISTINCT id)) FROM t", "SELECT LENGTH(GROUP_CONCAT(DISTINCT id % 9)) FROM t"},
		{"json_arrayagg", "SELECT JSON_LENGTH(JSON_ARRAYAGG(s)) FROM t", "SELECT JSON_LENGTH(JSON_ARRAYAGG(s)) FROM t WHERE id < 20"},
		{"json_objectagg", "SELECT JSON_LENGTH(JSON_OBJECTAGG(id, s)) FROM t", "SELECT JSON_LENGTH(JSON_OBJECTAGG(id, s)) FROM t WHERE id < 20"},
		{"count distinct", "SELECT COUNT(DISTINCT id, s), COUNT(DISTINCT s), COUNT(DISTINCT id + 1) FROM t", "SELECT COUNT(DISTINCT id % 9) FROM t"},
		{"sum distinct", "SELECT SUM(DISTINCT id), SUM(DISTINCT id + 1) FROM t", "SELECT SUM(DISTINCT id % 9) FROM t"},
		{"derived table", "SELECT COUNT(*) FROM (SELECT 1 UNION ALL SELECT 2) a JOIN (SELECT s, COUNT(*) n FROM t GROUP BY s) b", "SELECT COUNT(*) FROM (SELECT 1 UNION ALL SELECT 2) a JOIN (SELECT id % 9 s, COUNT(*) n FROM t GROUP BY 1) b"},
		{"common table", "WITH a AS (SELECT s, id FROM t) SELECT COUNT(*) FROM a JOIN a b ON a.s = b.s", "WITH a AS (SELECT s, id FROM t WHERE id < 20) SELECT COUNT(*) FROM a JOIN a b ON a.s = b.s"},
		{"recursive", "WITH RECURSIVE n (i) AS (SELECT 1 UNION SELECT i + 1 FROM n WHERE i < 900) SELECT COUNT(*) FROM n", "WITH RECURSIVE n (i, s) AS (SELECT 1, CAST(REPEAT('x', 200) AS CHAR(200)) UNION ALL SELECT i + 1, s FROM n WHERE i < 900) SELECT COUNT(*) FROM n"},
		{"recursive, wide", "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, (SELECT 1 UNION ALL SELECT 2) x WHERE i < 12) SELECT COUNT(*) FROM n", "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT COUNT(*) FROM n"},
		{"in", "SELECT COUNT(*) FROM t WHERE CONCAT(s, '') IN (SELECT CONCAT(s, 'y') FROM u)", "SELECT COUNT(*) FROM t WHERE CONCAT(s, '') IN (SELECT CONCAT(s, 'y') FROM u WHERE id < 20)"},
		{"not in", "SELECT COUNT(*) FROM t WHERE (SELECT MAX(k) FROM u) > 0 AND s NOT IN (SELECT s FROM u LIMIT 1900)", "SELECT COUNT(*) FROM t WHERE s NOT IN (SELECT s FROM u WHERE id < 20)"},
		{"correlated", "SELECT COUNT(*) FROM t WHERE id < 9 AND k < (SELECT COUNT(*) FROM (SELECT s FROM u WHERE u.k = t.k ORDER BY CONCAT(s, t.id) LIMIT 1500) x)",
			"SELECT SUM((SELECT x.id FROM u x WHERE x.id BETWEEN t.id AND t.id + 9 ORDER BY CONCAT(x.s, t.id) LIMIT 1)), SUM((SELECT COUNT(*) FROM (SELECT DISTINCT x.s FROM u x WHERE x.id BETWEEN t.id AND t.id + 9) y)) FROM t WHERE id < 400"},
		{"correlated, with hashes", "SELECT COUNT(*) FROM t WHERE id < 9 AND k < (SELECT COUNT(*) FROM (SELECT DISTINCT u.id, t.id i FROM u WHERE u.k = t.k UNION ALL SELECT u.id, t.id FROM u GROUP BY 1, 2) x)",
			"SELECT SUM((SELECT x.id % 9 FROM u x WHERE x.id BETWEEN t.id AND t.id + 9 GROUP BY 1 LIMIT 1)) FROM t WHERE t.id < 400"},
		{"insert of what it reads", "INSERT INTO t SELECT a.id + 5000, a.k, b.s FROM t a JOIN u b ON a.id = b.id", "INSERT INTO t SELECT a.id + 5000, a.k, b.s FROM t a JOIN u b ON a.id = b.id WHERE a.id < 20"},
		{"update of two", "UPDATE t JOIN u ON t.s = u.s SET t.k = 8", "UPDATE t JOIN u ON t.id = u.id SET t.k = 8 WHERE t.id < 20"},
	} {
		if _, err := query(c, test.much); number(err) != 1105 || !strings.Contains(err.Error(), "131072") {
			t.Errorf("%s: %s: %v, want 1105 with the limit", test.what, test.much, err)
		}
		if _, err := query(c, test.little); err != nil {
			t.Errorf("%s: %s: %v", test.what, test.little, err)
		}
	}
}

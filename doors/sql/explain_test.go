package sql

import (
	"regexp"
	"testing"
)

// TestExplainAnalyze has EXPLAIN ANALYZE run a statement, and tell its rows and its time beside the plan.
func TestExplainAnalyze(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	for _, text := range []string{"CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"} {
		if _, err := c.ExecContext(t.Context(), text); err != nil {
			t.Fatal(text, err)
		}
	}
	for text, want := range map[string]string{
		"EXPLAIN ANALYZE SELECT * FROM t WHERE v > 1": `^-> Filter: \(t\.v > 1\) \(actual time=[0-9.]+\.\.[0-9.]+ rows=2 loops=1\)\n    -> Table scan on t  \(rows=3\)$`,
		"EXPLAIN ANALYZE SELECT 1":                    `^-> Rows fetched before execution \(actual time=[0-9.]+\.\.[0-9.]+ rows=1 loops=1\)$`,
	} {
		var tree string
		if err := c.QueryRowContext(t.Context(), text).Scan(&tree); err != nil || !regexp.MustCompile(want).MatchString(tree) {
			t.Errorf("%s: %q, %v; want %s", text, tree, err, want)
		}
	}
}

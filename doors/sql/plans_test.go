package sql

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPlansAnswerAlike: generated statements with parameters answer the same by a kept plan as by the full path, whatever the values are. Each is
// executed several times, so that the plan that the first values have made serves the others. A table without indexes answers alike, too.
func TestPlansAnswerAlike(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plain := r.another(func(o *Options) { o.NoPlans = true })
	kept, full := r.connect("test"), r.connectTo(plain, "test")
	r.exec(kept, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), d DECIMAL(10,2), KEY (k), KEY (v), UNIQUE KEY both_of (v, k))")
	r.exec(kept, "CREATE TABLE bare (id INT, k INT, v VARCHAR(20), d DECIMAL(10,2))")
	r.exec(kept, "CREATE TABLE u (w INT, uid INT, n INT, PRIMARY KEY (w, uid))")
	r.exec(kept, "INSERT INTO u SELECT w.n, i.n, i.n * 3 FROM (SELECT 1 AS n UNION SELECT 2) AS w, (WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n+1 FROM s WHERE n < 99) SELECT n FROM s) AS i")
	rnd := rand.New(rand.NewPCG(33, 1))
	for i := range 200 {
		for _, table := range []string{"t", "bare"} {
			r.exec(kept, "INSERT INTO "+table+" VALUES (?, ?, ?, ?)", i, i%17, fmt.Sprintf("v%d", i%13+i/13*100), float64(i)/4)
		}
	}
	n := 400
	if os.Getenv("PLANS") == "long" { // conformance: 20,000 executions
		n = 5000
	}
	executed, different := 0, 0
	for i := range n {
		text, params := statement(rnd)
		if i < len(known) {
			text, params = known[i], strings.Count(known[i], "?")
		}
		for range 4 {
			args := make([]any, params)
			for i := range args {
				args[i] = value(rnd)
			}
			executed++
			a, b := answer(kept, text, args), answer(full, text, args)
			without := answer(full, withoutIndexes.Replace(text), args)
			if a == b && withoutWarnings(b) == withoutWarnings(without) { // by an index fewer rows are compared, and warn
				continue
			}
			if different++; different < 10 {
				t.Errorf("%s %v\nby a kept plan: %s\nby the full path: %s\nwithout indexes: %s", text, args, a, b, without)
			}
		}
	}
	t.Logf("%d executions of %d statements, %d plans kept, %d statements not", executed, n, r.d.Plans().Kept, r.d.Plans().Refused)
	if r.d.Plans().Kept == 0 || plain.d.Plans().Kept != 0 {
		t.Error("no plan was kept, or one where none should be")
	}
}

// TestAJoinThatIsInsertedIsNotKept: sessions would share the last key of its lookups. The same join alone is kept.
func TestAJoinThatIsInsertedIsNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, k INT)")
	r.exec(c, "CREATE TABLE u (id INT PRIMARY KEY, n INT)")
	r.exec(c, "CREATE TABLE taken (id INT PRIMARY KEY, n INT)")
	r.exec(c, "INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n+1 FROM s WHERE n < 200) SELECT n, n FROM s")
	r.exec(c, "INSERT INTO u SELECT id, id FROM t")
	const join = "SELECT t.id, u.n FROM t JOIN u ON u.id = t.k WHERE t.id = ?"
	if got, err := query(c, join, 7); got != "7|7\n" || err != nil {
		t.Fatalf("%q %v", got, err)
	}
	if kept := r.d.Plans().Kept; kept != 1 {
		t.Errorf("%d plans are kept, want that of the join", kept)
	}
	r.exec(c, "INSERT INTO taken "+join, 7)
	if kept := r.d.Plans().Kept; kept != 1 {
		t.Errorf("%d plans are kept, want that of the join alone", kept)
	}
}

// TestAKeptPlanWarnsEachTime: of what is found in the statement's own text while it is planned, and of parameters, as without a kept plan.
func TestAKeptPlanWarnsEachTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	kept, full := r.connect("test"), r.connectTo(r.another(func(o *Options) { o.NoPlans = true }), "test")
	r.exec(kept, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), d DECIMAL(10,2), KEY (k))")
	r.exec(kept, "INSERT INTO t VALUES (1, 1, '1', 1), (2, 2, '2x', 2), (9, 9, '9', 9)")
	warn := 0
	for _, c := range []struct {
		text string
		args []any
	}{
		{"SELECT id FROM t WHERE id BETWEEN ? AND ?", []any{"7x", 36}},
		{"SELECT id FROM t WHERE id BETWEEN '7x' AND 36 AND k < ?", []any{36}},
		{"SELECT id FROM t WHERE id IN ('1x', '2x') AND k < ?", []any{36}},
		{"SELECT id FROM t WHERE id IN ('1x', 9) AND k < ?", []any{36}},
		{"SELECT id FROM t WHERE k IN (?, ?)", []any{"1x", "2x"}},
		{"SELECT id FROM t WHERE k IN (?, ?)", []any{1, "2x"}},
		{"SELECT id FROM t WHERE k NOT IN ('1x', ?)", []any{"2x"}},
		{"DELETE FROM t WHERE id IN (?, ?)", []any{"1x", "2x"}},
		{"UPDATE t SET d = d + 1 WHERE id IN ('1x', '2y') AND k < ?", []any{36}},
		{"SELECT id FROM t WHERE v + ? > 2", []any{1}},
		{"SELECT id FROM t WHERE id > ? + '1x'", []any{1}},
		{"SELECT id FROM t WHERE id > 1 + '1x' AND k < ?", []any{36}},
	} {
		want := answer(full, c.text, c.args)
		if !strings.HasSuffix(want, "warnings: ") {
			warn++
		}
		for n := range 3 {
			if got := answer(kept, c.text, c.args); got != want {
				t.Errorf("%s %v, execution %d: %q; without a kept plan %q", c.text, c.args, n, got, want)
			}
		}
	}
	if warn < 6 {
		t.Errorf("%d statements warn", warn)
	}
}

// known are statements that a cache of plans has got wrong somewhere.
var known = []string{
	"DELETE FROM t WHERE id = ? + 1",
	"DELETE FROM t WHERE id > ? * 2 AND id < ? + ?",
	"SELECT id FROM t WHERE id > ? AND id > ?",
	"SELECT id FROM t WHERE ? BETWEEN id AND k",
	"SELECT id FROM t WHERE ? = 1 OR id = ?",
	"SELECT id FROM t WHERE id IN (?, ?, ?) AND id BETWEEN ? AND ?",
	"SELECT COUNT(*) FROM t WHERE v = ? AND k = ? OR k <> 5",
}

// withoutIndexes makes a statement one of the table that has none.
var withoutIndexes = strings.NewReplacer("FROM t ", "FROM bare ", "UPDATE t ", "UPDATE bare ")

// answer runs a statement. It returns its rows, or how many it has changed and what is there then, and its warnings.
func answer(c *sql.Conn, text string, args []any) string {
	if !strings.HasPrefix(text, "SELECT") {
		return written(c, text, args)
	}
	s, err := query(c, text, args...)
	if err != nil {
		return fmt.Sprint("error ", number(err))
	}
	warnings, err := warningsOf(c)
	if err != nil {
		return fmt.Sprint("error ", err)
	}
	if !strings.Contains(text, "ORDER BY") {
		lines := strings.Split(s, "\n")
		slices.Sort(lines)
		s = strings.Join(lines, "\n")
	}
	return s + warnings
}

// warningsOf are the warnings of the statement before.
func warningsOf(c interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}) (string, error) {
	rows, err := c.QueryContext(context.Background(), "SHOW WARNINGS")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	all := []string{}
	for rows.Next() {
		var level, number, message string
		if err := rows.Scan(&level, &number, &message); err != nil {
			return "", err
		}
		all = append(all, number+" "+message)
	}
	slices.Sort(all)
	return "warnings: " + strings.Join(all, ", "), rows.Err()
}

func withoutWarnings(answer string) string {
	answer, _, _ = strings.Cut(answer, "warnings: ")
	return answer
}

// written writes rows, says how many and what is there then, and takes it back.
func written(c *sql.Conn, text string, args []any) string {
	ctx := context.Background()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Sprint("error ", number(err))
	}
	defer tx.Rollback()
	res, err := tx.ExecContext(ctx, text, args...)
	if err != nil {
		return fmt.Sprint("error ", number(err))
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Sprint("error ", err)
	}
	warnings, err := warningsOf(tx)
	if err != nil {
		return fmt.Sprint("error ", err)
	}
	table, d, v := "t", sql.NullString{}, sql.NullString{}
	if strings.Contains(text, " bare ") {
		table = "bare"
	}
	err = tx.QueryRowContext(ctx, "SELECT SUM(d), MAX(v) FROM "+table).Scan(&d, &v)
	return fmt.Sprint(n, " rows ", d, v, err, warnings)
}

// value is a parameter: small numbers that are there, others that are not, texts, NULL, and one that changes its type.
func value(rnd *rand.Rand) any {
	switch rnd.IntN(12) {
	case 0:
		return nil
	case 1:
		return fmt.Sprint(rnd.IntN(200))
	case 2:
		return fmt.Sprintf("v%d", rnd.IntN(1500))
	case 3:
		return float64(rnd.IntN(400)) / 2
	case 4:
		return int64(0x70000000) // a sentinel of the planner
	case 5:
		return -int64(rnd.IntN(5))
	}
	return int64(rnd.IntN(220))
}

// statement makes a statement with parameters.
func statement(rnd *rand.Rand) (text string, params int) {
	column := func() string { return []string{"id", "k", "v", "d"}[rnd.IntN(4)] }
	number := func() string { return []string{"?", "5", "100"}[rnd.IntN(3)] }
	term := func() string { return []string{"?", "?", "?", "?", "5", "?+1", "'v7'", "'7x'"}[rnd.IntN(8)] }
	var condition func(depth int) string
	condition = func(depth int) string {
		switch rnd.IntN(10) {
		case 0:
			return column() + " BETWEEN " + []string{"?", "?", "'7x'"}[rnd.IntN(3)] + " AND ?"
		case 1:
			return "? BETWEEN id AND k"
		case 2:
			return column() + " IN (" + []string{"?", "?", "?", "'7x'"}[rnd.IntN(4)] + ", ?, ?)"
		case 3:
			return column() + " IS NULL OR ? = 1"
		case 4, 5:
			if depth > 0 {
				return "(" + condition(depth-1) + " " + []string{"AND", "OR"}[rnd.IntN(2)] + " " + condition(depth-1) + ")"
			}
		case 6:
			c := column()
			return c + " > ? AND " + c + []string{" > ?", " < ?", " <= ?"}[rnd.IntN(3)]
		case 7:
			return "v = ? AND k = ?"
		case 8:
			return "id < " + number() + " AND (id = " + number() + " OR (id > " + number() + " AND id < " + number() + "))"
		}
		return column() + " " + []string{"=", ">", "<", ">=", "<=", "<>"}[rnd.IntN(6)] + " " + term()
	}
	where := condition(2)
	switch rnd.IntN(8) {
	case 0:
		text = "UPDATE t SET " + []string{"d = d + ?", "d = ?", "d = d - ?, k = ?", "k = ?"}[rnd.IntN(4)] + " WHERE " + where
		return text, strings.Count(text, "?")
	case 1:
		text = "SELECT id, n FROM t JOIN u ON " + []string{"w = ? AND uid = k", "w = 1 AND uid = id", "uid = k AND w = ?", "w = k AND uid = ?"}[rnd.IntN(4)] + " WHERE " + where
		return text, strings.Count(text, "?")
	}
	if rnd.IntN(4) == 0 { // the planner leaves its conditions as they are, with the parameters in them
		text = "DELETE FROM t WHERE " + where
		return text, strings.Count(text, "?")
	}
	what := []string{"id", "id, k", "v", "COUNT(*)", "SUM(k)", "DISTINCT k", "id + ?", "MAX(d)"}[rnd.IntN(8)]
	text = "SELECT " + what + " FROM t WHERE " + where
	if what == "id" || what == "id, k" {
		text += []string{"", " ORDER BY id", " ORDER BY id DESC", " ORDER BY k, id DESC LIMIT 5", " ORDER BY id LIMIT ?"}[rnd.IntN(5)]
	}
	return text, strings.Count(text, "?")
}

package sql

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestAnIndexGivesTheOrder: behind columns that have one value each, an index is read in the order of its next columns and of the primary key, and nothing is
// sorted. What is not in that order is sorted.
func TestAnIndexGivesTheOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(10), a INT, b INT, u INT, KEY one (s), KEY more (s, a, b), UNIQUE KEY un (a, u), KEY part (s(2), b))")
	var all []string
	for i := range 300 {
		s, u := []string{"'x'", "'X '", "'y'", "NULL"}[i%4], fmt.Sprint(i)
		if i%3 == 0 {
			u = "NULL"
		}
		all = append(all, fmt.Sprintf("(%d, %s, %d, %d, %s)", i*7919%1009, s, i%5, i*31%17, u))
	}
	r.exec(c, "INSERT INTO t VALUES "+strings.Join(all, ", "))
	for _, tc := range []struct {
		from, by string
		sorts    bool
	}{
		{"t FORCE INDEX (one) WHERE s = 'x'", "id", false},
		{"t FORCE INDEX (one) WHERE s = 'x'", "id DESC", false},
		{"t FORCE INDEX (one) WHERE s = 'x' AND b > 3", "s, id", false},
		{"t AS k FORCE INDEX (one) WHERE k.s = 'x'", "k.id", false},
		{"t FORCE INDEX (more) WHERE s = 'y'", "a, b, id", false},
		{"t FORCE INDEX (more) WHERE s = 'y'", "a DESC, b DESC, id DESC", false},
		{"t FORCE INDEX (more) WHERE s = 'y' AND a = 2", "b, id", false},
		{"t FORCE INDEX (more) WHERE s = 'y' AND a = 2", "a, b, s, id", false},
		{"t FORCE INDEX (more) WHERE s = 'y' AND a > 2", "a, b", false},
		{"t FORCE INDEX (more) WHERE s = 'y' AND a > 2", "b, id", true},
		{"t FORCE INDEX (more) WHERE s = 'y'", "a, b DESC", true},
		{"t FORCE INDEX (more) WHERE s = 'y'", "b", true},
		{"t FORCE INDEX (more) WHERE s >= 'x'", "a, b", true},
		{"t FORCE INDEX (one) WHERE s IN ('x', 'y')", "id", true},
		{"t FORCE INDEX (one) WHERE s = 0", "id", true},
		{"t FORCE INDEX (part) WHERE s = 'x'", "b, id", false},
		{"t FORCE INDEX (un) WHERE a = 3", "u", false},
		{"t FORCE INDEX (un) WHERE a = 3", "u, id", true},
		{"t FORCE INDEX (one) WHERE s = 'x'", "-id", true},
	} {
		text := "SELECT id, a, b FROM " + tc.from + " ORDER BY " + tc.by
		explained, err := query(c, "EXPLAIN "+text)
		if err != nil || strings.Contains(explained, "filesort") != tc.sorts {
			t.Errorf("%s: sorts %v: %q %v", text, tc.sorts, explained, err)
		}
		for _, limit := range []string{"", " LIMIT 7", " LIMIT 7 OFFSET 3", " LIMIT 5 FOR UPDATE"} {
			got, err := query(c, text+limit)
			// An expression that no index has sorts the same rows.
			sorted, e := query(c, "SELECT id, a, b FROM (SELECT * FROM "+tc.from+") AS t ORDER BY "+plusNothing(tc.by)+strings.TrimSuffix(limit, " FOR UPDATE"))
			if tc.by == "b" || tc.by == "a, b DESC" || tc.by == "a, b" || tc.by == "u" { // rows that are alike come in any order
				got, sorted = lastField(got), lastField(sorted)
			}
			if err != nil || e != nil || got != sorted {
				t.Errorf("%s%s: %v %v\n%s\nwant\n%s", text, limit, err, e, got, sorted)
			}
		}
	}
	r.says(c, "12", "SELECT COUNT(*) FROM (SELECT id FROM t WHERE s = 'y' ORDER BY a, b LIMIT 12) AS k")
	prepared, err := c.PrepareContext(t.Context(), "SELECT id FROM t FORCE INDEX (one) WHERE s = ? ORDER BY id LIMIT ?")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"x", "y", "nobody", "x"} {
		var ids []int
		rows, err := prepared.QueryContext(t.Context(), v, 20)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id int
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if !slices.IsSorted(ids) || len(ids) != map[string]int{"x": 20, "y": 20}[v] {
			t.Errorf("%s: %v", v, ids)
		}
	}
}

// plusNothing makes each term of ORDER BY an expression.
func plusNothing(by string) string {
	var all []string
	for term := range strings.SplitSeq(by, ", ") {
		name, down := strings.CutSuffix(strings.TrimPrefix(term, "k."), " DESC")
		text := "IF(1, " + name + ", " + name + ")"
		if down {
			text += " DESC"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// lastField keeps the last field of each row.
func lastField(rows string) string {
	var out strings.Builder
	for l := range strings.Lines(rows) {
		out.WriteString(l[strings.LastIndex(l, "|")+1:])
	}
	return out.String()
}

// TestAQueueBySkipLocked: of several sessions that take the first row which nobody has locked each gets another one, although the rows have to come in order.
func TestAQueueBySkipLocked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE jobs (id INT PRIMARY KEY, state VARCHAR(10) NOT NULL, KEY by_state (state))")
	r.exec(c, "INSERT INTO jobs VALUES (1, 'done'), (2, 'waits'), (3, 'waits'), (4, 'done'), (5, 'waits'), (6, 'waits')")
	var sessions []*sql.Conn
	for range 4 {
		s := r.connect("test")
		sessions = append(sessions, s)
		r.exec(s, "BEGIN")
	}
	for i, want := range []string{"2", "3", "5", "6"} {
		r.says(sessions[i], want, "SELECT id FROM jobs WHERE state = 'waits' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
	}
	r.says(c, "", "SELECT id FROM jobs WHERE state = 'waits' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
	r.exec(sessions[1], "UPDATE jobs SET state = 'done' WHERE id = 3")
	r.exec(sessions[1], "COMMIT")
	r.exec(sessions[0], "ROLLBACK")
	r.says(sessions[1], "2", "SELECT id FROM jobs WHERE state = 'waits' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
	r.exec(c, "UPDATE jobs SET state = 'taken' WHERE state = 'waits' ORDER BY id LIMIT 1")
	r.says(c, "2", "SELECT id FROM jobs WHERE state = 'taken'")
}

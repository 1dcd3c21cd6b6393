package sql

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// TestExecutorAnswersAlike: two members get the same statements from two clients each. One runs what it can by the executor, the other one plans everything
// anew by the library. Every byte of every answer is the same: rows, types, errors, counts, warnings and flags.
func TestExecutorAnswersAlike(t *testing.T) {
	t.Parallel()
	n := 500
	seeds := uint64(2)
	if os.Getenv("PLANS") == "long" { // conformance: 60,000 statements
		seeds, n = 20, 3000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { playAlike(t, seed, n) })
	}
}

func playAlike(t *testing.T, seed uint64, n int) {
	own, plain := newRig(t), newRig(t)
	r, planned := own.another(func(o *Options) { o.NoPlans = true }), plain.another(func(o *Options) { o.NoExecutor, o.NoPlans = true, true })
	g := &generator{rnd: rand.New(rand.NewPCG(seed, 37))}
	var pairs []*pair
	for i := range 2 {
		found := wire.Capabilities(0)
		if i == 1 {
			found = wire.FoundRows
		}
		pairs = append(pairs, &pair{t: t, sides: [2]*packets{dialPackets(t, r.addr, found), dialPackets(t, planned.addr, found)}, prepared: map[string]uint32{}})
	}
	for _, text := range append([]string{"SET @@innodb_lock_wait_timeout = 1"}, alikeTables...) {
		for i, p := range pairs {
			if i == 0 || strings.HasPrefix(text, "SET") || strings.HasPrefix(text, "USE") {
				p.text(text)
			}
		}
	}
	eligible, left, wrong := 0, 0, 0
	before := r.d.engine.Directed()
	for i := 0; i < n && wrong < 10; i++ {
		who := g.rnd.IntN(len(pairs))
		p := pairs[who]
		if g.rnd.IntN(150) == 0 { // a definition waits for every transaction
			for _, p := range pairs {
				p.text("COMMIT")
			}
			if !p.text(g.definition()) {
				wrong++
			}
			continue
		}
		st := g.statement(who)
		if st.counts {
			eligible++
		}
		same := false
		was := r.d.engine.Directed()
		if g.rnd.IntN(2) == 0 {
			same = p.text(st.literal())
			for _, a := range st.args {
				if _, double := a.(float64); double { // as a literal it is a DECIMAL
					st.counts = false
				}
			}
		} else {
			same = p.execute(st.text, st.args)
		}
		if st.counts && r.d.engine.Directed() == was && p.last[4] != 0xff {
			if left++; left > 5 && left > eligible/20 {
				t.Errorf("left to the planner: %s %v %.60q", st.text, st.args, p.last)
			}
		}
		if g.rnd.IntN(8) == 0 {
			same = p.text("SHOW WARNINGS") && same
		}
		if g.rnd.IntN(4) == 0 {
			same = p.text("SELECT ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID(), @@warning_count") && same
		}
		if !same {
			wrong++
		}
	}
	for _, p := range pairs {
		p.text("COMMIT")
	}
	for _, table := range []string{"sb", "wide", "texts", "duo", "named", "loose"} {
		by := map[string]string{"duo": "a, b", "named": "name, n", "loose": "k, n, d"}[table]
		pairs[0].text("SELECT * FROM " + table + " ORDER BY " + cmp.Or(by, "id"))
		pairs[0].text("CHECK TABLE " + table)
	}
	t.Logf("seed %d: %d statements, %d run by the executor; %d that it must run, of which it left %d", seed, n, r.d.engine.Directed()-before, eligible, left)
	if eligible < n/4 {
		t.Errorf("the executor must run %d statements of %d", eligible, n)
	}
	if planned.d.engine.Directed() != 0 {
		t.Error("the executor has run statements of the door that is without")
	}
}

// alikeTables are the tables of the generated statements.
var alikeTables = []string{
	"CREATE DATABASE alike",
	"USE alike",
	"CREATE TABLE sb (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT '0', c CHAR(20) NOT NULL DEFAULT '', pad CHAR(10) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k))",
	`CREATE TABLE wide (id BIGINT UNSIGNED PRIMARY KEY, k TINYINT, u SMALLINT UNSIGNED, c VARCHAR(10), d DECIMAL(8,2), f DOUBLE, s FLOAT, b BIT(4), UNIQUE KEY u_key (u),
		KEY c_key (c), UNIQUE KEY both_of (c(3), k))`,
	`CREATE TABLE texts (id MEDIUMINT AUTO_INCREMENT PRIMARY KEY, k BIGINT, u BIGINT UNSIGNED, c VARCHAR(8) COLLATE utf8mb4_bin, w TEXT COLLATE utf8mb4_general_ci,
		n VARCHAR(8) COLLATE utf8mb4_0900_ai_ci, l VARCHAR(8) CHARACTER SET latin1, at DATETIME(3), y YEAR)`,
	"CREATE TABLE checked (id INT PRIMARY KEY, k INT, c VARCHAR(10), CHECK (k < 50))",
	"CREATE TABLE child (id INT PRIMARY KEY, k INT, c VARCHAR(10), FOREIGN KEY (k) REFERENCES checked (id))",
	`CREATE TABLE duo (b INT NOT NULL, a SMALLINT NOT NULL, k INT, c VARCHAR(10), n INT UNSIGNED, d DECIMAL(8,2), e DECIMAL(20,0), at DATETIME, day DATE, ts TIMESTAMP(3) NULL,
		PRIMARY KEY (a, b), KEY a_k (a, k, b), KEY c_key (c), KEY d_key (d, at))`,
	"CREATE TABLE named (name VARCHAR(10) NOT NULL, n TINYINT NOT NULL, k INT, c CHAR(6), d DECIMAL(5,4), PRIMARY KEY (name, n), UNIQUE KEY k_c (k, c))",
	"CREATE TABLE loose (k INT, n BIGINT, d DECIMAL(6,2), at DATETIME, c VARCHAR(10), KEY k_key (k), KEY n_k (n, k))",
	"INSERT INTO duo (a, b, k, c, n, d, e, at, day) VALUES (0, 1, 1, 'a', 1, 1.5, 99999999999999999999, '2020-01-01 10:00:00', '2020-01-02'), (1, 1, 1, 'A', 2, -0.01, -1, NULL, NULL), (2, 5, NULL, NULL, 4000000000, 999999.99, NULL, '1000-01-01', '9999-12-31')",
	"INSERT INTO named VALUES ('a', 1, 1, 'x', 0.5), ('A ', 2, 1, 'y', -9.9999), ('é', 3, NULL, NULL, NULL), ('b', 4, 2, '', 0)",
	"INSERT INTO loose VALUES (1, 1, 1, '2020-01-01 00:00:01', 'a'), (1, 2, 2, NULL, 'B'), (NULL, NULL, NULL, NULL, NULL)",
	"INSERT INTO sb (id, k, c, pad) VALUES (1, 1, 'a', 'p'), (2, 2, 'B', 'q'), (3, 1, 'b', 'r'), (4, 9, 'b ', ''), (6, -5, 'Z', 'x')",
	"INSERT INTO wide VALUES (0, 1, 1, 'a', 1.5, 0.25, 1e10, 1), (2, -128, 65535, 'Ab', NULL, NULL, NULL, NULL), (18446744073709551615, 127, NULL, NULL, -1, -1e300, 3.4e38, 15)",
	"INSERT INTO texts (k, u, c, w, n, l, at, y) VALUES (9223372036854775807, 18446744073709551615, 'a', 'é', 'ä', 'ö', '2020-01-01 00:00:00.123', 2020), (9223372036854775807, 18446744073709551615, 'A', 'E', 'b', 'x', NULL, NULL)",
}

// generator makes statements. Each client writes rows of its own, so that none waits for the other one for long.
type generator struct {
	rnd  *rand.Rand
	odds [2]string // the statement by which a client takes back what keeps the executor away; "": nothing does
	only [2]bool   // the client's transaction only reads, or locks what it reads, perhaps
}

// generated is a statement with parameters. counts: the executor ought to run it.
type generated struct {
	text   string
	args   []any
	counts bool
}

// literal is the statement with its parameters written in it.
func (g *generated) literal() string {
	text := g.text
	for _, a := range g.args {
		var s string
		switch v := a.(type) {
		case nil:
			s = "NULL"
		case string:
			s = "'" + strings.ReplaceAll(strings.ReplaceAll(v, `\`, `\\`), "'", "''") + "'"
		default:
			s = fmt.Sprint(v)
		}
		text = strings.Replace(text, "?", s, 1)
	}
	return text
}

func (g *generator) one(all ...string) string { return all[g.rnd.IntN(len(all))] }

func (g *generator) definition() string {
	return g.one("ALTER TABLE sb ADD COLUMN more INT", "ALTER TABLE sb DROP COLUMN more", "CREATE INDEX pad_key ON sb (pad)", "DROP INDEX pad_key ON sb",
		"CREATE INDEX b_key ON duo (b, a)", "DROP INDEX b_key ON duo", "ALTER TABLE duo ADD COLUMN more DECIMAL(4,1) DEFAULT 1.5", "ALTER TABLE duo DROP COLUMN more",
		"ALTER TABLE wide ADD COLUMN more INT NOT NULL DEFAULT 7", "ALTER TABLE wide DROP COLUMN more", "ALTER TABLE texts MODIFY COLUMN c VARCHAR(9) COLLATE utf8mb4_bin",
		"ALTER TABLE texts MODIFY COLUMN c VARCHAR(8) COLLATE utf8mb4_bin")
}

// id is a key; own: one that the client may write.
func (g *generator) id(who int, own bool) int64 {
	n := g.rnd.Int64N(30) * 2
	if own {
		return n + int64(who)
	}
	return n + g.rnd.Int64N(2)
}

// odd is a value that the executor leaves to the engine, mostly.
func (g *generator) odd() any {
	switch g.rnd.IntN(8) {
	case 0:
		return nil
	case 1:
		return "5"
	case 2:
		return "7x"
	case 3:
		return int64(1) << 40
	case 4:
		return int64(-1)
	case 5:
		return "a text that is longer than every column"
	case 6:
		return 2.5
	}
	return uint64(1)<<63 + 5
}

// within is a key that is within the column's type. For others the planner locks all rows, and waits for those of the other client.
func within(v any) any {
	switch n := v.(type) {
	case int64:
		return n % (1 << 23)
	case uint64:
		return n % (1 << 23)
	}
	return v
}

func (g *generator) word(who int) string {
	s := ""
	for range g.rnd.IntN(4) {
		s += g.one("a", "A", "b", "B", "é", "e", " ", "z", "-", "1", "日", "\t", "'", `\`, "ß")
	}
	return fmt.Sprint(s, g.one("", "", " ", "  "), []string{"", "x"}[who])
}

// statement makes a statement of one client.
func (g *generator) statement(who int) (st generated) {
	table := g.one("sb", "sb", "wide", "texts")
	number := func() any { return g.rnd.Int64N(100) }
	odd := g.rnd.IntN(12) == 0
	value := func(v any) any {
		if odd && g.rnd.IntN(2) == 0 {
			return g.odd()
		}
		return v
	}
	st.counts = !odd
	if g.odds[who] != "" && g.rnd.IntN(4) == 0 {
		st = generated{text: g.odds[who]}
		g.odds[who] = ""
		return st
	}
	defer func() {
		switch {
		case st.text == "COMMIT" || st.text == "ROLLBACK":
			g.only[who] = strings.Contains(g.odds[who], "REPEATABLE")
		case strings.Contains(st.text, "READ ONLY"), strings.Contains(st.text, "SERIALIZABLE"):
			g.only[who] = true
		}
		if g.odds[who] != "" || g.only[who] {
			st.counts = false
		}
	}()
	if g.rnd.IntN(3) == 0 {
		g.keyed(&st, who, value)
		return st
	}
	switch g.rnd.IntN(24) {
	case 0:
		return generated{text: g.one("BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK", "START TRANSACTION READ ONLY", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s",
			"START TRANSACTION WITH CONSISTENT SNAPSHOT", "SET autocommit = 0", "SET autocommit = 1")}
	case 1:
		if g.rnd.IntN(4) > 0 {
			return generated{text: "COMMIT"}
		}
		if g.odds[who] != "" || g.rnd.IntN(3) > 0 {
			return generated{text: g.one("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
				"SET character_set_results = NULL", "SET character_set_results = utf8mb4")}
		}
		g.odds[who] = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
		return generated{text: "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"}
	case 2:
		if g.odds[who] != "" {
			return generated{text: "SET max_execution_time = 0"}
		}
		set := g.one("sql_mode = ''", "sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "sql_select_limit = 2", "NAMES latin1", "sql_mode = 'ANSI_QUOTES'")
		name, _, _ := strings.Cut(set, " ")
		g.odds[who] = map[string]string{"sql_mode": "SET sql_mode = DEFAULT", "sql_select_limit": "SET sql_select_limit = DEFAULT", "NAMES": "SET NAMES utf8mb4"}[name]
		return generated{text: "SET " + set}
	case 3: // tables that the executor reads alone, and statements of nearly its shapes
		st.counts = false
		return g.near(who)
	case 4, 5, 6:
		st.text = "SELECT " + g.selected(table) + " FROM " + table + " WHERE id = ?" + g.one("", "", "", " LIMIT 1", " ORDER BY id")
		st.args = []any{value(g.id(who, false))}
		st.counts = st.counts && !(strings.Contains(st.text, " AS ") && strings.Contains(st.text, "ORDER"))
	case 7, 8, 9, 10, 11:
		st.text = "SELECT " + g.one(g.selected(table), g.selected(table), "SUM(k)", "COUNT(*)", "SUM(k), COUNT(*), SUM(u)", "SUM( k ) AS s", "*") + " FROM " + table + " WHERE " +
			g.one("id BETWEEN ? AND ?", "id >= ? AND id <= ?", "id > ? AND id < ?", "(id >= ?) AND id < ?")
		st.text = strings.Replace(st.text, "SUM(u)", map[string]string{"sb": "SUM(id)"}[table]+map[string]string{"wide": "SUM(u)", "texts": "SUM(u)"}[table], 1)
		from := g.id(who, false)
		st.args = []any{value(from), value(from + g.rnd.Int64N(40) - 3)}
		if !strings.Contains(st.text, "(") || strings.Contains(st.text, "(id") && !strings.Contains(st.text, "SUM") {
			switch column := g.one("k", "c", "id"); g.rnd.IntN(5) {
			case 0:
				st.text += " ORDER BY " + column + g.one("", " DESC", " ASC")
			case 1:
				st.text = "SELECT DISTINCT " + column + " FROM " + table + " WHERE id BETWEEN ? AND ? ORDER BY " + column + g.one("", " DESC")
			case 2:
				st.text += " ORDER BY id" + g.one("", " DESC") + " LIMIT ?"
				st.args = append(st.args, g.rnd.Int64N(5))
			case 3:
				st.text += g.one(" LIMIT 3", " LIMIT 2, 3", " LIMIT 0")
			}
		}
		if strings.Contains(st.text, "ORDER BY") || strings.Contains(st.text, "LIMIT") {
			st.counts = st.counts && !strings.Contains(st.text, " AS ") && !strings.Contains(st.text, "COUNT(")
		}
		st.counts = st.counts && !(table != "sb" && strings.Contains(st.text, "*") && !strings.Contains(st.text, "COUNT(*)"))
	case 12, 13:
		st.text = "UPDATE " + table + " SET " + g.one("k=k+1", "k = k - ?", "k = ?", "k=k+?") + " WHERE id = ?"
		if strings.Contains(st.text, "k = ?") || strings.Contains(st.text, "?  ") || strings.Contains(st.text, "k - ?") || strings.Contains(st.text, "k+?") {
			st.args = append(st.args, value(number()))
		}
		st.args = append(st.args, within(value(g.id(who, true))))
		st.counts = st.counts && table == "sb"
	case 14, 15, 16:
		st.text = "UPDATE " + table + " SET c = ?" + g.one("", "", ", k = ?") + " WHERE id = ?"
		st.args = []any{value(g.word(who))}
		if strings.Contains(st.text, "k = ?") {
			st.args = append(st.args, value(number()))
		}
		st.args = append(st.args, within(value(g.id(who, true))))
		st.counts = st.counts && table == "sb"
	case 17, 18:
		st.text, st.args = "DELETE FROM "+table+" WHERE id = ?", []any{within(value(g.id(who, true)))}
		st.counts = st.counts && table != "texts"
	default:
		g.insert(&st, table, who, value)
	}
	return st
}

// keyed makes a statement about a table whose primary key has several columns, or that has none.
func (g *generator) keyed(st *generated, who int, value func(any) any) {
	a := func(own bool) any { // a client writes and locks rows of its own a
		n := g.rnd.Int64N(3) * 2
		if own {
			return n + int64(who)
		}
		return n + g.rnd.Int64N(2)
	}
	small := func() any { return g.rnd.Int64N(8) }
	exact := func() any { // for a DECIMAL
		switch g.rnd.IntN(4) {
		case 0:
			return g.rnd.Int64N(2000) - 1000
		case 1:
			return fmt.Sprintf("%d.%d", g.rnd.Int64N(200)-100, g.rnd.IntN(1000))
		case 2:
			return float64(g.rnd.Int64N(1<<40)-1<<39) / 1e9
		}
		return float64(g.rnd.Int64N(100000)-50000) / 1000
	}
	moment := func() any {
		return g.one("2024-02-29 12:34:56", "1999-12-31 23:59:59", "2024-1-2", "20240102030405", "2024-01-02 03:04:05.6", "2024-01-02T03:04")
	}
	name := func() any {
		return []string{"p", "q"}[who] + g.one("", "a", "A", "é", "b ", " ", "  x", "-")
	}
	add := func(text string, args ...any) {
		st.text += text
		for _, v := range args {
			st.args = append(st.args, value(v))
		}
	}
	tuples := func(n int, own bool) {
		for i := range n {
			if i > 0 {
				st.text += ", "
			}
			add("(?, ?)", a(own), small())
		}
	}
	columns := func() string {
		return g.one("k", "c, d", "a, b, k", "d, e, at, day", "b AS x", "n, duo.c", "at, ts", "*")
	}
	order := func(all ...string) {
		if g.rnd.IntN(2) == 0 {
			st.text += " ORDER BY " + g.one(all...)
			st.counts = st.counts && !strings.Contains(st.text, " AS ")
		}
		if g.rnd.IntN(3) == 0 {
			st.text += g.one(" LIMIT 1", " LIMIT 2", " LIMIT 1, 2")
			if !strings.Contains(st.text, "ORDER") {
				st.counts = false // the planner may choose another index
			}
		}
	}
	defer func() {
		if strings.HasPrefix(st.text, "SELECT") && !strings.HasSuffix(st.text, "FOR UPDATE") || strings.HasPrefix(st.text, "INSERT") {
			return
		}
		for i := range st.args {
			st.args[i] = within(st.args[i])
		}
	}()
	switch g.rnd.IntN(24) {
	case 20, 21:
		by := g.one("k", "a", "b", "n")
		add("SELECT " + by + ", " + g.one("SUM(d)", "COUNT(*), SUM(e)", "SUM(d), MAX(k), SUM(n)", "COUNT(DISTINCT k), SUM(d)") + " FROM duo WHERE ")
		if g.rnd.IntN(2) == 0 {
			add("a = ? AND k = ?", a(false), small())
		} else {
			add("(a, b) IN (")
			tuples(1+g.rnd.IntN(5), false)
			st.text += ")"
		}
		st.text += " GROUP BY " + by
	case 22:
		add("SELECT "+g.one("COUNT(DISTINCT sb.k)", "COUNT(DISTINCT (sb.id)) AS x", "COUNT(*), SUM(d), SUM(sb.k)", "MIN(n), MAX(sb.k)", "COUNT(DISTINCT a)")+
			" FROM "+g.one("duo, sb", "sb, duo")+" WHERE a = ? AND b > ? - 2 AND b <= ? AND id = duo.k", a(false), small(), small())
		st.text += g.one("", " AND sb.k < ?", " AND n >= ?")
		if strings.Count(st.text, "?") > 3 {
			add("", small())
		}
	case 23:
		add("SELECT " + g.one("sb.c, d", "duo.k, id, at", "a, b, pad AS x, e") + " FROM " + g.one("sb, duo", "duo, sb") + " WHERE id = ? AND a = " + g.one("id", "?") + " AND " +
			g.one("b = ?", "id = b"))
		for strings.Count(st.text, "?") > len(st.args) {
			add("", small())
		}
	case 0, 1:
		add("SELECT " + columns() + " FROM duo WHERE ")
		if g.rnd.IntN(2) == 0 {
			add("a = ? AND b = ?", a(false), small())
		} else {
			add("b = ? AND (a = ?)", small(), a(false))
		}
	case 2:
		add("SELECT "+columns()+" FROM duo WHERE a = ? AND b = ? FOR UPDATE", a(true), small())
	case 3:
		add("SELECT " + columns() + " FROM duo WHERE (a, b) IN (")
		own := g.rnd.IntN(2) == 0
		tuples(1+g.rnd.IntN(4), own)
		st.text += ")"
		if own {
			st.text += " FOR UPDATE"
		}
	case 4:
		add("SELECT "+columns()+" FROM duo WHERE a = ? AND b IN (?, ?, ?)", a(false), small(), small(), small())
		if g.rnd.IntN(3) == 0 {
			st.text += " ORDER BY b" + g.one("", " DESC")
			st.counts = st.counts && !strings.Contains(st.text, " AS ")
		}
	case 5:
		add("SELECT "+columns()+" FROM duo WHERE a = ?", a(false))
		st.counts = false // a_k serves as well
		order("b", "b DESC", "a, b", "k, b", "k DESC, b DESC")
	case 6:
		add("SELECT "+columns()+" FROM duo WHERE a = ? AND ", a(false))
		add(g.one("b > ? AND b <= ?", "b >= ? AND b < ?", "b BETWEEN ? AND ?"), small(), g.rnd.Int64N(12))
		order("b", "b DESC")
	case 7:
		add("SELECT "+columns()+" FROM duo WHERE a = ? AND "+g.one("b < ?", "b >= ?", "b > ? - 2", "b <= ? + 1"), a(false), small())
		order("b", "b DESC")
	case 8:
		add("SELECT "+columns()+" FROM duo WHERE a = ? ORDER BY b"+g.one("", " ASC", " DESC")+" LIMIT "+g.one("1", "2")+" FOR UPDATE", a(true))
		st.counts = st.counts && !strings.Contains(st.text, " AS ")
	case 9:
		add("SELECT "+columns()+" FROM duo WHERE a = ? AND k = ?", a(false), small())
		order("b", "b DESC")
		st.counts = st.counts && (strings.Contains(st.text, "ORDER") || !strings.Contains(st.text, "LIMIT"))
	case 10:
		add("SELECT "+g.one("COUNT(*)", "COUNT(k)", "MIN(k), MAX(k)", "MAX(n), MIN(b), COUNT(d)", "SUM(k), COUNT(c)")+" FROM duo WHERE a = ? AND ", a(false))
		if g.rnd.IntN(2) == 0 {
			add("k = ?", small())
		} else {
			add("b IN (?, ?)", small(), small())
		}
	case 11:
		add("UPDATE duo SET ")
		add(g.one("d = d + ?", "d = d - ?", "d = ?", "e = e + ?, d = ?"), exact())
		if strings.Contains(st.text, ",") {
			st.args = append(st.args, value(exact()))
		}
		add(g.one("", ", k = k + 1", ", n = n + 1"))
		add(" WHERE a = ? AND b = ?", within(a(true)), small())
		st.counts = false // out of range, perhaps
	case 12:
		add("UPDATE duo SET k = ? "+g.one("+ 1", "- 3", "")+", c = ? WHERE b = ? AND a = ?", small(), g.word(who), small(), within(a(true)))
	case 13:
		add("UPDATE duo SET ")
		add(g.one("at = ?", "day = ?", "ts = ?"), moment())
		add(" WHERE (a, b) IN (")
		tuples(2, true)
		st.text += ")"
		st.counts = false
	case 14:
		add("UPDATE duo SET "+g.one("k = k + ?", "k = ?", "n = n - ?", "d = d + ?")+" WHERE ", small())
		if g.rnd.IntN(2) == 0 {
			add("a = ? AND b IN (?, ?, ?)", within(a(true)), small(), small(), small())
		} else {
			add("a IN (?, ?)", within(a(true)), within(a(true)))
		}
		st.counts = false
	case 15:
		if g.rnd.IntN(4) > 0 {
			add("DELETE FROM duo WHERE (a, b) IN (")
			tuples(1+g.rnd.IntN(3), true)
			st.text += ")"
		} else {
			add("DELETE FROM duo WHERE a = ?", a(true))
		}
	case 16:
		add("INSERT INTO duo (a, b, k, c, n, d, e, at, day) VALUES ")
		for i := range 1 + g.rnd.IntN(3) {
			if i > 0 {
				st.text += ", "
			}
			add("(?, ?, ?, ?, ?, ?, ?, ?, ?)", a(true), small(), []any{small(), nil}[g.rnd.IntN(2)], g.word(who), small(), exact(), small(), moment(), moment())
		}
		st.counts = false
	case 17:
		switch g.rnd.IntN(5) {
		case 0:
			add("SELECT k, c, d FROM named WHERE name = ? AND n = ?", name(), small())
		case 1:
			add("SELECT "+g.one("*", "n, name", "COUNT(*)")+" FROM named WHERE name = ?", name())
			if !strings.Contains(st.text, "COUNT") && g.rnd.IntN(2) == 0 {
				st.text += g.one(" ORDER BY n DESC", " ORDER BY n LIMIT 1", " ORDER BY n LIMIT 1 FOR UPDATE", " ORDER BY c")
			}
		case 2:
			add("SELECT name, d FROM named WHERE k = ?", small())
			st.counts = false
		case 3:
			add("UPDATE named SET k = ?, d = ? WHERE n = ? AND name = ?", []any{g.rnd.Int64N(20)*2 + int64(who), nil}[g.rnd.IntN(2)], exact(), small(), name())
			st.counts = false
		case 4:
			add("DELETE FROM named WHERE name = ? AND n = ?", name(), small())
		}
	case 18:
		add("INSERT INTO named (name, n, k, c) VALUES (?, ?, ?, ?)", name(), small(), []any{g.rnd.Int64N(20)*2 + int64(who), nil}[g.rnd.IntN(2)], g.one("x", "X", "y ", ""))
		st.counts = false
	default:
		switch g.rnd.IntN(3) {
		case 0:
			add("INSERT INTO loose (k, n, d, at) VALUES (?, ?, ?, ?)", small(), small(), exact(), moment())
			if g.rnd.IntN(3) == 0 {
				add(", (?, ?, ?, ?)", nil, small(), nil, nil)
			}
			st.counts = false
		case 1:
			add("SELECT "+g.one("*", "d, at", "SUM(n), COUNT(k)", "k, n")+" FROM loose WHERE "+g.one("k = ?", "n = ? AND k > 2", "n = ?", "k > ?"), small())
			st.counts = false
		case 2:
			add(g.one("DELETE FROM loose WHERE n = ?", "UPDATE loose SET d = 1 WHERE n = ?"), int64(who)+100)
			st.counts = false
		}
	}
}

func (g *generator) selected(table string) string {
	all := map[string][]string{"sb": {"c", "k", "id, k, c, pad", "C", "sb.k, pad", "c AS k", "k, k"}, "wide": {"c", "k, u", "id", "f, s", "u AS `a b`"},
		"texts": {"c", "k, u", "w", "id, n"}}
	return g.one(all[table]...)
}

func (g *generator) insert(st *generated, table string, who int, value func(any) any) {
	rows := g.one("1", "1", "3")
	n := int(rows[0] - '0')
	var tuples []string
	for i := range n {
		id := any(g.id(who, true))
		number := any(g.rnd.Int64N(100))
		switch table {
		case "sb":
			st.text = "INSERT INTO sb (id, k, c, pad) VALUES "
			tuples = append(tuples, "(?, ?, ?, ?)")
			st.args = append(st.args, value(id), value(number), value(g.word(who)), value(g.word(who)))
		case "wide":
			st.text = "INSERT INTO wide (id, u, k, c) VALUES "
			tuples = append(tuples, "(?, ?, ?, ?)")
			st.args = append(st.args, value(id), value(g.rnd.Int64N(300)*2+int64(who)), value(number), value(fmt.Sprint([]string{"p", "q"}[who], g.word(who))))
		default:
			st.text = "INSERT INTO texts (c, k) VALUES "
			tuples = append(tuples, "(?, ?)")
			st.args = append(st.args, value(g.word(who)), value(number))
		}
		_ = i
	}
	if table == "sb" && g.rnd.IntN(3) == 0 { // values of AUTO_INCREMENT
		for i := 0; i < len(st.args); i += 4 {
			st.args[i] = []any{nil, int64(0), st.args[i]}[g.rnd.IntN(3)]
		}
	}
	st.text += strings.Join(tuples, ", ")
	st.counts = st.counts && table != "wide" // to which a column with a default may have been added
}

// near makes statements that the executor must leave to the planner, or run as it does.
func (g *generator) near(who int) generated {
	id := g.id(who, true)
	text := g.one("SELECT c FROM checked WHERE id = ?", "UPDATE checked SET k = 60 WHERE id = ?", "UPDATE checked SET k = 6 WHERE id = ?", "DELETE FROM checked WHERE id = ?",
		"INSERT INTO checked VALUES (?, 5, 'x')", "INSERT INTO checked VALUES (?, 55, 'x')", "INSERT INTO child (id, k) VALUES (?, 4)", "INSERT INTO child (id) VALUES (?)",
		"UPDATE child SET k = 4 WHERE id = ?", "DELETE FROM child WHERE id = ?", "SELECT c FROM nowhere WHERE id = ?", "SELECT nothing FROM sb WHERE id = ?",
		"UPDATE sb SET nothing = 1 WHERE id = ?", "SELECT x.c FROM sb AS x WHERE id = ?", "SELECT c, SUM(k) FROM sb WHERE id = ?", "SELECT c FROM sb WHERE id = ? OR k = 1 ORDER BY id",
		"SELECT c FROM sb WHERE id = ? FOR UPDATE", "SELECT /*+ MAX_EXECUTION_TIME(1000) */ c FROM sb WHERE id = ?", "SELECT SQL_CALC_FOUND_ROWS c FROM sb WHERE id = ?",
		"SELECT d, b FROM wide WHERE id = ?", "SELECT at, y, l FROM texts WHERE id = ?", "INSERT IGNORE INTO sb (id, k) VALUES (?, 1)", "REPLACE INTO sb (id, k) VALUES (?, 1)",
		"INSERT INTO sb (id, k) VALUES (?, 1) ON DUPLICATE KEY UPDATE k = k + 1", "UPDATE sb SET id = id WHERE id = ?", "UPDATE sb SET c = 'ODD', pad = UPPER(pad) WHERE id = ?", "UPDATE sb SET c = 'odd', pad = LOWER(pad) WHERE id = ?",
		"INSERT INTO sb (id, k) VALUES (?, 1) ON DUPLICATE KEY UPDATE c = UPPER(c)", "UPDATE sb SET k = c WHERE id = ?",
		"INSERT INTO sb (id, id) VALUES (?, 1)", "INSERT INTO sb (k) VALUES (?)", "INSERT INTO sb VALUES (?)", "INSERT INTO wide (id) VALUES (?)", "UPDATE sb SET k = k + 1, k = k + 1 WHERE id = ?",
		"SELECT * FROM wide WHERE id = ?", "SELECT * FROM texts WHERE id = ?", "SELECT n FROM texts WHERE id >= ? ORDER BY n", "SELECT DISTINCT w FROM texts WHERE id > ? ORDER BY w",
		"SELECT c FROM alike.sb WHERE sb.id = ?", "UPDATE wide SET f = 1.5, u = NULL WHERE id = ?", "UPDATE texts SET w = 'new', k = k + 9223372036854775807 WHERE id = ?", "SELECT k FROM sb WHERE id = ? LIMIT 1, 2",
		"SELECT c FROM sb WHERE id = -? ", "UPDATE wide SET u = u - 1 WHERE id = ?", "INSERT INTO texts (id, c) VALUES (8388607, ?)", "DELETE FROM texts WHERE id > 8388000 AND 0 = ?")
	return generated{text: text, args: []any{id}}
}

// pair are two connections that get the same commands.
type pair struct {
	t        *testing.T
	sides    [2]*packets
	prepared map[string]uint32 // statements by text
	last     []byte            // answer
}

// both sends a command to both and compares the answers.
func (p *pair) both(what string, command []byte, prepare bool) (answer []byte, same bool) {
	p.t.Helper()
	for _, side := range p.sides {
		side.send(p.t, 0, command)
	}
	a, b := p.sides[0].answer(p.t, prepare), p.sides[1].answer(p.t, prepare)
	p.last = a
	if !bytes.Equal(a, b) {
		p.t.Errorf("%s\nby the executor: %q\nby the planner:  %q", what, a, b)
		return a, false
	}
	return a, true
}

func (p *pair) text(text string) bool {
	p.t.Helper()
	_, same := p.both(text, append([]byte{3}, text...), false)
	return same
}

func (p *pair) execute(text string, args []any) bool {
	p.t.Helper()
	id, known := p.prepared[text]
	if !known {
		answer, same := p.both("prepare "+text, append([]byte{22}, text...), true)
		if !same || answer[4] != 0 {
			return same
		}
		id = binary.LittleEndian.Uint32(answer[5:])
		p.prepared[text] = id
	}
	command := append(binary.LittleEndian.AppendUint32([]byte{23}, id), 0, 1, 0, 0, 0)
	if len(args) > 0 {
		nulls := make([]byte, (len(args)+7)/8)
		var types, values []byte
		for i, a := range args {
			switch v := a.(type) {
			case nil:
				nulls[i/8] |= 1 << (i % 8)
				types = append(types, byte(wire.Long), 0)
			case int64:
				types = append(types, byte(wire.LongLong), 0)
				values = binary.LittleEndian.AppendUint64(values, uint64(v))
			case uint64:
				types = append(types, byte(wire.LongLong), 0x80)
				values = binary.LittleEndian.AppendUint64(values, v)
			case float64:
				types = append(types, byte(wire.Double), 0)
				values = binary.LittleEndian.AppendUint64(values, math.Float64bits(v))
			case string:
				types = append(types, byte(wire.String), 0)
				values = append(append(values, byte(len(v))), v...)
			default:
				types = append(types, byte(wire.VarString), 0)
				s := fmt.Sprint(v)
				values = append(append(values, byte(len(s))), s...)
			}
		}
		command = append(append(append(append(command, nulls...), 1), types...), values...)
	}
	_, same := p.both(fmt.Sprint("execute ", text, args), command, false)
	return same
}

// packets is a client that sees packets.
type packets struct{ nc net.Conn }

func dialPackets(t testing.TB, addr string, more wire.Capabilities) *packets {
	t.Helper()
	return dialAs(t, addr, "root", more)
}

func dialAs(t testing.TB, addr, user string, more wire.Capabilities) *packets {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &packets{nc}
	c.login(t, user, more)
	return c
}

// login logs in as a user without a password.
func (c *packets) login(t testing.TB, user string, more wire.Capabilities) {
	t.Helper()
	c.packet(t) // the greeting
	b := binary.LittleEndian.AppendUint32(nil, uint32(1<<9|1<<15|1<<19|more))
	b = append(binary.LittleEndian.AppendUint32(b, 1<<24), 45)
	b = append(append(b, make([]byte, 23)...), user+"\x00\x00mysql_native_password\x00"...)
	for seq := byte(1); ; seq += 2 {
		c.send(t, seq, b)
		switch answer := c.packet(t); answer[4] {
		case 0:
			return
		case 0xfe, 0x01: // another plugin, or that it is content
			b = nil
			if answer[4] == 1 {
				c.packet(t)
				return
			}
		default:
			t.Fatalf("login: %q", answer)
		}
	}
}

func (c *packets) send(t testing.TB, seq byte, payload []byte) {
	t.Helper()
	n := len(payload)
	if _, err := c.nc.Write(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, payload...)); err != nil {
		t.Fatal(err)
	}
}

func (c *packets) packet(t testing.TB) []byte {
	t.Helper()
	if err := c.nc.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4, 256)
	if _, err := io.ReadFull(c.nc, b); err != nil {
		t.Fatal(err)
	}
	n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	b = append(b, make([]byte, n)...)
	if _, err := io.ReadFull(c.nc, b[4:]); err != nil {
		t.Fatal(err)
	}
	return b
}

// command returns the whole answer to a command.
func (c *packets) command(t testing.TB, payload []byte, prepare bool) []byte {
	t.Helper()
	c.send(t, 0, payload)
	return c.answer(t, prepare)
}

func (c *packets) answer(t testing.TB, prepare bool) []byte {
	t.Helper()
	all := c.packet(t)
	ends := 0
	switch {
	case all[4] == 0xff || all[4] == 0 && !prepare:
		return all
	case !prepare:
		ends = 2
	default:
		for _, n := range []byte{all[9], all[11]} {
			if n > 0 {
				ends++
			}
		}
	}
	for ends > 0 {
		b := c.packet(t)
		all = append(all, b...)
		if b[4] == 0xfe && len(b) < 4+9 {
			ends--
		} else if b[4] == 0xff {
			return all
		}
	}
	return all
}

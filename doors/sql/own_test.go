package sql

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestOwnTables: who waits for whom, what is open and what ran is readable by SELECT, while it is so.
func TestOwnTables(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root, holder, waiter := r.connect("test"), r.connect("test"), r.connect("test")
	ask := func(text string) string {
		t.Helper()
		got, err := query(root, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return got
	}
	r.exec(root, "CREATE TABLE t (a INT, b VARCHAR(20), c DATE, n INT, PRIMARY KEY (a, b, c), KEY by_n (n))")
	r.exec(root, "INSERT INTO t VALUES (-7, 'O''Neil é', '2026-01-02', 3), (8, 'x', '2026-01-02', NULL)")
	has, waits := connection(t, holder), connection(t, waiter)
	r.exec(holder, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; UPDATE t SET n = 4 WHERE a = -7")
	done := make(chan error, 1)
	go func() {
		_, err := waiter.ExecContext(context.Background(), "UPDATE t SET n = 5 WHERE a = -7")
		done <- err
	}()
	wait.Until(t, "the other one waits", func() bool {
		return ask("SELECT state FROM holdfast.transactions WHERE session = "+waits) == "waiting\n"
	})
	if got := ask("SHOW PROCESSLIST"); !regexp.MustCompile(`(?m)^` + waits + `\|.*\|Query\|\d+\|waiting for a lock\|UPDATE`).MatchString(got) {
		t.Errorf("SHOW PROCESSLIST: %q", got)
	}
	got := ask("SELECT session, user, level, state, xid, rows_locked, bytes > 0, age_ms >= 0, wait_ms, view_index FROM holdfast.transactions WHERE session = " + has)
	if got != has+"|root@localhost|READ-COMMITTED|active|NULL|3|1|1|NULL|NULL\n" {
		t.Errorf("the transaction of who has the lock: %q", got)
	}
	got = ask("SELECT lock_type, table_schema, table_name, index_name, lock_data, lock_mode, holder_session, waiter_session, wait_ms >= 0 FROM holdfast.locks WHERE lock_type = 'row' ORDER BY BINARY index_name, lock_data, waiter_session")
	row := "row|test|t|PRIMARY|-7, 'O''NEIL E', '2026-01-02'|exclusive|" + has
	want := row + "|NULL|NULL\n" + row + "|" + waits + "|1\n" +
		"row|test|t|by_n|3, -7, 'O''NEIL E', '2026-01-02'|exclusive|" + has + "|NULL|NULL\n" + "row|test|t|by_n|4, -7, 'O''NEIL E', '2026-01-02'|exclusive|" + has + "|NULL|NULL\n"
	if got != want {
		t.Errorf("locks:\n%s\nwant\n%s", got, want)
	}
	got = ask("SELECT w.user, h.user FROM holdfast.locks l JOIN holdfast.transactions w ON w.id = l.waiter JOIN holdfast.transactions h ON h.id = l.holder")
	if got != "root@localhost|root@localhost\n" {
		t.Errorf("who waits for whom: %q", got)
	}
	r.exec(holder, "COMMIT")
	if err := wait.For(t, "the statement ends", done); err != nil {
		t.Error(err)
	}
	r.exec(holder, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; SELECT * FROM t WHERE a >= 5; SELECT GET_LOCK('mine', 0); SELECT * FROM t WHERE n > 7 AND n <= 9")
	got = ask("SELECT lock_type, lock_data, lock_mode FROM holdfast.locks WHERE lock_type IN ('range', 'name') ORDER BY lock_type, lock_data")
	if got != "name|mine|exclusive\nrange|behind 7 through 9|shared\nrange|from 5 to the end|shared\n" {
		t.Errorf("other locks: %q", got)
	}
	r.exec(holder, "ROLLBACK; SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	r.exec(holder, "XA START 'x', 'y', 7; UPDATE t SET n = 9 WHERE a = 8; XA END 'x', 'y', 7; XA PREPARE 'x', 'y', 7")
	if got = ask("SELECT state, xid, rows_locked, session FROM holdfast.transactions WHERE xid IS NOT NULL"); got != "prepared|X'78',X'79',7|0|NULL\n" {
		t.Errorf("what is prepared: %q", got)
	}
	r.exec(root, "XA ROLLBACK X'78',X'79',7")
	if got = ask("SELECT COUNT(*) FROM holdfast.transactions"); got != "0\n" {
		t.Errorf("at rest: %q", got)
	}
	r.exec(root, "INSERT INTO t (a, b, c) SELECT id, 'own', '2026-01-01' FROM holdfast.transactions")
	if got = ask("SHOW TABLES FROM holdfast"); got != "locks\nstatements\ntransactions\n" {
		t.Errorf("tables: %q", got)
	}
	if got = ask("SHOW DATABASES"); strings.Contains(got, "holdfast") {
		t.Errorf("a dump of all databases would have %q", got)
	}
	for text, lines := range map[string]int{"SHOW COLUMNS FROM holdfast.locks": 11, "DESCRIBE holdfast.statements": 8, "SHOW INDEX FROM holdfast.locks": 0, "SHOW CREATE TABLE holdfast.transactions": -1,
		"SHOW TABLE STATUS FROM holdfast": 3, "EXPLAIN SELECT * FROM holdfast.locks l JOIN test.t ON t.a = l.holder": -1, "SELECT * FROM holdfast.locks WHERE holder = 1 ORDER BY wait_ms LIMIT 1": 0,
		"SELECT COUNT(*), MAX(age_ms) FROM holdfast.transactions t JOIN holdfast.locks l ON l.holder = t.id GROUP BY t.session HAVING COUNT(*) > 1": 0} { // any order: each is on its own
		if got := ask(text); lines >= 0 && strings.Count(got, "\n") != lines {
			t.Errorf("%s: %q, want %d lines", text, got, lines)
		}
	}
	r.exec(root, "LOCK TABLES t READ")
	if got = ask("SELECT lock_mode, holder_session IS NOT NULL FROM holdfast.locks WHERE table_name = 't'"); got != "shared|1\n" {
		t.Errorf("beside locked tables: %q", got)
	}
	r.exec(root, "UNLOCK TABLES; USE holdfast")
	if got = ask("SELECT COUNT(*) FROM locks WHERE lock_type = 'row'"); got != "0\n" {
		t.Errorf("with the database as the default: %q", got)
	}
	for text, code := range map[string]uint16{"INSERT INTO holdfast.locks (lock_type) VALUES ('x')": 1235, "UPDATE holdfast.locks SET lock_type = 'x'": 1235, "DELETE FROM holdfast.locks": 1235, "CREATE TABLE holdfast.t (a INT)": 1049, "DROP DATABASE holdfast": 1044,
		"SELECT * FROM holdfast.locks FOR UPDATE": 1235, "DROP TABLE holdfast.locks": 1051, "TRUNCATE holdfast.statements": 1146} { // any order: each is on its own
		if _, err := root.ExecContext(context.Background(), text); number(err) != code {
			t.Errorf("%s: %v, want %d", text, err, code)
		}
	}
}

// TestStatementsAreCounted: by what they have in common, with no value in it, and for as many as there is room.
func TestStatementsAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.connect("test")
	r.exec(root, "CREATE TABLE t (id INT PRIMARY KEY, n VARCHAR(20)); CREATE USER guest IDENTIFIED BY 'hush'; GRANT ALL ON test.* TO guest")
	guest, err := r.login(served{r.d, r.addr}, "guest", "hush", "test")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r.exec(guest, fmt.Sprintf("INSERT INTO t VALUES (%d, 'hush'), (%d, \"hush\")", i, 10+i))
	}
	if _, err := guest.ExecContext(context.Background(), "INSERT INTO t VALUES (1, 'hush'), (2, 'hush')"); number(err) != 1062 {
		t.Fatal(err)
	}
	if _, err := query(guest, "SELECT n FROM t WHERE id < ?", 12); err != nil {
		t.Fatal(err)
	}
	const about = "SELECT digest_text, calls, errors, `rows`, total_us >= max_us AND max_us > 0 FROM holdfast.statements WHERE user = 'guest@%' AND digest_text LIKE '%t %' ORDER BY calls DESC"
	want := "INSERT INTO t VALUES (...)|4|1|6|1\nSELECT n FROM t WHERE id < ?|1|0|5|1\n"
	if got, err := query(root, about); got != want || err != nil {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	all, err := query(root, "SELECT * FROM holdfast.statements")
	if err != nil || strings.Contains(all, "hush") || !strings.Contains(all, engine.Hidden) || !regexp.MustCompile(`(?m)^root@localhost\|[0-9a-f]{16}\|CREATE TABLE`).MatchString(all) {
		t.Errorf("%v: %s", err, all)
	}
	if got, err := query(guest, "SELECT COUNT(DISTINCT user), MIN(user) FROM holdfast.statements"); got != "1|guest@%\n" || err != nil {
		t.Errorf("another user sees %q %v", got, err)
	}
	r.exec(root, "BEGIN; UPDATE t SET n = 'x' WHERE id = 1")
	for _, text := range []string{"SELECT COUNT(*) FROM holdfast.transactions WHERE user <> 'guest@%'", "SELECT COUNT(*) FROM holdfast.locks WHERE lock_type = 'row'"} {
		if got, err := query(guest, text); got != "0\n" || err != nil {
			t.Errorf("%s: %q %v", text, got, err)
		}
	}
	var s statements
	for i := range 2 * mostDigests {
		s.add("root@localhost", fmt.Sprintf("SELECT c%d FROM t", i), time.Millisecond, 1, i%2 == 0)
	}
	rest := s.all[digestKey{}]
	if len(s.all) != mostDigests+1 || rest == nil || rest.calls.Load() != mostDigests || rest.errors.Load() != mostDigests/2 {
		t.Errorf("%d digests are kept, the rest: %+v", len(s.all), rest)
	}
}

// TestViewVariables: a session may have less than the defaults, and more of them if its account may manage others.
func TestViewVariables(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.connect("test")
	r.exec(root, "CREATE USER guest IDENTIFIED BY 'x'; GRANT ALL ON test.* TO guest")
	guest, err := r.login(served{r.d, r.addr}, "guest", "x", "test")
	if err != nil {
		t.Fatal(err)
	}
	r.exec(root, "SET SESSION holdfast_view_seconds = 86400, holdfast_view_bytes = 1099511627776")
	const show = "SELECT @@holdfast_view_seconds, @@holdfast_view_bytes"
	if got, err := query(root, show); got != "86400|1099511627776\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	r.exec(guest, "SET holdfast_view_seconds = 5, holdfast_view_bytes = 1048576")
	r.d.clients.mu.Lock()
	for _, s := range r.d.clients.all { // any order: each is looked at by itself
		want := txn.ViewLimit{Age: 24 * time.Hour, Bytes: 1 << 40}
		if s.client.User == "guest" {
			want = txn.ViewLimit{Age: 5 * time.Second, Bytes: 1 << 20}
		}
		if s.client.Database != "" && s.s.ViewLimit() != want {
			t.Errorf("the views of %s: %+v", s.client.User, s.s.ViewLimit())
		}
	}
	r.d.clients.mu.Unlock()
	for _, text := range []string{"SET holdfast_view_seconds = 601", "SET @@session.holdfast_view_bytes = 17179869185"} {
		if _, err := guest.ExecContext(context.Background(), text); number(err) != 1227 {
			t.Errorf("%s: %v, want 1227", text, err)
		}
	}
	if got, err := query(guest, show); got != "600|17179869184\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if got, err := query(guest, "SHOW VARIABLES LIKE 'holdfast\\_view%'"); got != "holdfast_view_bytes|17179869184\nholdfast_view_seconds|600\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

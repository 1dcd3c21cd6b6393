package sql

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// connection is the number of a client's connection.
func connection(t *testing.T, c *sql.Conn) string {
	t.Helper()
	id, err := query(c, "SELECT CONNECTION_ID()")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(id)
}

// TestProcesslist: an operator sees who is connected and what runs, without the passwords in it.
func TestProcesslist(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.connect("test"), r.connect("")
	id := connection(t, b)
	done := make(chan error, 1)
	const long = "SELECT SLEEP(600), 'a text that makes the statement longer than what SHOW PROCESSLIST shows of one without FULL'"
	go func() {
		_, err := query(b, long)
		done <- err
	}()
	line := func(text string) string {
		t.Helper()
		got, err := query(a, text)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(got) {
			if strings.HasPrefix(l, id+"|") {
				return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(strings.TrimSpace(l[len(id)+1:]), "HOST")
			}
		}
		return ""
	}
	wait.Until(t, "the statement runs", func() bool { return strings.Contains(line("SHOW PROCESSLIST"), "Query") })
	for text, want := range map[string]string{
		"SHOW PROCESSLIST":      `root\|HOST\|NULL\|Query\|\d+\|running\|SELECT SLEEP\(600\), 'a text that makes the statement longer than what SHOW PROCESSLIST shows of one w`,
		"SHOW FULL PROCESSLIST": `root\|HOST\|NULL\|Query\|\d+\|running\|` + regexp.QuoteMeta(long),
		"SELECT id, user, db, command, info FROM information_schema.processlist": `root\|NULL\|Query\|` + regexp.QuoteMeta(long),
	} { // any order: each is on its own
		if got := line(text); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%s: %q", text, got)
		}
	}
	r.exec(a, "KILL QUERY "+id)
	if err := wait.For(t, "the statement ends", done); err != nil && number(err) != 1317 {
		t.Error(err)
	}
	if got := line("SHOW PROCESSLIST"); !regexp.MustCompile(`^root\|HOST\|NULL\|Sleep\|\d+\|\|NULL$`).MatchString(got) {
		t.Errorf("at rest: %q", got)
	}
	r.exec(b, "USE test")
	if got := line("SHOW PROCESSLIST"); !strings.HasPrefix(got, "root|HOST|test|Sleep|") {
		t.Errorf("with a database: %q", got)
	}
	r.exec(a, "KILL "+id+"; SELECT 1")
	wait.Until(t, "the connection is gone", func() bool { return line("SHOW PROCESSLIST") == "" })
	if _, err := query(b, "SELECT 1"); err == nil {
		t.Error("a connection that was killed answers")
	}
	for _, text := range []string{"KILL 4000000000", "KILL QUERY " + id, "KILL CONNECTION 99999999999999999999"} {
		if _, err := a.ExecContext(context.Background(), text); number(err) != 1094 {
			t.Errorf("%s: %v, want 1094", text, err)
		}
	}
}

// TestPasswordsAreNotShown: a statement that may have one is hidden from others.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.connect("test"), r.connect("")
	id := connection(t, b)
	go func() { _, _ = query(b, "SELECT SLEEP(600), \"IDENTIFIED BY 'hush'\"") }() // it ends with the connection
	shows := func(text string) string {
		got, err := query(a, text)
		if err != nil {
			t.Error(err)
		}
		return got
	}
	wait.Until(t, "the statement runs", func() bool { return strings.Contains(shows("SHOW FULL PROCESSLIST"), "<hidden") })
	for _, text := range []string{"SHOW PROCESSLIST", "SHOW FULL PROCESSLIST", "SELECT * FROM information_schema.processlist"} {
		if got := shows(text); strings.Contains(got, "hush") {
			t.Errorf("%s: %q", text, got)
		}
	}
	r.exec(a, "KILL "+id)
}

// TestStatus: what is counted goes up, and LIKE chooses.
func TestStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	value := func(name string) (n int) {
		t.Helper()
		got, err := query(c, "SHOW GLOBAL STATUS LIKE '"+name+"'")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(got, name+"|%d\n", &n); err != nil {
			t.Fatalf("%q %v", got, err)
		}
		return n
	}
	selects, questions, connections := value("Com_select"), value("Questions"), value("Connections")
	r.exec(c, "BEGIN; SELECT 1; ROLLBACK")
	r.connect("")
	if s, q, n := value("Com_select"), value("Questions"), value("Connections"); s != selects+1 || q != questions+3+3 || n != connections+1 {
		t.Errorf("%d selects after %d, %d statements after %d, %d connections after %d", s, selects, q, questions, n, connections)
	}
	if got, err := query(c, "SHOW STATUS LIKE 'threads%'"); got != "Threads_connected|3\nThreads_running|1\n" {
		t.Errorf("%q %v", got, err)
	}
}

// TestWhoSeesWhom: an account sees and ends its own clients alone, and checks tables of its own databases alone. root sees all.
func TestWhoSeesWhom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.connect("test")
	r.exec(root, "CREATE TABLE t (id INT PRIMARY KEY); CREATE USER one IDENTIFIED BY 'x', two IDENTIFIED BY 'x'; CREATE DATABASE own; GRANT ALL ON own.* TO one")
	var one, again *sql.Conn
	for user, c := range map[**sql.Conn]string{&one: "one", &again: "one"} { // any order: the same user twice
		login, err := r.login(served{r.d, r.addr}, c, "x", "")
		if err != nil {
			t.Fatal(err)
		}
		*user = login
	}
	two, err := r.login(served{r.d, r.addr}, "two", "x", "")
	if err != nil {
		t.Fatal(err)
	}
	for c, n := range map[*sql.Conn]int{root: 5, one: 2, two: 1} { // any order: each asks for itself
		for _, text := range []string{"SHOW PROCESSLIST", "SELECT * FROM information_schema.processlist"} {
			if got, err := query(c, text); err != nil || strings.Count(got, "\n") != n {
				t.Errorf("%s: %q %v, want %d", text, got, err, n)
			}
		}
	}
	for _, c := range []struct {
		by   *sql.Conn
		text string
		code uint16
	}{
		{two, "KILL QUERY " + connection(t, one), 1095}, {two, "KILL " + connection(t, root), 1095}, {one, "KILL " + connection(t, again), 0},
		{root, "KILL " + connection(t, two), 0}, {one, "CHECK TABLE test.t", 1142}, {one, "CHECK TABLE test.none", 1142}, {one, "CHECK TABLE own.none", 0},
	} {
		if _, err := c.by.ExecContext(context.Background(), c.text); number(err) != c.code {
			t.Errorf("%s: %v, want %d", c.text, err, c.code)
		}
	}
}

// TestAKeptPlanAsksForGrants: a statement that a client has prepared and run is refused once the grant is gone, though its plan is kept.
func TestAKeptPlanAsksForGrants(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.connect("test")
	r.exec(root, "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 10); CREATE USER guest IDENTIFIED BY 'x'; GRANT ALL ON test.* TO guest")
	guest, err := r.login(served{r.d, r.addr}, "guest", "x", "test")
	if err != nil {
		t.Fatal(err)
	}
	read, err := guest.PrepareContext(context.Background(), "SELECT n FROM t WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (n int, err error) {
		err = read.QueryRowContext(context.Background(), 1).Scan(&n)
		return n, err
	}
	for range 3 {
		if n, err := ask(); n != 10 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	r.exec(root, "REVOKE ALL ON test.* FROM guest")
	if n, err := ask(); number(err) != 1142 {
		t.Errorf("%d, %v, want 1142", n, err)
	}
}
